"""Slices of a run: what one process does in them, and what all ranks did together."""

import math
import sys
import time
from collections.abc import Iterator

import pytest

from tuner.process_knobs import ProcessKnobs, switch_interval_s
from tuner.world.slicing import Schedule, Slice, Slicer, rates_of

SCHEDULE = Schedule(begin_s=0.0, slice_s=0.1, left_out_s=0.02, turns=(0, 1, 1))
INTERVALS_S = [0.005, 0.001]


@pytest.fixture
def knobs() -> Iterator[ProcessKnobs]:
    before = sys.getswitchinterval()
    knobs = ProcessKnobs()
    knobs.apply({"switch_interval": INTERVALS_S[0]}, 0, 1)
    yield knobs
    sys.setswitchinterval(before)


def test_values_take_turns_and_what_is_done_is_counted(knobs: ProcessKnobs) -> None:
    seen: list[tuple[Slice, float]] = []
    schedule = SCHEDULE._replace(begin_s=time.monotonic(), slice_s=0.03, left_out_s=0.01)
    slicer = Slicer(
        schedule, INTERVALS_S, knobs, lambda: time.monotonic_ns() // 1_000_000,
        lambda each: seen.append((each, switch_interval_s())),
    )  # fmt: skip
    slicer.begin()
    while len(seen) < 8:
        time.sleep(0.01)
    slicer.end()
    assert [each for each, _ in seen] == slicer.slices
    for each, interval_s in seen:
        assert interval_s == INTERVALS_S[schedule.turns[each.number % 3]]
        assert each.done == pytest.approx(each.seconds * 1e3, abs=1.01)
    assert {interval_s for _, interval_s in seen} == {*INTERVALS_S}
    # As it was.
    assert switch_interval_s() == INTERVALS_S[0]
    assert knobs.overridden() == ""


def test_what_the_program_sets_stays(knobs: ProcessKnobs) -> None:
    sys.setswitchinterval(0.05)
    knobs.switch(INTERVALS_S[1])
    assert switch_interval_s() == 0.05
    assert "set its own switch interval to 50ms" in knobs.overridden()


def test_ranks_are_joined_slice_by_slice() -> None:
    driver = [Slice(number, 0.001, 0.08, 8 * (number + 1)) for number in range(5)]
    other = [Slice(number, 0.001, 0.08, 0) for number in range(1, 6)]
    # Of the first common one it is not known whether both had begun; number 3 is late.
    other[2] = other[2]._replace(late_s=0.06)
    found = rates_of([driver, other], SCHEDULE)
    assert [(each.number, each.turn, each.before) for each in found] == [(2, 1, 1), (4, 1, 0)]
    assert [each.log_rate for each in found] == pytest.approx([math.log(300.0), math.log(500.0)])
    assert rates_of([driver, []], SCHEDULE) == []
    assert rates_of([], SCHEDULE) == []


def test_a_slice_in_which_nothing_was_done_has_a_rate() -> None:
    slices = [Slice(number, 0.0, 0.08, 0) for number in range(2)]
    (found,) = rates_of([slices], SCHEDULE)
    assert found.log_rate == pytest.approx(math.log(0.5 / 0.08))
