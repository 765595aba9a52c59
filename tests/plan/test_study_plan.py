import json
from typing import Any

import pytest

from testing.specs import for_all, threads, workload_spec
from tuner.errors import UsageError
from tuner.plan.draft import draft_plan
from tuner.plan.measuring import Measuring
from tuner.plan.study_plan import StudyPlan
from tuner.plan.workload_spec import WorkloadSpec


def finished(spec: WorkloadSpec | None = None, **keys: Any) -> StudyPlan:
    return draft_plan({"workload": "udf", **keys}).finish(spec or workload_spec())


def test_a_workload_is_enough() -> None:
    plan = finished()
    assert (plan.name, plan.measuring) == ("udf", Measuring())
    assert plan.baseline == for_all(num_worker_threads=16, cpu_binding="none")
    assert plan.space.to_json() == {
        "num_worker_threads": [1, 2, 4, 8, 16, 32],
        "cpu_binding": ["none", "equal"],
    }


def test_every_key_is_read() -> None:
    plan = finished(
        format=2, name="threads-2", options={"calls": 8},
        space={"num_worker_threads": [1, 2], "server": {"rpc_timeout": "1..2"}},
        baseline={"num_worker_threads": 8}, objective="cpu_ms_per_step",
        require=["peak_rss_mb<=2000"], budget="2m", max_blocks=7, epsilon="5%", confidence=0.9,
        min_time="500ms", deadline=10, sampler="gp", seed=3,
    )  # fmt: skip
    assert (plan.name, plan.objective.name) == ("threads-2", "cpu_ms_per_step")
    assert plan.space.to_json() == {"num_worker_threads": [1, 2], "server.rpc_timeout": [1.0, 2.0]}
    assert str(plan.baseline) == "num_worker_threads=8 server.rpc_timeout=60"
    assert plan.measuring.model_dump() == {
        "objective_name": "cpu_ms_per_step", "second_objective_name": None,
        "require": ("peak_rss_mb<=2000",), "budget_s": 120.0, "until_clear": False,
        "max_blocks": 7, "exhaustive": False, "epsilon": 0.05, "confidence": 0.9,
        "min_time_s": 0.5, "deadline_s": 10.0, "sampler": "gp", "seed": 3,
    }  # fmt: skip
    assert StudyPlan.from_json(json.loads(json.dumps(plan.to_json()))) == plan


def test_bound_ranks_are_not_searched_with_more_intra_op_threads_than_cpus() -> None:
    spec = workload_spec(intra_op_threads=4).model_copy(update={"cpus_of_rank": 1})
    space = {"cpu_binding": "none,equal", "intra_op_threads": "1,4"}
    assert set(map(str, finished(spec, space=space).candidates())) == {
        "cpu_binding=none intra_op_threads=4",
        "cpu_binding=none intra_op_threads=1",
        "cpu_binding=equal intra_op_threads=1",
    }
    # Unless there is no other number, or nobody knows how many CPUs a rank has.
    only = {**space, "intra_op_threads": "4"}
    assert len(finished(spec, space=only).candidates()) == 2
    unknown = spec.model_copy(update={"cpus_of_rank": None})
    assert len(finished(unknown, space=space).candidates()) == 4


def test_a_study_knows_which_bound_ranks_had_fewer_intra_op_threads_than_by_themselves() -> None:
    spec = workload_spec(intra_op_threads=4).model_copy(update={"cpus_of_rank": 2})
    key, binding = "intra-op threads of bound ranks", {"cpu_binding": "none,equal"}
    found = [
        finished(each, space=space).fingerprint()[key]
        for each, space in (
            (spec, binding), (spec, {"num_worker_threads": "1,2"}),
            (spec, {**binding, "intra_op_threads": "1,2"}),
            (workload_spec(intra_op_threads=4), binding),
        )
    ]  # fmt: skip
    assert found == [["2 (caller)", "2 (server)"], [], [], []]


@pytest.mark.parametrize(
    ("keys", "problem"),
    [
        ({"format": 3}, "format is 3; this version reads format 2"),
        ({"workload": ""}, "a workload or a program is missing"),
        ({"budget": "auto:0s"}, "budget must be longer than zero, got 0s"),
        ({"epsilon": "little"}, "epsilon must be a percentage such as 3%, got 'little'"),
        ({"confidence": "5%"},
         "confidence must be at least 50%, got 5% (95% is written 95% or 0.95)"),
        ({"sampler": "tpee"}, "unknown sampler 'tpee'; did you mean tpe?"),
        ({"objective": "step"}, "unknown objective 'step'; did you mean step_ms?"),
        ({"objective": "step_ms,step_ms"}, "objective names step_ms twice"),
        ({"objective": ["step_ms", "cpu_s", "wall_s"]},
         "objective must be one name or two, got 3"),
        ({"max_blocks": 0},
         "max_blocks: input should be greater than or equal to 1, got 0"),
        ({"options": 3}, "options must be a table, got 3"),
        ({"name": "../up"},
         "name (--study) must be letters, digits, '.', '_' and '-', got '../up'"),
        ({"out": ""}, "out must name a folder, got ''"),
        ({"space": {}}, "space: it is empty; give it a knob, such as num_worker_threads=1,2,4,8"),
        ({"space": [("num_worker_threads", "8"), ("*.num_worker_threads", "4")]},
         "space: num_worker_threads is given twice"),
        ({"space": "1,2"},
         "space: it must be a table, such as num_worker_threads = [1, 2, 4], got '1,2'"),
        ({"baseline": {"server": {"num_worker_threads": 0}}},
         "baseline: num_worker_threads must be at least 1, got 0"),
        ({"baseline": [("num_worker_threads", "8"), ("num_worker_threads", "16")]},
         "baseline: num_worker_threads is given twice"),
    ],
)  # fmt: skip
def test_a_mistake_is_told_with_what_would_be_right(keys: dict[str, Any], problem: str) -> None:
    assert draft_plan({"workload": "udf", **keys}).problems == (problem,)


@pytest.mark.parametrize(
    ("given", "seconds", "shown"),
    [("auto", 600, "auto"), ("auto:20m", 1200, "auto:20m"), (" Auto:90s ", 90, "auto:1m30s")],
)
def test_a_budget_of_auto_is_a_limit(given: str, seconds: float, shown: str) -> None:
    measuring = finished(budget=given).measuring
    assert (measuring.budget_s, measuring.until_clear, measuring.budget) == (seconds, True, shown)
    assert measuring.limit.startswith("at most ")
    assert finished(budget=shown).measuring == measuring
    assert finished(budget=given).fingerprint() == finished(budget="1m").fingerprint()


def test_objectives_that_do_not_fit_are_refused() -> None:
    for objective, told in (
        ("step_ms,wall_s", "the objective wall_s is not one of a workload; known: step_ms, "),
        ("step_ms,rpc_p99_ms", "step_ms and rpc_p99_ms cannot be measured together"),
    ):
        with pytest.raises(UsageError, match=told):
            finished(objective=objective)


def test_all_mistakes_are_told_together() -> None:
    draft = draft_plan({
        "workload": "udf", "objectve": "step_ms", "budget": "soon",
        "space": {"num_worker_threads": "0,many,4", "agent.rpc_timeout": "5"},
        "baseline": {"channels": "cuda_ipc"},
    })  # fmt: skip
    with pytest.raises(UsageError) as caught:
        draft.finish(workload_spec())
    assert str(caught.value).splitlines() == [
        "the request has 6 problems",
        "  - unknown key 'objectve'; did you mean objective?",
        "  - space: num_worker_threads: must be at least 1, got 0",
        "  - space: num_worker_threads: must be a whole number, got 'many'",
        "  - budget must be a duration such as 60s, 2m or 1m30s, got 'soon'",
        "  - unknown role 'agent'; known: caller, server",
        "  - baseline: channels: cuda_ipc needs CUDA, which torch does not see here",
    ]


def test_the_candidates_begin_with_the_baseline_and_act_differently() -> None:
    doubled = finished(space={"num_worker_threads": "1..32:x2"}).candidates()
    assert doubled == [*map(threads, (16, 1, 2, 4, 8, 32))]
    plan = finished(space={"transports": "default,shm"})
    assert plan.candidates() == [for_all(transports=None), for_all(transports="shm")]
    space = {"num_worker_threads": [4], "caller.num_worker_threads": [4, 8]}
    assert [str(candidate) for candidate in finished(space=space).candidates()] == [
        "num_worker_threads=16 caller.num_worker_threads=16",
        "num_worker_threads=4 caller.num_worker_threads=4",
        "num_worker_threads=4 caller.num_worker_threads=8",
    ]


def test_the_fingerprint_tells_studies_apart() -> None:
    for keys in (
        {"space": {"num_worker_threads": [1, 2]}}, {"baseline": {"num_worker_threads": 8}},
        {"objective": "step_p99_ms"}, {"epsilon": "5%"}, {"seed": 1}, {"min_time": "1s"},
        {"deadline": "9s"}, {"launcher": "ray"}, {"launcher": "ray", "place": {"server": 1}},
        {"groups": 2},
    ):  # fmt: skip
        apart = finished(**keys).fingerprint()
        assert apart != finished().fingerprint()
        assert finished(**keys, budget="5m", max_blocks=3, out="x", name="y").fingerprint() == apart
    # Times do not depend on these: a study may be resumed with them or without.
    assert finished(isolation=False).fingerprint() == finished().fingerprint()
    on_ray = finished(launcher="ray", ray_address="h:1")
    assert on_ray.fingerprint() == finished(launcher="ray").fingerprint()
    # It holds the workload.
    more = workload_spec().model_copy(update={"options": {"calls": 5, "size": 100}})
    specs = (workload_spec(), workload_spec("caller"), workload_spec(reference="other:Udf"), more)
    found = [finished(spec).fingerprint() for spec in specs]
    assert found[0]["ranks"] == ["worker0 (caller)", "worker1 (server)"]
    assert len({*map(str, found)}) == len(specs)


def test_a_damaged_plan_is_refused() -> None:
    with pytest.raises(ValueError, match="unknown knob 'smoke'"):
        StudyPlan.from_json({**finished().to_json(), "space": {"smoke": [1]}})
