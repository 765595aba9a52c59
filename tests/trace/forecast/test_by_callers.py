"""What more callers would do: curves whose end is known."""

import json

import pytest

from testing.synthetic import Part, ranks, simulate
from tests.trace.forecast.test_changes import GIL, LOCK, SLEEP
from tests.trace.forecast.test_sharing import calling_each_other, several
from tuner.trace.forecast.by_callers import ByCallers, by_callers
from tuner.trace.forecast.forecasts import Model
from tuner.trace.model.trace import Trace


def curve(taken: Trace) -> list[ByCallers]:
    return by_callers(taken, Model.of(taken))


def test_callers_are_served_faster_until_something_is_full() -> None:
    # Each caller is served for 5 of 20 ms: four of them keep one thread busy.
    taken = several(Part("sleep", 5), callers=1, calls=60, threads=1, think_ms=14.8)
    rows = curve(taken)
    assert [row.callers for row in rows] == [1, 2, 3, 4, 6, 8]
    assert rows[1].throughput[0] == pytest.approx(2, rel=0.15)
    full = next(row for row in rows if row.is_full)
    assert (full.callers, full.limit) == (4, "the threads of worker1")
    assert [row.is_full for row in rows] == [row.callers >= 4 for row in rows]
    assert full.throughput[0] == pytest.approx(4, rel=0.15)
    assert rows[-1].found.ratio == pytest.approx(2, rel=0.15)
    low, high = full.throughput[1:]
    assert low < 4 < high


@pytest.mark.parametrize(
    ("part", "threads", "limit"), [(SLEEP, 8, "the threads of"), (LOCK, 16, "the lock of"),
                                   (GIL, 16, "the GIL of")],
)  # fmt: skip
def test_what_is_full_is_named(part: Part, threads: int, limit: str) -> None:
    rows = curve(simulate([part], threads=threads, at_once=8, cpus=16, steps=20,
                          processes=ranks(threads=threads, cpu_count=16)))  # fmt: skip
    assert (rows[0].is_full, rows[0].limit) == (True, f"{limit} worker1")


def test_callers_that_do_not_hinder_each_other_are_all_served() -> None:
    rows = curve(several(SLEEP, callers=2))
    assert [rows[0].callers, rows[1].callers] == [2, 4]
    assert not rows[1].is_full
    assert rows[1].found.ratio == pytest.approx(1, rel=0.05)


def test_who_calls_and_serves_has_no_curve() -> None:
    assert curve(calling_each_other()) == []
    assert by_callers(simulate([GIL], threads=16, at_once=8), "no model") == []


def test_a_row_is_json() -> None:
    row = curve(simulate([LOCK], threads=16, at_once=8))[0].to_json()
    assert json.loads(json.dumps(row)) == {
        "callers": 1, "ratio": 1.0, "ratio_low": 1.0, "ratio_high": 1.0, "throughput": 1.0,
        "throughput_low": 1.0, "throughput_high": 1.0, "is_full": True,
        "limit": "the lock of worker1",
    }  # fmt: skip
