import random
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import ClassVar

import pytest

from tuner.world.launcher import TraceOrder
from tuner.world.rank import timing
from tuner.world.rank.timing import WARM_UP_S, WARM_UP_STEPS, StepTimer, time_traced_steps


def timer(
    patch: pytest.MonkeyPatch, length_ns: Callable[[int], int], min_time_s: float = 0.0
) -> tuple[StepTimer, list[int]]:
    """Times steps that take so long by a clock of their own, by their number; which are done."""
    done = [0]
    now_ns = 0

    def step() -> None:
        nonlocal now_ns
        now_ns += length_ns(done[-1] + 1)

    patch.setattr(timing, "perf_counter_ns", lambda: now_ns)
    return StepTimer(step, min_time_s=min_time_s, cpu_clocks=list, on_step=done.append), done


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
    stepping, done = timer(monkeypatch, lambda number: round(step_s * 1e9), min_time_s)
    stepping.warm_up()
    found = stepping.time(steps)
    assert (found.step_s, found.steps) == ([step_s] * timed, timed)
    assert found.wall_s == pytest.approx(step_s * timed)
    assert done == [*range(warm_up + timed + 1)]


def test_of_many_steps_a_sample_is_kept_each_as_likely(monkeypatch: pytest.MonkeyPatch) -> None:
    random.seed(3)
    before = random.getstate()
    found = timer(monkeypatch, lambda number: number)[0].time(300_000)
    assert random.getstate() == before  # a workload has seeded it for itself
    numbers = [round(seconds * 1e9) for seconds in found.step_s]
    assert (found.steps, len(numbers)) == (300_000, 2000)
    assert numbers == sorted(set(numbers))
    tenths = Counter((number - 1) // 30_000 for number in numbers)
    assert len(tenths) == 10
    assert min(tenths.values()) > 130  # 200 are expected; 13 is a standard deviation
    assert max(tenths.values()) < 270


class FakeDriver:
    """Traces nothing; after so many turns not all operators of a turn are recorded."""

    complete_turns = 100
    did: ClassVar[list[str]] = []

    def __init__(self, **_: object) -> None:
        self.turns = 0

    def __getattr__(self, name: str) -> Callable[[], object]:
        def do() -> object:
            self.did.append(name)
            self.turns += name == "pause"
            return {"pause": self.turns <= self.complete_turns, "stop": ([], {}, (0, 9))}.get(name)

        return do


@pytest.mark.parametrize(("complete_turns", "overhead"), [(100, 1.0), (1, None)])
def test_the_overhead_is_unknown_where_a_turn_has_too_many_operators(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, complete_turns: int, overhead: float | None
) -> None:
    """And what the ranks hand over is marked as no time of the workload."""
    did = list[str]()
    monkeypatch.setattr(FakeDriver, "did", did)
    monkeypatch.setattr(FakeDriver, "complete_turns", complete_turns)
    monkeypatch.setattr(timing, "TraceDriver", FakeDriver)

    @contextmanager
    def handing_over() -> Iterator[None]:
        did.append("(")
        yield
        did.append(")")

    stepping, _ = timer(monkeypatch, lambda number: 1000)
    order = TraceOrder(path=tmp_path / "trace.json", operators=True)
    timed, found = time_traced_steps(stepping, 100, order, handing_over)
    assert (timed.steps, found) == (100, overhead)
    assert did[-4:] == ["start", "(", "stop", ")"]
    slow = [place for place, name in enumerate(did) if name in ("pause", "abandon", "stop")]
    assert slow
    assert all((did[place - 1], did[place + 1]) == ("(", ")") for place in slow)
