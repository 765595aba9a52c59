"""What is searched where nobody names a space, and what cannot be searched on this machine."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from testing.fakes import UDF, FakeLauncher
from testing.synthetic import call, operator
from testing.synthetic import trace as synthetic
from tests.fake_program import COMMAND, TracedProgramLauncher
from tests.searching.tuning import Tune
from tuner.api import dry_run
from tuner.errors import UsageError
from tuner.plan.config import Config
from tuner.plan.draft import draft_plan
from tuner.searching import beginning, inspecting, searched_space, widening
from tuner.searching.fitting import in_order_of_promise
from tuner.searching.searched_space import draft_here
from tuner.study.answer import StudyAnswer
from tuner.study.records import ForecastThreads
from tuner.trace.analyze.diagnosis import Diagnosis
from tuner.trace.analyze.suggestions import Suggestion
from tuner.trace.files.reader import read_trace
from tuner.trace.model.trace import Trace

MINE = UDF.model_copy(update={"reference": "mine.py:Mine"})
FORBIDDEN = "the system does not permit to set CPU affinity (Operation not permitted)"
ONE_CPU = "cpu_binding=equal is not searched: a world has one logical CPU here"
NAMED = {"num_worker_threads": [1, 2], "cpu_binding": ["none", "equal"]}
EQUAL = {"cpu_binding": "equal"}


@pytest.fixture(autouse=True)
def two_cpus(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(searched_space, "usable_cpus", lambda: 2)
    monkeypatch.setattr(searched_space, "why_not_bound", lambda: "")


@pytest.fixture
def no_affinity(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(searched_space, "why_not_bound", lambda: FORBIDDEN)


class TuneMine(Tune):
    """Searches for a workload that no plan is shipped for; `space` is the default one."""

    def __call__(self, launcher: FakeLauncher | None = None, /, **asked: Any) -> StudyAnswer:
        mine = {"workload": "mine.py:Mine", "space": None, "spec": MINE}
        return super().__call__(launcher, **{**mine, **asked})


@pytest.fixture
def tune(tune: Tune) -> Tune:
    return TuneMine(tune.folder)


def here(told: list[str] | None = None, **keys: Any) -> dict[str, list[object]]:
    draft = draft_plan({"workload": "mine.py:Mine", **keys})
    return draft_here(draft, None, ([] if told is None else told).append).space.to_json()


def bound(config: Config | None) -> object:
    return config and config.for_role("server").get("cpu_binding")


def test_a_search_without_a_space_tries_threads_and_binding(
    tune: Tune, monkeypatch: pytest.MonkeyPatch
) -> None:
    answer = tune(step_ms=lambda config: 1.0 if bound(config) == "equal" else 2.0)
    assert str(answer.baseline) == "cpu_binding=none num_worker_threads=16"
    assert len(answer.rows) == 12
    assert (answer.verdict, bound(answer.best)) == ("better", "equal")
    # A forecast counts what would be searched.
    for cpus, configs in ((2, 12), (1, 6)):
        monkeypatch.setattr(searched_space, "usable_cpus", lambda cpus=cpus: cpus)
        launcher = FakeLauncher(spec=MINE)
        told, _ = dry_run(workload="mine.py:Mine", launcher=launcher, clock=launcher.clock)
        assert told.configs == configs


@pytest.mark.parametrize(
    ("keys", "is_bound"),
    [
        ({}, False), ({"groups": 2}, False), ({"cpus_per_world": 1}, False),
        ({"space": NAMED}, False), ({"space": {"cpu_binding": ["none", "equal"]}}, True),
        ({"space": {"cpu_binding": "none"}}, True), ({"space": NAMED, "baseline": EQUAL}, True),
        ({"launcher": "ray"}, True),
    ],
)  # fmt: skip
def test_no_binding_is_searched_on_one_cpu(
    monkeypatch: pytest.MonkeyPatch, keys: dict[str, Any], is_bound: bool
) -> None:
    if "groups" not in keys:
        monkeypatch.setattr(searched_space, "usable_cpus", lambda: 1)
    told: list[str] = []
    assert ("cpu_binding" in here(told, **keys)) == is_bound
    assert told == ([ONE_CPU] if keys == {"space": NAMED} else [])


@pytest.mark.usefixtures("no_affinity")
def test_what_cannot_be_bound_is_said_before_the_first_world(tune: Tune) -> None:
    answer = tune()
    said = f"cpu_binding=equal is not searched: {FORBIDDEN}"
    assert [each for each in tune.heard.told if "cpu_binding" in each] == [said]
    assert {bound(row.config) for row in answer.rows} == {None}
    assert not any(row.failure for row in answer.rows)


@pytest.mark.usefixtures("no_affinity")
@pytest.mark.parametrize(
    ("keys", "where"),
    [
        ({"space": {"num_worker_threads": [1, 2], **EQUAL}}, "space"),
        ({"space": {"cpu_binding": "none,equal"}}, "space"),
        ({"baseline": EQUAL}, "baseline"),
        ({"space": {"num_worker_threads": [1]}, "baseline": EQUAL}, "baseline"),
    ],
)
def test_what_can_only_be_bound_is_refused_where_nothing_can(
    tune: Tune, keys: dict[str, Any], where: str
) -> None:
    with pytest.raises(UsageError) as refused:
        tune(**keys)
    assert str(refused.value) == f"{where}: cpu_binding=equal cannot be measured: {FORBIDDEN}"
    assert tune.launcher.orders == []
    assert not tune.folder.exists()


@pytest.mark.usefixtures("no_affinity")
def test_on_a_cluster_the_hosts_decide() -> None:
    assert here(launcher="ray")["cpu_binding"] == ["none", "equal"]
    assert here(launcher="ray", space=EQUAL, baseline=EQUAL) == {"cpu_binding": ["equal"]}


def test_a_resumed_study_keeps_its_space(tune: Tune, monkeypatch: pytest.MonkeyPatch) -> None:
    keys = {"space": NAMED}
    first = tune(sigma=0.3, **keys)
    monkeypatch.setattr(searched_space, "usable_cpus", lambda: 1)
    monkeypatch.setattr(searched_space, "why_not_bound", lambda: FORBIDDEN)
    more = tune(sigma=0.3, budget="2m", resume=True, **keys)
    assert f"cpu_binding=equal fails from now on: {FORBIDDEN}" in tune.heard.told
    assert more.worlds > first.worlds
    assert {row.config for row in more.rows} == {row.config for row in first.rows}


INTERVAL = Suggestion(knob="switch_interval", values="5ms,1ms,0.2ms", why="Calls wait.")
BINDING = Suggestion(knob="cpu_binding", values="none,equal", why="Threads wait.")
SAID = "switch_interval is searched too: calls wait for the GIL while another thread computes"


def suggesting(monkeypatch: pytest.MonkeyPatch, *suggestions: Suggestion) -> None:
    """What every trace suggests."""
    found = Diagnosis(rule="calls", sentences=(), suggestions=suggestions)
    monkeypatch.setattr(inspecting, "diagnose", lambda trace, roles: found)


def intervals(answer: StudyAnswer) -> set[object]:
    return {row.config.for_role("server").get("switch_interval") for row in answer.rows}


def test_calls_that_wait_for_the_gil_have_the_switch_interval_searched(
    tune: Tune, monkeypatch: pytest.MonkeyPatch
) -> None:
    suggesting(monkeypatch, BINDING, INTERVAL)
    answer = tune(sampler="grid", budget="2m")
    assert tune.heard.told.count(SAID) == 1
    assert len(answer.rows) == 36
    assert intervals(answer) == {0.005, 0.001, 0.0002}
    assert str(answer.baseline) == "cpu_binding=none num_worker_threads=16 switch_interval=5ms"
    first = tune.launcher.traced[0]
    assert str(first.config) == "cpu_binding=none num_worker_threads=16"
    assert (first.steps, first.deadline_s) == (10, 12.0)
    suggesting(monkeypatch)
    assert intervals(tune(sampler="grid", budget="3m", resume=True)) == intervals(answer)


@pytest.mark.parametrize(
    ("changes", "suggested", "traces"),
    [
        ({"space": {"num_worker_threads": [1, 2]}}, INTERVAL, 0),
        ({"spec": MINE.model_copy(update={"has_gil": False})}, INTERVAL, 0),
        ({}, BINDING, 1),
        ({"trace_fails": lambda config: "timed-out"}, INTERVAL, 1),
        # The default space takes at least 24 worlds, the larger one 72.
        ({"overhead_s": 1.0, "budget": "40s", "sampler": "grid"}, INTERVAL, 1),
    ],
)
def test_the_switch_interval_is_not_searched_otherwise(
    tune: Tune, monkeypatch: pytest.MonkeyPatch, changes: dict[str, Any], suggested: Suggestion,
    traces: int,
) -> None:  # fmt: skip
    suggesting(monkeypatch, suggested)
    answer = tune(max_blocks=1, **changes)
    assert SAID not in tune.heard.told
    assert intervals(answer) == {None}
    assert sum(each.steps == 10 for each in tune.launcher.traced) == traces


@pytest.mark.parametrize(
    ("run_s", "is_searched"), [((0.7, 0.7), True), ((13.0, 13.0), False), ((), False)]
)
def test_a_program_has_the_switch_interval_searched_where_there_is_time(
    tune: Tune, monkeypatch: pytest.MonkeyPatch, run_s: tuple[float, ...], is_searched: bool
) -> None:
    suggesting(monkeypatch, INTERVAL)
    launcher = TracedProgramLauncher(lambda config: 0.2, run_s=run_s, first_runs=2)
    asked = {"workload": None, "program": COMMAND, "space": None, "budget": "120s"}
    answer = tune.search(launcher, clock=launcher.clock, max_blocks=2, **asked)
    assert (SAID in tune.heard.told) == is_searched
    assert (len(intervals(answer)) > 1) == is_searched
    assert (launcher.orders[0].trace is not None) == is_searched


def with_pools(
    monkeypatch: pytest.MonkeyPatch, pool_cpu_s: float | None, operator_ms: float = 200
) -> None:
    """What the threads of operators use in every trace, of half a second; and how long an operator
    takes, if any is recorded."""

    def read(path: Path) -> Trace:
        trace = read_trace(path)
        ranks = tuple(
            replace(rank, intra_op_threads=2, pool_cpu_s=pool_cpu_s, pool_run_queue_s=0.0)
            for rank in trace.ranks
        )
        computed = [operator("aten::mm", 0, operator_ms)] if operator_ms else []
        operators = synthetic([call(0, 0, 1)], computed).operators
        return replace(
            trace, ranks=ranks, operators=operators, operators_recorded=bool(operator_ms)
        )

    monkeypatch.setattr(inspecting, "read_trace", read)


def of_program(tune: Tune, budget: str, own: dict[str, Any], **facts: Any) -> StudyAnswer:
    by_role = {role: {"num_worker_threads": 16, **own} for role in ("agent", "observer")}
    launcher = TracedProgramLauncher(
        lambda config: 0.2, own=by_role, run_s=(0.7, 0.7), first_runs=2, facts=facts
    )
    asked = {"workload": None, "program": COMMAND, "space": None, "budget": budget}
    return tune.search(launcher, clock=launcher.clock, max_blocks=2, **asked)


def intra_op(answer: StudyAnswer) -> set[object]:
    return {row.config.for_role("agent").get("intra_op_threads") for row in answer.rows}


TWO = {"intra_op_threads": 2}


@pytest.mark.parametrize(
    ("own", "pool_cpu_s", "operator_ms", "found"),
    [
        (TWO, 0.005, 200, {2, 1}),
        (TWO, 0.005, 0, {2, 1}),
        # However short each is, the pool takes part.
        (TWO, 0.3, 1, {2, 1}),
        # Operators compute hardly, or not in parallel.
        (TWO, 0.005, 1, {None}),
        (TWO, 0.0, 200, {None}),
        (TWO, None, 200, {2, 1}),
        (TWO, None, 0, {None}),
        # There are two CPUs for three ranks.
        ({"intra_op_threads": 1}, 0.3, 200, {None}),
        ({"intra_op_threads": 6}, 0.3, 200, {6, 1}),
    ],
)
def test_a_program_whose_operators_compute_has_the_intra_op_threads_searched(
    tune: Tune, monkeypatch: pytest.MonkeyPatch, own: dict[str, Any], pool_cpu_s: float | None,
    operator_ms: float, found: set[object],
) -> None:  # fmt: skip
    with_pools(monkeypatch, pool_cpu_s, operator_ms)
    answer = of_program(tune, "300s", own)
    assert intra_op(answer) == found
    # A rank so bound has one CPU.
    crowded = [row.config for row in answer.rows if row.config.binds]
    assert {each.for_role("agent").get("intra_op_threads") for each in crowded} == (
        {1} if len(found) > 1 else {None}
    )
    said = [each for each in tune.heard.told if each.startswith("intra_op_threads")]
    assert said == ["intra_op_threads is searched too, as operators compute"] * (len(found) > 1)


def test_intra_op_threads_take_the_place_of_threads_that_are_forecast_to_change_nothing(
    tune: Tune, monkeypatch: pytest.MonkeyPatch
) -> None:
    with_pools(monkeypatch, 0.3)
    ratios = {1: None, 2: 2.0, 4: 1.0, 8: 1.01, 32: 1.0}
    told: dict[tuple[float, ...], ForecastThreads] = {
        (count, count): ForecastThreads(
            threads=(count, count), ratio=ratio, low=ratio and 0.9 * ratio,
            high=ratio and 1.1 * ratio, deadlock="" if ratio else "calls wait for each other",
        )
        for count, ratio in ratios.items()
    }  # fmt: skip
    for module in (beginning, widening):
        monkeypatch.setattr(module, "forecasts_of", lambda *_: beginning.Forecasts(told))
    few = of_program(tune, "64s", TWO)
    assert intra_op(few) == {2, 1}
    counts = {row.config.for_role("agent")["num_worker_threads"] for row in few.rows}
    assert 16 in counts
    assert not counts & {4, 8, 32}
    [said] = [each for each in tune.heard.told if each.startswith("intra_op_threads")]
    assert said.endswith("instead of num_worker_threads=4, 8, 32, forecast to change nothing")


def test_a_program_that_sets_its_own_threads_later_overrides_the_knob(
    tune: Tune, monkeypatch: pytest.MonkeyPatch
) -> None:
    with_pools(monkeypatch, 0.3)
    answer = of_program(tune, "300s", TWO, sets_intra_op_threads=True)
    assert intra_op(answer) == {None}
    assert "intra_op_threads is not searched: the program calls torch.set_num_threads after " \
        "init_rpc" in tune.heard.told  # fmt: skip


def test_a_long_program_that_cannot_be_traced_in_time_is_bound_with_one_thread_first(
    tune: Tune,
) -> None:
    by_role = {role: {"num_worker_threads": 16, **TWO} for role in ("agent", "observer")}
    launcher = TracedProgramLauncher(
        lambda config: 12.0, own=by_role, run_s=(13.0, 13.0), first_runs=1
    )
    asked = {"workload": None, "program": COMMAND, "space": None, "budget": "60s"}
    answer = tune.search(launcher, clock=launcher.clock, **asked)
    assert str(answer.rows[1].config) == (
        "cpu_binding=equal intra_op_threads=1 num_worker_threads=16"
    )


@pytest.mark.parametrize(
    ("suggested", "first"),
    [
        ((), "cpu_binding=equal intra_op_threads=1 num_worker_threads=16"),
        (("intra_op_threads",), "cpu_binding=none intra_op_threads=1 num_worker_threads=16"),
        (("transports",), "cpu_binding=equal intra_op_threads=1 num_worker_threads=16"),
    ],
)
def test_what_the_diagnosis_suggests_is_the_first_bet_and_bound_ranks_the_next(
    suggested: tuple[str, ...], first: str
) -> None:
    spec = MINE.model_copy(update={"intra_op_threads": 2, "cpus_of_rank": 1})
    space = {"num_worker_threads": "8,16", "cpu_binding": "none,equal", "intra_op_threads": "1,2"}
    plan = draft_plan({"workload": "mine.py:Mine", "space": space}).finish(spec)
    _, *ordered = in_order_of_promise(plan, {}, suggested)
    assert str(ordered[0]) == first
    assert [config.for_role("server")["num_worker_threads"] for config in ordered[:2]] == [16, 16]
