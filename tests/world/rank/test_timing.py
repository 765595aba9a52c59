import random
import statistics

import pytest

from tuner.world.rank import timing
from tuner.world.rank.timing import WARM_UP_S, WARM_UP_STEPS, Reservoir, StepTimer


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


@pytest.mark.parametrize(
    ("step_s", "steps", "min_time_s", "timed", "warm_up"),
    [
        # As many steps as asked.
        (0.001, 7, 1.0, 7, max(WARM_UP_STEPS, round(WARM_UP_S / 0.001))),
        # A calibration runs until the least time is over.
        (0.002, None, 0.05, 25, 25),
        # Slow steps are warmed up for no longer than that.
        (0.06, 1, 0.1, 1, 2),
    ],
)
def test_how_many_steps_are_timed_after_how_many_to_warm_up(
    monkeypatch: pytest.MonkeyPatch, step_s: float, steps: int | None, min_time_s: float,
    timed: int, warm_up: int,
) -> None:  # fmt: skip
    found = Stepper(monkeypatch, step_s, steps=steps, min_time_s=min_time_s)
    assert found.timing.step_s == [step_s] * timed
    assert found.timing.steps == timed
    assert found.timing.wall_s == pytest.approx(step_s * timed)
    assert found.done == [*range(1, warm_up + timed + 1)]


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
