import random
from collections import Counter

import pytest

from tuner.world.rank import timing
from tuner.world.rank.timing import WARM_UP_S, WARM_UP_STEPS, StepTimer


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


def test_of_many_steps_a_sample_is_kept_each_as_likely(monkeypatch: pytest.MonkeyPatch) -> None:
    now_ns = done = 0

    def step() -> None:
        nonlocal now_ns, done
        done += 1
        now_ns += done  # each takes as many nanoseconds as its number

    monkeypatch.setattr(timing, "perf_counter_ns", lambda: now_ns)
    random.seed(3)
    before = random.getstate()
    timer = StepTimer(step, min_time_s=0.0, cpu_clocks=list, on_step=lambda done: None)
    found = timer.time(300_000)
    assert random.getstate() == before  # a workload has seeded it for itself
    numbers = [round(seconds * 1e9) for seconds in found.step_s]
    assert (found.steps, len(numbers)) == (300_000, 2000)
    assert numbers == sorted(set(numbers))
    tenths = Counter((number - 1) // 30_000 for number in numbers)
    assert len(tenths) == 10
    assert min(tenths.values()) > 130  # 200 are expected; 13 is a standard deviation
    assert max(tenths.values()) < 270
