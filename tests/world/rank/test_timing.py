import os
import subprocess
import sys
import time
from collections.abc import Callable, Sequence

import pytest

from tuner.world.rank.timing import WARM_UP_S, WARM_UP_STEPS, StepTimer, Timing, process_cpu_clock


class Stepper:
    """Steps of a length that the test chooses."""

    def __init__(self, step_s: float) -> None:
        self.step_s = step_s
        self.done: list[int] = []

    def step(self) -> None:
        until = time.perf_counter() + self.step_s
        while time.perf_counter() < until:
            pass


def time_steps(
    step: Callable[[], None],
    *,
    steps: int | None,
    min_time_s: float,
    cpu_clocks: Sequence[int],
    on_step: Callable[[int], None],
) -> Timing:
    timer = StepTimer(step, min_time_s=min_time_s, cpu_clocks=cpu_clocks, on_step=on_step)
    timer.warm_up()
    return timer.time(steps)


def test_times_as_many_steps_as_asked() -> None:
    stepper = Stepper(0.001)
    timing = time_steps(
        stepper.step, steps=7, min_time_s=1.0, cpu_clocks=[], on_step=stepper.done.append
    )
    assert len(timing.step_s) == 7
    assert all(step_s >= 0.001 for step_s in timing.step_s)
    assert timing.wall_s >= 0.007
    warm_up = len(stepper.done) - 7
    assert warm_up >= WARM_UP_STEPS
    assert warm_up * 0.001 <= WARM_UP_S + 0.05


def test_a_calibration_runs_until_the_min_time_is_over() -> None:
    stepper = Stepper(0.002)
    timing = time_steps(
        stepper.step, steps=None, min_time_s=0.05, cpu_clocks=[], on_step=stepper.done.append
    )
    assert timing.wall_s >= 0.05
    assert len(timing.step_s) <= 25


def test_slow_steps_are_warmed_up_for_no_longer_than_the_min_time() -> None:
    stepper = Stepper(0.06)
    time_steps(stepper.step, steps=1, min_time_s=0.1, cpu_clocks=[], on_step=stepper.done.append)
    assert stepper.done[-1] == 3  # two to warm up, one timed


def test_an_error_in_a_step_is_not_swallowed() -> None:
    def fail() -> None:
        raise RuntimeError("the step failed")

    with pytest.raises(RuntimeError, match="the step failed"):
        time_steps(fail, steps=1, min_time_s=0.1, cpu_clocks=[], on_step=lambda done: None)


BURN = """
import time
while time.process_time() < 0.2:
    pass
print("burnt", flush=True)
input()
"""


def test_the_cpu_clock_of_another_process_counts_its_cpu_time() -> None:
    with subprocess.Popen(
        [sys.executable, "-c", BURN], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as burner:
        assert burner.stdout is not None
        burner.stdout.readline()
        spent_s = time.clock_gettime(process_cpu_clock(burner.pid))
        burner.communicate("\n")
    assert 0.2 <= spent_s < 0.5


def test_the_cpu_clock_of_this_process_is_process_time() -> None:
    clock = process_cpu_clock(os.getpid())
    before = time.process_time()
    assert before <= time.clock_gettime(clock) <= time.process_time()
