"""What is searched where nobody names a space, and what cannot be searched on this machine."""

from pathlib import Path
from typing import Any

import pytest

import tuner
from tests.fake_program import COMMAND, FakeProgramLauncher
from tests.fakes import UDF, FakeLauncher, fake_trace
from tests.searching.tuning import Listening, Tune
from tuner.api import forecast
from tuner.errors import UsageError
from tuner.files import written_atomically
from tuner.plan.config import Config
from tuner.plan.draft import draft_plan
from tuner.searching import searched_space
from tuner.searching.searched_space import draft_here
from tuner.study.answer import StudyAnswer
from tuner.trace.analyze.diagnosis import Diagnosis
from tuner.trace.analyze.suggestions import Suggestion
from tuner.world.launcher import WorldOrder
from tuner.world.measurement import Failure, Measurement

MINE = UDF.model_copy(update={"reference": "mine.py:Mine"})
FORBIDDEN = "the system does not permit to set CPU affinity (Operation not permitted)"
ONE_CPU = "cpu_binding=equal is not searched: a world has one logical CPU here"
NAMED = {"num_worker_threads": [1, 2], "cpu_binding": ["none", "equal"]}


@pytest.fixture(autouse=True)
def two_cpus(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(searched_space, "usable_cpus", lambda: 2)
    monkeypatch.setattr(searched_space, "why_not_bound", lambda: "")


@pytest.fixture
def no_affinity(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(searched_space, "why_not_bound", lambda: FORBIDDEN)


@pytest.fixture
def tune(tmp_path: Path) -> Tune:
    """A search for a workload that no plan is shipped for."""

    def run(launcher: FakeLauncher | None = None, **changes: Any) -> StudyAnswer:
        running = launcher or FakeLauncher(spec=MINE)
        keys = {"out": tmp_path / "study", "budget": "30s", **changes}
        return tuner.tune("mine.py:Mine", launcher=running, clock=running.clock, **keys)

    return run


def here(told: list[str] | None = None, **keys: Any) -> dict[str, list[object]]:
    draft = draft_plan({"workload": "mine.py:Mine", **keys})
    return draft_here(draft, None, ([] if told is None else told).append).space.to_json()


def bound(config: Config) -> object:
    return config.for_role("server").get("cpu_binding")


def test_a_search_without_a_space_tries_threads_and_binding(tune: Tune) -> None:
    answer = tune(FakeLauncher(lambda c: 1.0 if bound(c) == "equal" else 2.0, spec=MINE))
    assert str(answer.baseline) == "cpu_binding=none num_worker_threads=16"
    assert len(answer.rows) == 12
    assert answer.verdict == "better"
    assert answer.best is not None
    assert bound(answer.best) == "equal"


def test_a_forecast_counts_what_would_be_searched(monkeypatch: pytest.MonkeyPatch) -> None:
    def configs() -> int:
        launcher = FakeLauncher(spec=MINE)
        return forecast("mine.py:Mine", launcher=launcher, clock=launcher.clock)[0].configs

    assert configs() == 12
    monkeypatch.setattr(searched_space, "usable_cpus", lambda: 1)
    assert configs() == 6


@pytest.mark.parametrize(
    ("keys", "is_bound", "said"),
    [
        ({}, False, []),
        ({"groups": 2}, False, []),
        ({"cpus_per_world": 1}, False, []),
        ({"space": NAMED}, False, [ONE_CPU]),
        ({"space": {"cpu_binding": ["none", "equal"]}}, True, []),
        ({"space": {"cpu_binding": "none"}}, True, []),
        ({"space": NAMED, "baseline": {"cpu_binding": "equal"}}, True, []),
        ({"launcher": "ray"}, True, []),
    ],
)
def test_no_binding_is_searched_on_one_cpu(
    monkeypatch: pytest.MonkeyPatch, keys: dict[str, Any], is_bound: bool, said: list[str]
) -> None:
    if "groups" not in keys:
        monkeypatch.setattr(searched_space, "usable_cpus", lambda: 1)
    told: list[str] = []
    assert ("cpu_binding" in here(told, **keys)) == is_bound
    assert told == said


@pytest.mark.usefixtures("no_affinity")
@pytest.mark.parametrize("keys", [{}, {"space": NAMED}])
def test_what_cannot_be_bound_is_said_before_the_first_world(
    tune: Tune, keys: dict[str, Any]
) -> None:
    heard, launcher = Listening(), FakeLauncher(spec=MINE)
    answer = tune(launcher, observer=heard, **keys)
    said = f"cpu_binding=equal is not searched: {FORBIDDEN}"
    assert [each for each in heard.told if "cpu_binding" in each] == [said]
    assert {bound(row.config) for row in answer.rows} == {None}
    assert not any(row.failure for row in answer.rows)


@pytest.mark.usefixtures("no_affinity")
@pytest.mark.parametrize(
    ("keys", "where"),
    [
        ({"space": {"num_worker_threads": [1, 2], "cpu_binding": "equal"}}, "space"),
        ({"space": {"cpu_binding": "none,equal"}}, "space"),
        ({"baseline": {"cpu_binding": "equal"}}, "baseline"),
        ({"space": {"num_worker_threads": [1]}, "baseline": {"cpu_binding": "equal"}}, "baseline"),
    ],
)
def test_what_can_only_be_bound_is_refused_where_nothing_can(
    tune: Tune, keys: dict[str, Any], where: str, tmp_path: Path
) -> None:
    launcher = FakeLauncher(spec=MINE)
    with pytest.raises(UsageError) as refused:
        tune(launcher, **keys)
    assert str(refused.value) == f"{where}: cpu_binding=equal cannot be measured: {FORBIDDEN}"
    assert launcher.orders == []
    assert not (tmp_path / "study").exists()


@pytest.mark.usefixtures("no_affinity")
def test_on_a_cluster_the_hosts_decide() -> None:
    assert here(launcher="ray")["cpu_binding"] == ["none", "equal"]
    equal = {"cpu_binding": "equal"}
    assert here(launcher="ray", space=equal, baseline=equal) == {"cpu_binding": ["equal"]}


@pytest.mark.parametrize("keys", [{}, {"space": NAMED}])
def test_a_resumed_study_keeps_its_space(
    tune: Tune, monkeypatch: pytest.MonkeyPatch, keys: dict[str, Any]
) -> None:
    first = tune(FakeLauncher(spec=MINE, sigma=0.3), **keys)
    monkeypatch.setattr(searched_space, "usable_cpus", lambda: 1)
    monkeypatch.setattr(searched_space, "why_not_bound", lambda: FORBIDDEN)
    listening = Listening()
    more = tune(
        FakeLauncher(spec=MINE, sigma=0.3), budget="2m", resume=True, observer=listening, **keys
    )
    assert f"cpu_binding=equal fails from now on: {FORBIDDEN}" in listening.told
    assert more.worlds > first.worlds
    assert {row.config for row in more.rows} == {row.config for row in first.rows}


INTERVAL = Suggestion(knob="switch_interval", values="5ms,1ms,0.2ms", why="Calls wait.")
BINDING = Suggestion(knob="cpu_binding", values="none,equal", why="Threads wait.")
SAID = "switch_interval is searched too: calls wait for the GIL while another thread computes"


def suggesting(monkeypatch: pytest.MonkeyPatch, *suggestions: Suggestion) -> None:
    """What every trace suggests."""
    found = Diagnosis(rule="calls", sentences=(), suggestions=suggestions)
    monkeypatch.setattr(searched_space, "diagnose", lambda trace, roles: found)


def intervals(answer: StudyAnswer) -> set[object]:
    return {row.config.for_role("server").get("switch_interval") for row in answer.rows}


def test_calls_that_wait_for_the_gil_have_the_switch_interval_searched(
    tune: Tune, monkeypatch: pytest.MonkeyPatch
) -> None:
    suggesting(monkeypatch, BINDING, INTERVAL)
    heard, launcher = Listening(), FakeLauncher(spec=MINE)
    answer = tune(launcher, observer=heard, sampler="grid", budget="2m")
    assert heard.told.count(SAID) == 1
    assert len(answer.rows) == 36
    assert intervals(answer) == {0.005, 0.001, 0.0002}
    assert str(answer.baseline) == "cpu_binding=none num_worker_threads=16 switch_interval=5ms"
    first = launcher.traced[0]
    assert str(first.config) == "cpu_binding=none num_worker_threads=16"
    assert (first.steps, first.deadline_s) == (10, 12.0)
    again = FakeLauncher(spec=MINE)
    suggesting(monkeypatch)
    more = tune(again, sampler="grid", budget="3m", resume=True)
    assert intervals(more) == intervals(answer)


@pytest.mark.parametrize(
    ("changes", "traces"),
    [
        ({"space": {"num_worker_threads": [1, 2]}}, 0),
        ({"spec": MINE.model_copy(update={"has_gil": False})}, 0),
        ({"suggestions": [BINDING]}, 1),
        ({"trace_fails": lambda config: "timed-out"}, 1),
        # The default space takes at least 24 worlds, the larger one 72.
        ({"overhead_s": 1.0, "budget": "40s", "sampler": "grid"}, 1),
    ],
)
def test_the_switch_interval_is_not_searched_otherwise(
    tune: Tune, monkeypatch: pytest.MonkeyPatch, changes: dict[str, Any], traces: int
) -> None:
    suggesting(monkeypatch, *changes.pop("suggestions", [INTERVAL]))
    of_launcher = ("spec", "trace_fails", "overhead_s")
    launcher = FakeLauncher(
        **{"spec": MINE, **{key: changes.pop(key) for key in of_launcher if key in changes}}
    )
    heard = Listening()
    answer = tune(launcher, observer=heard, max_blocks=1, **changes)
    assert SAID not in heard.told
    assert intervals(answer) == {None}
    assert sum(each.steps == 10 for each in launcher.traced) == traces


class TracedProgram(FakeProgramLauncher):
    """A program whose runs can be traced."""

    def run(self, order: WorldOrder) -> Measurement | Failure:
        if order.trace is None:
            return super().run(order)
        self.orders.append(order)
        with written_atomically(order.trace.path) as partial:
            partial.write_bytes(fake_trace(order.config, 0.1, 5))
        return self._run(order.config)


@pytest.mark.parametrize(
    ("changes", "is_searched"),
    [
        ({}, True),
        ({"run_s": (9.0, 9.0)}, False),
        ({"run_s": ()}, False),
        ({"space": {"num_worker_threads": [1, 2]}}, False),
    ],
)
def test_a_program_has_the_switch_interval_searched_where_there_is_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, changes: dict[str, Any], is_searched: bool
) -> None:
    suggesting(monkeypatch, INTERVAL)
    run_s = changes.pop("run_s", (0.7, 0.7))
    launcher = TracedProgram(lambda config: 0.2, run_s=run_s, first_runs=2)
    heard = Listening()
    keys = {"out": tmp_path / "study", "observer": heard, "max_blocks": 2, **changes}
    answer = tuner.tune(
        program=COMMAND, launcher=launcher, clock=launcher.clock, budget="120s", **keys
    )
    assert (SAID in heard.told) == is_searched
    assert (len(intervals(answer)) > 1) == is_searched
    assert (launcher.orders[0].trace is not None) == is_searched
