"""Timelines as data: which thread did what, and what an excerpt shows."""

from dataclasses import replace

import pytest

from testing.synthetic import call, operator, trace
from tests.present.figures.traces import kineto, stepped
from tuner.present.figures.timeline_data import (
    EXCERPT_CALLS,
    EXCERPT_STRETCHES,
    MOST_CALLS,
    MOST_LANES,
    MOST_STRETCHES,
    Bar,
    Lane,
    Timeline,
    timeline,
)
from tuner.trace.model.spans import TraceRank
from tuner.trace.model.trace import Trace

SERVER = TraceRank(
    rank=1, name="worker1", num_worker_threads=4, threads=((11, "RPC worker 1"), (12, "main"))
)


def bars_of(found: Timeline) -> list[list[Bar]]:
    return [list(lane.bars) for server in found.servers for lane in server.lanes]


def test_a_lane_shows_what_its_thread_served_and_when() -> None:
    calls = [call(1, 10, 14, served_ms=(11, 13), thread=11),
             call(2, 10.5, 17, served_ms=(13.5, 16), thread=11),
             call(3, 11, 16, served_ms=(12, 15.5), thread=12)]  # fmt: skip
    found = timeline(trace(calls, processes=(SERVER,), window_ms=(4, 20)), "three")
    (server,) = found.servers
    assert server.lanes == (
        Lane(label="RPC worker 1", bars=(Bar(1, 3, "udf", "exact"), Bar(3.5, 6, "udf", "exact"))),
        Lane(label="main", bars=(Bar(2, 5.5, "udf", "exact"),)),
    )
    assert server.label == "worker1: 2 of its 4 threads served calls"
    assert (found.title, found.note) == ("three", "all 3 served calls")
    assert (found.start_ms, found.length_ms) == (6, 7)


def test_calls_under_way_are_counted_for_the_server_they_go_to() -> None:
    calls = [call(1, 0, 4, served_ms=(1, 3)), call(2, 2, 6, served_ms=(3, 5)),
             call(3, 1, 9, served_ms=(1, 8), server_rank=2)]  # fmt: skip
    first, second = timeline(trace(calls)).servers
    assert first.in_flight == ((0, 1), (2, 2), (4, 1), (6, 0))
    assert second.in_flight == ((0, 0), (1, 1), (9, 0))
    assert second.label == "rank 2"


def test_a_bar_has_the_kind_of_its_link() -> None:
    calls = [
        call(1, 0, 4, served_ms=(1, 3), thread=11, function="aten::add", link="inferred"),
        call(2, 1, None, served_ms=(2, None), thread=12),
        call(3, 1, 4, served_ms=(2, 3), thread=None, function="", kind="to_here"),
    ]
    found = timeline(trace(calls, window_ms=(0, 8)))
    assert bars_of(found) == [
        [Bar(2, 3, "to_here", "exact")],
        [Bar(1, 3, "aten::add", "inferred")],
        [Bar(2, 8, "udf", "unfinished")],
    ]
    assert [lane.label for lane in found.servers[0].lanes] == [
        "thread not known", "thread 11", "thread 12",
    ]  # fmt: skip


def test_operators_of_a_lane_are_united_and_those_of_other_threads_left_out() -> None:
    served = call(1, 0, 100, served_ms=(10, 90))
    # Between 40 and 40.001 is a gap too small to be seen.
    spans = ((20, 40), (25, 30), (40.001, 50), (60, 70))
    operators = [operator("aten::add", *span, of=served) for span in spans]
    operators.append(operator("aten::copy_", 0, 5, rank=0, thread=1))
    (server,) = timeline(trace([served], operators)).servers
    assert server.lanes[0].operators == ((20, 50), (60, 70))


def test_a_long_trace_is_cut_to_whole_steps_from_the_middle() -> None:
    whole = stepped(100)
    found = timeline(whole)
    assert found.note == "steps 43 to 57 of 100, 60 calls"
    assert found.steps == 15
    assert sum(map(len, bars_of(found))) == EXCERPT_CALLS
    first, after = (int(whole.calls["start_ns"].iloc[step * 4]) for step in (42, 57))
    assert found.start_ms == pytest.approx(first / 1e6)
    assert found.length_ms == pytest.approx((after - first) / 1e6)
    assert min(bar.start_ms for lane in bars_of(found) for bar in lane) > 0


@pytest.mark.parametrize(
    ("of", "steps", "note"),
    [
        (stepped(10), 3, "steps 4 to 6 of 10, 12 calls"),
        (stepped(10), 1, "step 5 of 10, 4 calls"),
        (stepped(2), 3, "all 2 steps, 8 calls"),
        (stepped(2, at_once=MOST_CALLS + 10), None, "served calls 131 to 190 of 320"),
        # No step of 99 has a number of 400 calls.
        (replace(stepped(100), steps=99), None, "served calls 171 to 230 of 400"),
    ],
)
def test_steps_are_shown_whole_or_else_calls(of: Trace, steps: int | None, note: str) -> None:
    found = timeline(of, steps=steps)
    assert found.note == note
    assert (found.steps is None) == note.startswith("served")


def test_of_calls_issued_all_together_those_in_the_middle_are_shown_as_they_are_served() -> None:
    """The time between two of their starts holds nothing."""
    burst = [
        call(n, n / 1000, 10 * n + 20, served_ms=(10 * n + 5, 10 * n + 14), thread=77)
        for n in range(MOST_CALLS + 10)
    ]
    found = timeline(trace(burst))
    assert found.note == "served calls 51 to 110 of 160"
    assert found.length_ms == 10 * EXCERPT_CALLS
    assert [len(bars) for bars in bars_of(found)] == [EXCERPT_CALLS]
    assert found.servers[0].in_flight[0] == (0, 111)  # one ends later than it was served
    # Steps that do not wait for their calls are over before these are served.
    stepwise = timeline(replace(trace(burst), steps=4))
    assert (stepwise.note, stepwise.servers) == (found.note, found.servers)


def test_a_call_that_began_before_the_excerpt_is_shown() -> None:
    long = call(999, 0, 500, served_ms=(0, 499), thread=77)
    short = [call(n, n, n + 1, served_ms=(n + 0.1, n + 0.9)) for n in range(1, 300)]
    found = timeline(trace([long, *short]))
    assert found.length_ms == 60
    assert found.servers[0].in_flight[0][1] > 0
    assert bars_of(found)[1] == [Bar(-found.start_ms, 499 - found.start_ms, "udf", "exact")]


def test_very_many_threads_are_cut_to_the_busiest() -> None:
    calls = [
        call(n, 0, n + 1, served_ms=(0, n + 0.5), thread=1000 - n) for n in range(1, MOST_LANES + 6)
    ]
    found = timeline(trace(calls))
    assert found.note == f"all 69 served calls, the busiest {MOST_LANES} of 69 threads"
    labels = [lane.label for lane in found.servers[0].lanes]
    assert labels == [f"thread {number}" for number in range(1000 - 69, 1000 - 5)]


def test_without_calls_the_bars_are_the_stretches_in_operators() -> None:
    spans = ((10, 20, 5), (12, 18, 5), (22, 24, 5), (11, 15, 6))
    operators = [operator("aten::add", *span, thread=thread) for *span, thread in spans]
    found = timeline(kineto(operators, [(5, "python"), (6, "python")]))
    (server,) = found.servers
    assert (server.label, server.in_flight) == ("rank 1", ())
    bars = [Bar(*span, "in operators", "operators") for span in ((0, 10), (12, 14), (1, 5))]
    assert server.lanes == (
        Lane(label="python 5", bars=(bars[0], bars[1])), Lane(label="python 6", bars=(bars[2],)),
    )  # fmt: skip
    assert (found.note, found.functions) == ("all operators", ("in operators",))


def test_very_many_operators_are_cut_to_the_middle() -> None:
    operators = [operator("aten::add", n, n + 0.5) for n in range(MOST_STRETCHES + 100)]
    found = timeline(kineto(operators, []))
    assert found.note == "600 ms in the middle of 1600 ms"
    assert found.start_ms == 500
    assert len(bars_of(found)[0]) == EXCERPT_STRETCHES


def test_calls_known_only_on_their_client_are_shown_as_under_way() -> None:
    made = call(1, 0, 10)
    operators = [operator("aten::add", 2, 3, of=made), operator("aten::ones", 1, 2, rank=0)]
    caller, server = timeline(trace([made], operators)).servers
    assert caller.in_flight == ()
    assert server.in_flight[0] == (0, 1)
    assert [len(lane.bars) for lane in (*caller.lanes, *server.lanes)] == [1, 1]
    assert server.label == "worker1: 4 threads"
