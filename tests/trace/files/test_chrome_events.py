"""Times to the nanosecond, however a file spells them; and the structure that they make."""

from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.trace.golden_files import rows
from tuner.trace.files.chrome_events import Event, ExactEvent, SpanColumns, Spans
from tuner.trace.files.reader import read_trace
from tuner.trace.files.trace_text import TraceText

NEW_YEAR_NS = 1_704_067_200_000_000_000
"""2024."""


def spans_of(form: type[Event], *times: tuple[Any, Any]) -> Spans:
    """The spans of events with these `ts` and `dur`, as JSON has them."""
    text = ",".join(f'{{"ts": {ts}, "dur": {dur}}}' for ts, dur in times)
    columns = SpanColumns()
    columns.add(msgspec.json.decode(f"[{text}]", type=list[form]))  # type: ignore[valid-type]
    return columns.spans({None: 0})


@pytest.mark.parametrize(
    ("form", "ts", "dur", "start_ns", "end_ns"),
    [
        (Event, 1_700_000_000_000_001, 10, 1_700_000_000_000_001_000, 1_700_000_000_000_011_000),
        (Event, "7900000000000.001", "0.002", 7_900_000_000_000_001, 7_900_000_000_000_003),
        (Event, "300.5", "30.00000000000022", 300_500, 330_500),
        (Event, "-1.5", "1", -1500, -500),
        (ExactEvent, "1704161511420306.491", "5.5", NEW_YEAR_NS + 94_311_420_306_491, None),
        (ExactEvent, '"1704161511420306.491"', '"5.5"', NEW_YEAR_NS + 94_311_420_306_491, None),
        (ExactEvent, "-1.5", "1", -1500, -500),
        (ExactEvent, "1" + "0" * 15 + "." + "0" * 40 + "1", "1e-999999", 10**18, 10**18),
    ],
)
def test_times_are_exact_to_the_nanosecond(
    form: type[Event], ts: Any, dur: Any, start_ns: int, end_ns: int | None
) -> None:
    spans = spans_of(form, (ts, dur))
    assert spans.start_ns.tolist() == [start_ns]
    assert spans.end_ns.tolist() == [start_ns + 5500 if end_ns is None else end_ns]


@pytest.mark.parametrize("ts", ["1e300", '"NaN"', '"-Infinity"', '"sNaN"', "9" * 400, "null"])
def test_what_is_no_time_of_ours_is_left_out(ts: str) -> None:
    columns = SpanColumns()
    columns.add(msgspec.json.decode(f'[{{"ts": {ts}, "dur": 1}}]', type=list[ExactEvent]))
    text = TraceText(subject="it", content=b"")
    assert columns.losses(text, "span") == ["Left out of it: 1 span without a time stamp."]


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


SPANS = (("outer", 0, 900), ("first", 2, 302), ("inner", 3, 300), ("second", 302, 302 + 7),
         ("next", 900, 901), ("last", 906, 1000))  # fmt: skip
"""Operators of one thread that nest and touch: name, start and end in units."""
Spelling = Callable[[int], str]
"""A time in nanoseconds as text of JSON."""


def decimals(ns: int) -> str:
    return f"{ns // 1000}.{ns % 1000:03}"


def whole(ns: int) -> str:
    return str(ns // 1000)


SPELLINGS: dict[str, tuple[int, int, Spelling, int | None]] = {
    # Nanoseconds of a unit, and of the first time; how a time is written; the base in the header.
    "1.8: whole since 1970": (1000, NEW_YEAR_NS, whole, None),
    "2024: decimals since 1970": (1, NEW_YEAR_NS + 420_306_491, decimals, None),
    "text since 1970": (1, NEW_YEAR_NS + 420_306_491, lambda ns: f'"{decimals(ns)}"', None),
    "2.4: decimals since a base": (1, 91 * 86_400 * 10**9 + 1, decimals, NEW_YEAR_NS),
    "decimals since the start": (1, 0, decimals, None),
    "whole since the start": (1000, 0, whole, None),
    "floats of Python": (1, 3 * 86_400 * 10**9, lambda ns: repr(ns / 1000), NEW_YEAR_NS),
}


def document(events: str, layout: str, base_ns: int | None) -> str:
    if layout in ("array", "legacy"):
        return f"[{events}]"
    fields = [f'"traceEvents": [{events}]', '"displayTimeUnit": "ns"']
    if base_ns is not None:
        fields.append(f'"baseTimeNanoseconds": {base_ns}')
    return f"{{{', '.join(fields if layout == 'base last' else fields[::-1])}}}"


@pytest.mark.parametrize("layout", ["base first", "base last", "array", "legacy"])
@pytest.mark.parametrize("spelling", SPELLINGS.values(), ids=SPELLINGS)
@pytest.mark.parametrize(("category", "tid"), [("cpu_op", "7"), ("Operator", '"main"')])
def test_the_same_structure_has_the_same_spans_however_it_is_spelt(
    category: str, tid: str, spelling: tuple[int, int, Spelling, int | None], layout: str,
    tmp_path: Path,
) -> None:  # fmt: skip
    unit_ns, first_ns, written, base_ns = spelling
    pid = '"CPU functions"' if layout == "legacy" else "7"
    events = ", ".join(
        f'{{"ph": "X", "cat": "{category}", "name": "{name}", "pid": {pid}, "tid": {tid}, '
        f'"ts": {written(first_ns + start * unit_ns)}, "dur": {written((end - start) * unit_ns)}}}'
        for name, start, end in reversed(SPANS)
    )
    path = tmp_path / "trace.json"
    path.write_text(document(events, layout, base_ns))
    trace = read_trace(path)
    zero_ns = trace.base_time_ns - first_ns
    if layout in ("base first", "base last"):
        zero_ns -= base_ns or 0
    assert sorted(rows(trace.operators, "name", "start_ns", "end_ns")) == [
        (name, start * unit_ns - zero_ns, end * unit_ns - zero_ns)
        for name, start, end in sorted(SPANS)
    ]
