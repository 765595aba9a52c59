"""Programs of long runs: what stands for all of a run is chosen, and what does not, is not."""

from pathlib import Path
from typing import Any

import pytest

import tuner
from tests.searching.tuning import Listening
from tests.world.command.launching import PROGRAMS, PYTHON, launched

COMMAND = [PYTHON, str(PROGRAMS / "runs_long.py")]

pytestmark = pytest.mark.world


def test_a_run_that_is_too_long_to_wait_for_is_ended_once_its_calls_have_settled() -> None:
    with launched([*COMMAND, "60"], budget="30s") as running:
        spec = running.spec
        outcome = running.measured()
    assert spec.was_cut
    assert any("what would come later is not known" in each for each in running.told)
    assert spec.window_is_chosen
    assert spec.window_s is not None
    assert max(spec.run_s) < 50
    assert outcome.program is not None
    # Four calls in 5 ms, if the machine has nothing else to do.
    assert 20 < outcome.program.calls <= 850 * outcome.wall_s


@pytest.mark.thorough
def test_the_window_of_long_steady_runs_agrees_with_them() -> None:
    with launched([*COMMAND, "9"], budget="150s") as running:
        spec = running.spec
        windows = [running.measured() for _ in range(3)]
    assert not spec.was_cut
    assert spec.window_is_chosen
    assert all(each.world_s < spec.run_s[0] for each in windows)
    per_call_ms = sorted(each.wall_s * 1e3 / each.program.calls for each in windows if each.program)
    assert per_call_ms[1] == pytest.approx(5 / 4, rel=0.5)


@pytest.mark.thorough
def test_runs_of_two_phases_stay_whole() -> None:
    with launched([*COMMAND, "8", "3"], budget="90s") as running:
        spec = running.spec
    assert spec.window_s is None
    assert spec.why_whole


@pytest.mark.thorough
def test_a_run_that_ends_before_its_window_is_measured_as_a_whole() -> None:
    with launched([*COMMAND, "1"], window="auto:30s", warm_up="0.2s") as running:
        outcome = running.measured()
    assert outcome.program is not None
    assert outcome.program.calls == 800
    assert outcome.program.rpc_active_s == outcome.wall_s


@pytest.mark.thorough
def test_a_search_compares_windows_and_a_resumed_one_the_same(tmp_path: Path) -> None:
    asked: dict[str, Any] = {"program": [*COMMAND, "12"], "out": tmp_path / "study"}
    heard = Listening()
    first = tuner.tune(**asked, budget="150s", observer=heard)
    assert any("in a window of each run" in each for each in heard.told)
    assert first.objective.name == "ms_per_call"
    assert first.blocks > 0
    assert first.not_reached
    again = tuner.tune(**asked, budget="190s", resume=True)
    assert again.plan.fingerprint() == first.plan.fingerprint()
    assert again.blocks > first.blocks
