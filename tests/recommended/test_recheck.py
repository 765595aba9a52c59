"""The command that measures again is one that the search takes."""

import shlex
from pathlib import Path
from typing import Any

import pytest

from testing.results import FASTER, study_result
from testing.specs import threads, workload_spec
from tests.fake_program import COMMAND, FakeProgramLauncher
from tests.recommended.documents import AGENT, BY_ROLE, OF_EVERY_KNOB, recommendation
from tuner import search
from tuner.plan.config import Config
from tuner.plan.draft import PlanDraft, draft_plan, plan_mapping
from tuner.plan.study_plan import StudyPlan
from tuner.plan.workload_spec import WorkloadSpec
from tuner.recommended.building import recommendation_of
from tuner.recommended.model import Recommendation
from tuner.recommended.recheck import recheck_command
from tuner.study.search_commands import search_command


def asked_for(command: str, monkeypatch: pytest.MonkeyPatch) -> PlanDraft:
    """The plan that a command asks for, by way of the search's own flags."""
    asked: dict[str, Any] = {}
    monkeypatch.setattr("tuner.search._answer", lambda **given: asked.update(given))
    tool, name, *arguments = shlex.split(command)
    assert (tool, name) == ("rpc-tuner", "search")
    assert search.main(arguments) == 0
    given = {key: value for key, value in asked.items() if value not in (None, [], False)}
    assert not {"resume", "overwrite"} & given.keys()
    if "program" in given:
        given["programs"] = [given.pop("program"), *given.pop("beside", [])]
    return draft_plan(plan_mapping(None, given.pop("workload", None), given))


QUOTED = workload_spec(reference="my files/it's.py:Echo").model_copy(
    update={"options": {"text": "a b=$HOME", "batch": True, "low": -1.5}}
)


def planned(each: Recommendation, spec: WorkloadSpec, monkeypatch: pytest.MonkeyPatch) -> StudyPlan:
    draft = asked_for(recheck_command(each), monkeypatch)
    given = {name: str(value) for name, value in spec.options.items()}
    assert {**draft.options, **given} == draft.options
    return draft.finish(spec)


@pytest.mark.parametrize(
    ("config", "spec"),
    [
        (threads(4), workload_spec()),
        (threads(4), QUOTED),
        (OF_EVERY_KNOB, workload_spec(cuda_devices=2)),
        (BY_ROLE, AGENT),
        (Config.from_json({"*": {"transports": None, "rpc_timeout": 0.5}}), workload_spec()),
    ],
)
def test_the_command_measures_the_config_and_the_baseline(
    config: Config, spec: WorkloadSpec, monkeypatch: pytest.MonkeyPatch
) -> None:
    plan = planned(recommendation(config, spec), spec, monkeypatch)
    first, second = plan.candidates()
    assert first.for_role("server")["num_worker_threads"] == 16
    assert second == config
    found = (plan.name, plan.subject.reference, plan.objective.name)
    assert found == ("udf-check", spec.reference, "step_ms")


def test_a_recommended_baseline_meets_its_strongest_rival(monkeypatch: pytest.MonkeyPatch) -> None:
    each = recommendation(
        threads(16), verdict="keep-baseline", challenger=threads(8), challenger_speedup=FASTER
    )
    plan = planned(each, workload_spec(), monkeypatch)
    assert plan.candidates() == [threads(16), threads(8)]
    # Without a rival the shipped plan says what to try.
    alone = recommendation(threads(16), verdict="keep-baseline", challenger=None)
    assert len(planned(alone, workload_spec(), monkeypatch).candidates()) > 2


@pytest.mark.parametrize(
    "keys",
    [
        {"workload": "udf", "baseline": {"num_worker_threads": 1}, "budget": "90s"},
        {"workload": "udf", "space": {"caller.num_worker_threads": 4, "transports": "uv,shm+uv"}},
        {"workload": "udf", "objective": "step_p99_ms", "epsilon": "1%", "confidence": "90%",
         "seed": 7},
        {"workload": "udf", "max_blocks": 4, "min_time": "1s", "deadline": "77s"},
        {"workload": "udf", "objective": "step_ms,cpu_ms_per_step", "sampler": "gp"},
        {"workload": "udf", "require": ["peak_rss_mb<=2000", "step_p99_ms<=50"]},
        {"program": COMMAND, "expect": "total: 8", "roles": {"observer": "observer.*"}},
        {"programs": [COMMAND, ["sh", "-c", "a 'b'"]], "deadline": "30s", "objective": "cpu_s"},
        {"program": COMMAND, "metric": "loss=loss: ([0-9.]+)", "maximize": True, "cold": True},
        {"program": COMMAND, "window": "10s", "space": {"agent.num_worker_threads": "2,4"}},
        {"program": COMMAND, "window": "auto:1.5s", "warm_up": "0.5s"},
        {"program": COMMAND, "window": "off"},
    ],
)  # fmt: skip
def test_the_command_of_a_search_asks_for_the_same(
    keys: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    draft = draft_plan(keys)
    with FakeProgramLauncher(lambda config: 1.0) as launcher:
        spec = workload_spec() if draft.program is None else launcher.subject_of(draft)
        plan = draft.finish(spec)
        place = {"name": plan.name, "out": "its folder"}
        again = asked_for(search_command(plan, place), monkeypatch)
        spec = workload_spec() if again.program is None else launcher.subject_of(again)
        assert again.finish(spec) == plan
        assert again.out == Path("its folder")
        rechecked = asked_for(recheck_command(recommendation_of(study_result(plan))), monkeypatch)
        for name in ("min_time_s", "deadline_s", "epsilon", "confidence", "require"):
            assert getattr(rechecked.measuring, name) == getattr(plan.measuring, name)
        # A study that is resumed is known by its plan alone.
        assert draft_plan(plan.keys()).finish(spec) == plan
