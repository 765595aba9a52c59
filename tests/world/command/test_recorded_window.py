"""What a recorded program did in a window, and between its calls."""

import json
import re

import numpy as np
import pytest

from tests.programs.running import free_port
from tests.world.command.recorded import Recorded, python, recorded
from tuner.trace.analyze.diagnosis import diagnose
from tuner.trace.model.spans import TraceRank
from tuner.world.command.order import RecordingOrder

pytestmark = [pytest.mark.world, pytest.mark.thorough]


def test_the_calls_of_a_window_are_those_that_the_program_made_in_it() -> None:
    """Both ranks call each other, and calls are under way when either of their windows ends."""
    order = RecordingOrder(start_after_s=0.3, for_s=0.5)
    run = recorded(*python("both_ways.py", "2", free_port()), order=order)
    assert run.trace.losses == ()
    for name in ("left", "right"):
        (told,) = re.findall(rf"{name} made: (\[.*\])", run.printed)
        made_ns = np.array(json.loads(told))
        calls = run.trace.calls[run.trace.calls["client"] == name]
        start_ns = np.sort(calls["start_ns"].to_numpy()) + run.trace.base_time_ns
        number = np.searchsorted(made_ns, start_ns) - 1
        # None is missing in between, and none is there twice.
        assert number.tolist() == [*range(number[0], number[0] + len(calls))]
        assert number[0] > 0
        assert number[-1] < len(made_ns) - 1
        assert set(calls["status"]) == {"ok"}
        assert set(calls["link"]) == {"exact"}


def driver_of(run: Recorded) -> TraceRank:
    (driver,) = [rank for rank in run.trace.ranks if rank.name == "driver"]
    return driver


def test_a_driver_that_computes_between_its_calls() -> None:
    run = recorded(*python("between_calls.py", "compute", "0.06", free_port()))
    found = diagnose(run.trace)
    assert found.rule == "caller"
    # On a machine with other things to do, it waits for a CPU for longer than it computes.
    assert re.search("Meanwhile driver (computes|waits for a free CPU): its main", found.text)
    assert 40 * 0.06 <= (driver_of(run).main_cpu_s or 0) <= (driver_of(run).cpu_s or 0)


def test_a_driver_that_sleeps_between_its_calls() -> None:
    run = recorded(*python("between_calls.py", "sleep", "0.06", free_port()))
    found = diagnose(run.trace)
    assert found.rule == "caller"
    assert "Meanwhile driver sleeps, or waits for I/O, a lock, the GIL or a call" in found.text
    assert 0 < (driver_of(run).main_cpu_s or 0) < 40 * 0.06 / 2


def test_what_the_driver_used_in_a_window_is_of_that_window() -> None:
    order = RecordingOrder(start_after_s=0.1, for_s=0.2)
    run = recorded(*python("between_calls.py", "compute", "0.02", free_port()), order=order)
    assert 0 < (driver_of(run).main_cpu_s or 0) < 40 * 0.02
