"""Runs are counted in windows; of long ones a part that stands for all is chosen, or none."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tuner
from testing.known import known
from testing.launching import PROGRAMS, PYTHON, launched
from tests.searching.tuning import Listening
from tests.world.command.reported import counting, report_of, until
from tuner.plan.program_request import ProgramRequest
from tuner.world.command.counting import Follow, Follower, Window, counts_of
from tuner.world.measurement import Measurement

COMMAND = [PYTHON, str(PROGRAMS / "runs_long.py")]


def test_calls_count_from_the_time_at_which_all_ranks_can_call() -> None:
    driver, late = counting(0, 0, 100, 200, 300, 400, 500), counting(1, 0, 0, 1, 1)
    found = known(counts_of(report_of(driver, late)))
    assert found.lasted_s == pytest.approx(1.5)
    expected = np.array([[0.0, 0.0], [0.5, 100.0], [1.0, 201.0], [1.5, 301.0]])
    assert found.calls == pytest.approx(expected)
    counted = found.between(0.25, 1.25)
    assert (counted.calls, counted.seconds) == (200 + 1, 1.0)
    assert counted.cpu_s == pytest.approx({0: 2.0, 1: 2.0})


def test_what_a_rank_counts_late_makes_a_window_no_longer() -> None:
    """The driver had no time to count for two seconds."""
    driver = counting(0, 0, 10, 20, 30, 40, 50, 60, 70, 80)
    server = counting(1, *[0] * 9, late_s=0.0)
    late = [
        each for each in driver if each["kind"] != "count" or each["calls"] not in (20, 30, 40, 50)
    ]
    found = known(counts_of(report_of(late, server)))
    assert found.between(1.0, 2.0).calls == 20


@pytest.mark.parametrize(
    ("calls", "counted"), [((0, 1, 2, 3, 4, 5, 6), None), ((0, 1, 1, 1, 2, 9, 9), 8)]
)
def test_a_chosen_window_goes_on_until_its_calls_tell_something(
    calls: tuple[int, ...], counted: int | None
) -> None:
    idle = counting(1, *[0] * len(calls), late_s=0.0)
    report = report_of(counting(0, *calls), idle)
    chosen = ProgramRequest(
        commands=((PYTHON,),), window_s=1.0, warm_up_s=0.5, window_is_chosen=True
    )
    found = Window(chosen, lambda: report).look(0.0)
    assert (None if found is None else found.calls) == counted


def test_a_run_that_ends_before_its_window_and_never_shuts_down_counts_to_its_end() -> None:
    ranks = [counting(rank, 0, 4, 8, 12, 16, 20) for rank in (0, 1)]
    report = report_of(*ranks)
    chosen = ProgramRequest(commands=((PYTHON,),), window_s=9.0, window_is_chosen=True)
    found = known(Window(chosen, lambda: report).rest(report))
    assert found.calls == 24
    assert found.seconds == pytest.approx(1.5)
    named = chosen.model_copy(update={"window_is_chosen": False})
    assert Window(named, lambda: report).rest(report) is None


@pytest.mark.parametrize("last", ["init_rpc", "ready"])
def test_nothing_is_counted_before_all_ranks_have_begun(last: str) -> None:
    assert counts_of(report_of(counting(0, 0, 9), until(1, last))) is None


def test_what_comes_after_the_drivers_shutdown_stands_for_nothing() -> None:
    ranks = [counting(rank, *[0] * 9, last="shutdown") for rank in (0, 1)]
    report = report_of(*ranks)
    assert counts_of(report) is None
    assert known(counts_of(report, of_calls=False)).lasted_s == pytest.approx(3.0)


def test_a_run_that_is_to_show_its_ranks_is_ended_once_calls_have_begun() -> None:
    ranks = [counting(0, 0, 0, 3, 9, late_s=0.0), counting(1, 0, 0, 0, 0, late_s=0.0)]
    report = report_of(*ranks)
    begins, settles = (
        Follower(Follow(5.0, 9.0, only_begins), lambda: report) for only_begins in (True, False)
    )
    assert begins.look(4.9) is None
    assert known(begins.look(5.0)).calls == 9
    assert settles.look(5.0) is None
    before = report_of(*(rank[:-1] for rank in ranks))
    assert Follower(Follow(5.0, 9.0, True), lambda: before).look(5.0) is None


@pytest.mark.world
def test_a_run_that_is_too_long_to_wait_for_is_ended_once_its_calls_have_settled() -> None:
    # A busy machine has stopped the launcher for 20 s, and the ranks went on.
    with launched([*COMMAND, "600"], budget="45s") as running:
        spec = running.spec
        outcome = running.measured()
    assert spec.was_cut
    assert any("what would come later is not known" in each for each in running.told)
    assert spec.window_is_chosen
    assert spec.window_s is not None
    # It was warm, and showed its ranks, its imports and the window.
    assert (len(spec.run_s), len(spec.calls)) == (1, 1)
    assert spec.starts.startswith("warm")
    # Four calls in 5 ms, if the machine has nothing else to do.
    assert 20 < known(outcome.program).calls <= 850 * outcome.wall_s


@pytest.mark.world
@pytest.mark.thorough
def test_the_window_of_long_steady_runs_agrees_with_them() -> None:
    def per_call_s(outcome: Measurement) -> float:
        return outcome.wall_s / known(outcome.program).calls

    with launched([*COMMAND, "9"], budget="150s") as running:
        spec = running.spec
        windows = [running.measured() for _ in range(3)]
    with launched([*COMMAND, "9"], window="off") as running:
        whole = running.measured()
    assert not spec.was_cut
    assert spec.window_is_chosen
    assert all(window.world_s < spec.run_s[0] for window in windows)
    assert sorted(map(per_call_s, windows))[1] == pytest.approx(per_call_s(whole), rel=0.4)


@pytest.mark.world
@pytest.mark.thorough
def test_runs_of_two_phases_stay_whole() -> None:
    with launched([*COMMAND, "8", "3"], budget="90s") as running:
        spec = running.spec
    assert spec.window_s is None
    assert spec.why_whole


@pytest.mark.world
@pytest.mark.thorough
def test_a_search_compares_windows_and_a_resumed_one_the_same(tmp_path: Path) -> None:
    asked: dict[str, Any] = {"program": [*COMMAND, "12"], "out": tmp_path / "study"}
    heard = Listening()
    first = tuner.tune(**asked, budget="60s", observer=heard)
    assert any("in a window of each run" in each for each in heard.told)
    assert first.objective.name == "ms_per_call"
    assert first.blocks > 0
    assert first.not_reached
    again = tuner.tune(**asked, budget="120s", resume=True)
    assert again.plan.fingerprint() == first.plan.fingerprint()
    assert again.blocks > first.blocks
