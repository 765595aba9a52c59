from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.trace.record.recordings import MAIN, client_span, operator, pair, recording, server_span
from tuner.errors import TraceError
from tuner.trace.model.spans import MergedTrace, RankRecording
from tuner.trace.record.clock import SAME_CLOCK, ClockOffset
from tuner.trace.record.merge import losses, merge, missing_spans

ONE_CLOCK = {"worker0": SAME_CLOCK, "worker1": SAME_CLOCK, "worker2": SAME_CLOCK}
T0 = 1_700_000_000_000_000_000
CALLS = [client_span(number) for number in range(4)]


def at(ns: int) -> int:
    """Nanoseconds after T0, in Unix nanoseconds."""
    return T0 + ns


def complete() -> list[RankRecording]:
    """A call of a function with two operators, a builtin, a fetch, and a call without an answer."""
    call = client_span(0, start_ns=at(1000))
    builtin = client_span(1, start_ns=at(2000), body="builtin", function="aten::add")
    fetch = client_span(2, start_ns=at(3000), body="fetch", function="", kind="to_here")
    hanging = client_span(3, start_ns=at(4000), end_ns=None, status="unfinished")
    return pair(
        call,
        builtin,
        fetch,
        hanging,
        server_spans=[
            server_span(call),
            server_span(hanging, end_ns=None, cpu_ns=None, run_queue_ns=None),
        ],
        done_ns={call.call_id: at(1090)},
        operators=[
            operator(at(1030), at(1050)),
            operator(at(1035), at(1040), "aten::empty"),
            operator(at(2020), at(2050), "aten::add"),
            operator(at(900), at(910), "aten::set_"),
            operator(at(1060), at(1070), "scripted", is_operator=False),
        ],
    )


def merged(
    *recordings: RankRecording, window: tuple[int, int] = (at(950), at(5000))
) -> MergedTrace:
    return merge(recordings or complete(), ONE_CLOCK, window)


def test_the_base_is_the_earliest_time_of_all() -> None:
    trace = merged()
    assert trace.facts.base_time_ns == at(900)  # an operator before the window
    assert trace.facts.window_ns == (50, 4100)
    assert merged(window=(at(10), at(5000))).facts.base_time_ns == at(10)


def test_both_ends_of_a_call_are_joined() -> None:
    call = merged().calls[0]
    assert (call.name, call.client, call.client_rank) == (
        "rpc_async#work(worker0 -> worker1)",
        "worker0",
        0,
    )
    assert (call.span.start_ns, call.span.issued_ns, call.span.end_ns) == (100, 110, 200)
    assert call.served is not None
    assert (call.served.start_ns, call.served.end_ns, call.served.cpu_ns) == (120, 180, 50)
    assert (call.done_ns, call.link) == (190, "exact")


def test_an_unfinished_call_stays_unfinished_and_is_a_loss() -> None:
    trace = merged()
    call = trace.calls[3]
    assert (call.span.end_ns, call.span.status) == (None, "unfinished")
    assert call.served is not None
    assert (call.served.start_ns, call.served.end_ns) == (3120, None)
    assert trace.facts.losses == (
        "1 call of worker0 had no answer when the trace ended",
        "worker1 was still serving 1 call when the trace ended",
    )


def test_operators_name_their_calls() -> None:
    found = [(each.span.name, each.call_id, each.link) for each in merged().operators]
    assert found == [
        ("aten::mul", 0, "exact"),
        ("aten::empty", 0, "exact"),
        ("aten::add", 1, "inferred"),
        ("aten::set_", None, ""),  # the TorchScript function is no operator
    ]
    assert {each.rank for each in merged().operators} == {1}


def test_the_facts_describe_each_rank() -> None:
    (first, second) = merged().facts.ranks
    assert (first.rank, first.name, first.pid, first.threads) == (
        0, "worker0", MAIN, ((MAIN, "main"),))  # fmt: skip
    assert (second.num_worker_threads, second.cpu_count, second.host) == (4, 2, "here")
    assert second.cpu_s == 0.5


@pytest.mark.parametrize("rank", [0, 1])
def test_a_missing_span_is_an_error_that_names_it(rank: int) -> None:
    recordings = complete()
    field = ("client_spans", "server_spans")[rank]
    spans = getattr(recordings[rank], field)
    recordings[rank] = replace(recordings[rank], **{field: spans[1:]})
    with pytest.raises(
        TraceError, match=rf"the trace is incomplete: .*worker{rank}.* but has \d+ span"
    ):
        merge(recordings, ONE_CLOCK, (at(0), at(9000)))


def shifted(each: RankRecording, ns: int) -> RankRecording:
    """The recording of a process whose clock is this far ahead."""

    def ahead(spans: Iterable[Any]) -> list[Any]:
        times = ("start_ns", "issued_ns", "end_ns")
        return [
            span._replace(**{t: getattr(span, t) + ns for t in times if getattr(span, t, None)})
            for span in spans
        ]

    return replace(
        each,
        client_spans=ahead(each.client_spans),
        server_spans=ahead(each.server_spans),
        done_ns={call: done + ns for call, done in each.done_ns.items()},
        operators=ahead(each.operators or ()),
    )


@given(st.integers(-(10**12), 10**12), st.integers(-(10**12), 10**12))
def test_clocks_that_differ_make_no_difference(first_ns: int, second_ns: int) -> None:
    first, second = complete()
    offsets = {"worker0": ClockOffset(first_ns, 30), "worker1": ClockOffset(second_ns, 50)}
    trace = merge(
        [shifted(first, first_ns), shifted(second, second_ns)], offsets, (at(950), at(5000))
    )
    one_clock = merged()
    assert trace.calls == one_clock.calls
    assert trace.operators == one_clock.operators
    assert trace.facts.base_time_ns == one_clock.facts.base_time_ns
    assert trace.facts.clock_error_ns == 80


def test_the_clock_error_is_the_sum_of_the_two_largest() -> None:
    clocks = {
        "worker0": SAME_CLOCK,
        "worker1": ClockOffset(5, 40),
        "worker2": ClockOffset(9, 100),
    }
    ranks = [recording(rank) for rank in range(3)]
    assert merge(ranks, clocks, (0, 1)).facts.clock_error_ns == 140
    clocks["worker2"] = SAME_CLOCK
    assert merge(ranks, clocks, (0, 1)).facts.clock_error_ns == 40


def test_a_builtin_is_served_by_its_own_server_and_not_on_the_main_thread() -> None:
    call = client_span(0, body="builtin", function="aten::add", server=2, start_ns=0, end_ns=100)
    elsewhere = recording(1, operators=[operator(10, 20, "aten::add")])
    on_main = operator(30, 40, "aten::add", thread=MAIN + 2)
    server = recording(2, operators=[on_main, operator(50, 60, "aten::add")])
    trace = merge([recording(0, client_spans=[call]), elsewhere, server], ONE_CLOCK, (0, 100))
    assert [each.call_id for each in trace.operators] == [None, None, call.call_id]
    (merged_call,) = trace.calls
    assert merged_call.served is not None
    assert (merged_call.served.start_ns, merged_call.served.end_ns) == (50, 60)


SPANS = [server_span(call) for call in CALLS]


@pytest.mark.parametrize(
    ("rank", "fields", "missing"),
    [
        (0, {}, []),
        (0, {"client_spans": CALLS[1:]}, [
            "worker0 issued 4 python calls to worker1, but has 3 spans",
            "worker1 served 1 call without a client's span",
        ]),
        (1, {"server_spans": SPANS[1:]}, [
            "worker1 answered 1 call from worker0 without a server's span",
            "worker1 received 4 calls from rank 0, but has 3 spans",
        ]),
        # There are as many spans as calls, but one call has none.
        (1, {"server_spans": [SPANS[0], *SPANS[:3]]}, [
            "worker1 answered 1 call from worker0 without a server's span"
        ]),
        # The sums are equal, the parts are not.
        (0, {"issued": {("worker1", "python"): 3, ("worker2", "python"): 1,
                        ("worker1", "builtin"): 1}}, [
            "worker0 issued 1 builtin call to worker1, but has 0 spans",
            "worker0 issued 3 python calls to worker1, but has 4 spans",
            "worker0 issued 1 python call to worker2, but has 0 spans",
        ]),
        (1, {"arrived": {0: 3, 2: 1}}, [
            "worker1 received 3 calls from rank 0, but has 4 spans",
            "worker1 received 1 call from rank 2, but has 0 spans",
        ]),
    ],
)  # fmt: skip
def test_what_the_spans_lack(rank: int, fields: dict[str, Any], missing: list[str]) -> None:
    recordings = pair(*CALLS)
    recordings[rank] = replace(recordings[rank], **fields)
    assert missing_spans(recordings) == missing


@pytest.mark.parametrize("body", ["builtin", "script", "fetch"])
def test_what_runs_without_python_needs_no_server_span(body: str) -> None:
    client, server = pair(client_span(1, body=body))
    assert missing_spans([client, server]) == []
    # It is counted nevertheless.
    assert missing_spans([replace(client, issued={}), server]) == [
        f"worker0 issued 0 {body} calls to worker1, but has 1 span"
    ]


@pytest.mark.parametrize("status", ["raised", "timed-out", "unfinished"])
def test_a_call_that_failed_needs_no_server_span(status: str) -> None:
    call = client_span(1, status=status, end_ns=None if status == "unfinished" else 1100)
    assert missing_spans([recording(0, client_spans=[call]), recording(1)]) == []


def test_a_kernel_without_run_queue_times_is_a_loss() -> None:
    spans = [server_span(call, run_queue_ns=None) for call in CALLS]
    assert [*losses(pair(*CALLS))] == []
    assert [*losses(pair(*CALLS, server_spans=spans))] == [
        "the kernel under worker1 does not tell how long threads wait"
    ]
