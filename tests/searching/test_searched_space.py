"""What is searched where nobody names a space, and what cannot be searched on this machine."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import tuner
from tests.fakes import UDF, FakeLauncher
from tests.searching.tuning import Listening
from tuner.api import forecast
from tuner.errors import UsageError
from tuner.plan.config import Config
from tuner.plan.draft import draft_plan
from tuner.searching import searched_space
from tuner.searching.searched_space import draft_here
from tuner.study.answer import StudyAnswer

MINE = UDF.model_copy(update={"reference": "mine.py:Mine"})
FORBIDDEN = "the system does not permit to set CPU affinity (Operation not permitted)"
NAMED = {"num_worker_threads": [1, 2], "cpu_binding": ["none", "equal"]}


@pytest.fixture(autouse=True)
def two_cpus(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(searched_space, "usable_cpus", lambda: 2)
    monkeypatch.setattr(searched_space, "why_not_bound", lambda: "")


@pytest.fixture
def no_affinity(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(searched_space, "why_not_bound", lambda: FORBIDDEN)


@pytest.fixture
def tune(tmp_path: Path) -> Callable[..., StudyAnswer]:
    """A search for a workload that no plan is shipped for."""

    def run(launcher: FakeLauncher | None = None, **changes: Any) -> StudyAnswer:
        running = launcher or FakeLauncher(spec=MINE)
        keys = {"out": tmp_path / "study", "budget": "30s", **changes}
        found = tuner.tune("mine.py:Mine", launcher=running, clock=running.clock, **keys)
        return found.answer

    return run


def here(told: list[str] | None = None, **keys: Any) -> dict[str, list[object]]:
    draft = draft_plan({"workload": "mine.py:Mine", **keys})
    return draft_here(draft, None, ([] if told is None else told).append).space.to_json()


def bound(config: Config) -> object:
    return config.for_role("server").get("cpu_binding")


def test_a_search_without_a_space_tries_threads_and_binding(
    tune: Callable[..., StudyAnswer],
) -> None:
    answer = tune(FakeLauncher(lambda c: 1.0 if bound(c) == "equal" else 2.0, spec=MINE))
    assert str(answer.baseline) == "cpu_binding=none num_worker_threads=16"
    assert len(answer.rows) == 12
    assert answer.verdict == "better"
    assert answer.best is not None
    assert bound(answer.best) == "equal"


def test_a_search_whose_space_is_named_tries_that_alone(tune: Callable[..., StudyAnswer]) -> None:
    answer = tune(space={"num_worker_threads": [1, 2]})
    assert {bound(row.config) for row in answer.rows} == {None}


def test_a_forecast_counts_what_would_be_searched(monkeypatch: pytest.MonkeyPatch) -> None:
    def configs() -> int:
        launcher = FakeLauncher(spec=MINE)
        return forecast("mine.py:Mine", launcher=launcher, clock=launcher.clock)[0].configs

    assert configs() == 12
    monkeypatch.setattr(searched_space, "usable_cpus", lambda: 1)
    assert configs() == 6


@pytest.mark.parametrize(
    ("keys", "is_bound"),
    [
        ({}, False),
        ({"groups": 2}, False),
        ({"cpus_per_world": 1}, False),
        ({"space": NAMED}, True),
        ({"launcher": "ray"}, True),
    ],
)
def test_a_default_space_has_no_binding_on_one_cpu(
    monkeypatch: pytest.MonkeyPatch, keys: dict[str, Any], is_bound: bool
) -> None:
    if "groups" not in keys:
        monkeypatch.setattr(searched_space, "usable_cpus", lambda: 1)
    told: list[str] = []
    assert ("cpu_binding" in here(told, **keys)) == is_bound
    assert told == []


@pytest.mark.usefixtures("no_affinity")
@pytest.mark.parametrize("keys", [{}, {"space": NAMED}])
def test_what_cannot_be_bound_is_said_before_the_first_world(
    tune: Callable[..., StudyAnswer], keys: dict[str, Any]
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
    tune: Callable[..., StudyAnswer], keys: dict[str, Any], where: str, tmp_path: Path
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
    equal = {"space": {"cpu_binding": "equal"}, "baseline": {"cpu_binding": "equal"}}
    assert here(launcher="ray", **equal) == {"cpu_binding": ["equal"]}


@pytest.mark.usefixtures("no_affinity")
def test_a_space_without_binding_is_never_touched() -> None:
    told: list[str] = []
    assert here(told, space={"cpu_binding": "none"}) == {"cpu_binding": ["none"]}
    assert told == []


@pytest.mark.parametrize("keys", [{}, {"space": NAMED}])
def test_a_resumed_study_keeps_its_space(
    tune: Callable[..., StudyAnswer], monkeypatch: pytest.MonkeyPatch, keys: dict[str, Any]
) -> None:
    first = tune(FakeLauncher(spec=MINE, sigma=0.3), **keys)
    monkeypatch.setattr(searched_space, "usable_cpus", lambda: 1)
    monkeypatch.setattr(searched_space, "why_not_bound", lambda: FORBIDDEN)
    more = tune(FakeLauncher(spec=MINE, sigma=0.3), budget="2m", resume=True, **keys)
    assert more.worlds > first.worlds
    assert {row.config for row in more.rows} == {row.config for row in first.rows}
