"""Times to the nanosecond, however a file spells them."""

from decimal import Decimal
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from testing.golden_files import rows
from tuner.trace.files.chrome_events import Event, ExactEvent, SpanColumns, Spans
from tuner.trace.files.reader import read_trace

NEW_YEAR_NS = 1_704_067_200_000_000_000
"""2024."""


def spans_of(form: type[Event], *times: tuple[Any, Any]) -> Spans:
    """The spans of events with these `ts` and `dur`, as JSON has them."""
    text = ",".join(f'{{"ts": {ts}, "dur": {dur}}}' for ts, dur in times)
    columns = SpanColumns()
    columns.add(msgspec.json.decode(f"[{text}]", type=list[form]))  # type: ignore[valid-type]
    return columns.spans({None: 0})


@pytest.mark.parametrize(
    ("ts", "dur", "start_ns", "lasted_ns"),
    [
        ("1700000000000001", "10", 1_700_000_000_000_001_000, 10_000),
        ("7900000000000.001", "0.002", 7_900_000_000_000_001, 2),
        ("300.5", "30.00000000000022", 300_500, 30_000),
        ("-1.5", "1", -1500, 1000),
        ('"-1.5"', '"1"', -1500, 1000),
        # Of times since 1970 a float64 has steps of a quarter of a microsecond.
        ("1704161511420306.491", "5.5", NEW_YEAR_NS + 94_311_420_306_491, 5500),
        ('"1704161511420306.491"', '"5.5"', NEW_YEAR_NS + 94_311_420_306_491, 5500),
        ("1" + "0" * 15 + "." + "0" * 40 + "1", "1e-999999", 10**18, 0),
    ],
)
def test_times_are_exact_to_the_nanosecond(
    ts: str, dur: str, start_ns: int, lasted_ns: int, tmp_path: Path
) -> None:
    path = tmp_path / "trace.json"
    path.write_text(f'[{{"ph": "X", "cat": "cpu_op", "pid": 7, "ts": {ts}, "dur": {dur}}}]')
    trace = read_trace(path)
    ((start, end),) = rows(trace.operators, "start_ns", "end_ns")
    assert (trace.base_time_ns + start, end - start) == (start_ns, lasted_ns)


@given(st.data())
def test_a_span_that_begins_where_another_ends_does_so_afterwards(data: st.DataObject) -> None:
    """With up to six decimals: neither by a float64 nor by rounding may the two overlap."""
    digits = data.draw(st.integers(0, 6))
    unit = Decimal(1).scaleb(-digits)
    most = 10 ** (digits + 8) if digits > 3 else int(2**43 / unit) - 10_000
    start = data.draw(st.integers(0, most))
    first, second = data.draw(st.tuples(st.integers(0, 5000), st.integers(1, 5000)))
    times = [
        (start * unit, (first + second) * unit),
        (start * unit, first * unit),
        ((start + first) * unit, second * unit),
    ]
    exact = spans_of(ExactEvent, *((f'"{ts}"', f'"{dur}"') for ts, dur in times))
    (_, end, last), begin = exact.end_ns.tolist(), exact.start_ns.tolist()
    assert begin[2] == end
    assert last == exact.end_ns[0]
    assert begin[0] == round(Decimal(start) * unit * 1000 + Decimal("1e-9"))
    plain = spans_of(Event, *((f"{ts:f}", f"{dur:f}") for ts, dur in times))
    assert np.array_equal(plain.start_ns, exact.start_ns)
    assert np.array_equal(plain.end_ns, exact.end_ns)
