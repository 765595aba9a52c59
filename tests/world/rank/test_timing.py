import random
import statistics
from collections.abc import Callable
from functools import partial

import pytest

from tuner.world.rank import timing
from tuner.world.rank.timing import WARM_UP_S, WARM_UP_STEPS, Reservoir, StepTimer


@pytest.fixture
def stepper(monkeypatch: pytest.MonkeyPatch) -> Callable[..., "Stepper"]:
    return partial(Stepper, monkeypatch)


class Stepper:
    """Steps of a length that the test chooses, by a clock of its own, which are timed."""

    def __init__(
        self, patch: pytest.MonkeyPatch, step_s: float, *, steps: int | None, min_time_s: float
    ) -> None:
        self.step_ns, self.now_ns = round(step_s * 1e9), 0
        self.done: list[int] = []
        patch.setattr(timing, "perf_counter_ns", lambda: self.now_ns)
        timer = StepTimer(
            self.step, min_time_s=min_time_s, cpu_clocks=list, on_step=self.done.append
        )
        timer.warm_up()
        self.timing = timer.time(steps)

    def step(self) -> None:
        self.now_ns += self.step_ns


Steps = Callable[..., Stepper]


def test_times_as_many_steps_as_asked(stepper: Steps) -> None:
    steps = stepper(0.001, steps=7, min_time_s=1.0)
    assert steps.timing.step_s == [0.001] * 7
    assert steps.timing.wall_s == 0.007
    assert len(steps.done) - 7 == max(WARM_UP_STEPS, round(WARM_UP_S / 0.001))


def test_a_calibration_runs_until_the_min_time_is_over(stepper: Steps) -> None:
    timed = stepper(0.002, steps=None, min_time_s=0.05).timing
    assert (timed.wall_s, timed.steps) == (0.05, 25)


def test_slow_steps_are_warmed_up_for_no_longer_than_the_min_time(stepper: Steps) -> None:
    assert stepper(0.06, steps=1, min_time_s=0.1).done[-1] == 3  # two to warm up, one timed


def test_steps_that_take_nothing_fill_no_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(timing, "MOST_SAMPLES", 50)
    timer = StepTimer(lambda: None, min_time_s=0.1, cpu_clocks=list, on_step=lambda done: None)
    found = timer.time(5000)
    assert (found.steps, len(found.step_s)) == (5000, 50)


def sampled(most: int, count: int) -> Reservoir:
    reservoir = Reservoir(most)
    for number in range(count):
        reservoir.add(float(number))
    return reservoir


@pytest.mark.parametrize("count", [0, 1, 9, 10])
def test_few_numbers_are_all_kept_in_order(count: int) -> None:
    reservoir = sampled(10, count)
    assert reservoir.values() == [float(number) for number in range(count)]
    assert reservoir.count == count


def test_of_many_numbers_each_part_is_as_likely() -> None:
    reservoir = sampled(2000, 300_000)
    values = reservoir.values()
    assert len(values) == 2000
    assert reservoir.count == 300_000
    assert values == sorted(set(values))
    tenths = [sum(value // 30_000 == tenth for value in values) for tenth in range(10)]
    assert min(tenths) > 130  # 200 are expected; 13 is a standard deviation
    assert max(tenths) < 270
    assert statistics.mean(values) == pytest.approx(150_000, rel=0.07)


def test_the_workloads_own_numbers_are_not_disturbed() -> None:
    random.seed(3)
    before = random.getstate()
    sampled(10, 1000)
    assert random.getstate() == before
