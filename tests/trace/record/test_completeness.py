from collections.abc import Sequence
from dataclasses import replace

import pytest

from tests.trace.record.recordings import client_span, pair, recording, server_span
from tuner.trace.model.spans import CALLS_PER_RANK
from tuner.trace.record.completeness import losses, missing_spans
from tuner.trace.record.recording import RankRecording

CALLS = [client_span(number) for number in range(4)]


def changed(
    recordings: Sequence[RankRecording], rank: int, **fields: object
) -> list[RankRecording]:
    """The recordings, with some fields of one of them changed."""
    return [replace(each, **fields) if each.rank == rank else each for each in recordings]  # type: ignore[arg-type]


def test_a_complete_trace_lacks_nothing() -> None:
    assert missing_spans(pair(*CALLS)) == []
    assert missing_spans([]) == []
    assert missing_spans([recording(0), recording(1)]) == []


def test_calls_of_every_rank_to_every_rank_are_complete() -> None:
    calls = [
        client_span(client * 10 + server, client=client, server=server)
        for client in range(3)
        for server in range(3)
    ]
    recordings = [
        recording(
            rank,
            client_spans=[call for call in calls if call.call_id // CALLS_PER_RANK == rank],
            server_spans=[server_span(call) for call in calls if call.server_rank == rank],
        )
        for rank in range(3)
    ]
    assert missing_spans(recordings) == []


def test_a_lost_span_of_the_client_is_missed_at_both_ends() -> None:
    recordings = changed(pair(*CALLS), 0, client_spans=CALLS[1:])
    assert missing_spans(recordings) == [
        "worker0 issued 4 python calls to worker1, but has 3 spans",
        "worker1 served 1 call without a client's span",
    ]


def test_a_lost_span_of_the_server_is_missed_at_both_ends() -> None:
    recordings = changed(pair(*CALLS), 1, server_spans=[server_span(call) for call in CALLS[1:]])
    assert missing_spans(recordings) == [
        "worker1 answered 1 call from worker0 without a server's span",
        "worker1 received 4 calls from rank 0, but has 3 spans",
    ]


def test_a_repeated_span_is_one_too_many() -> None:
    recordings = changed(pair(*CALLS), 0, client_spans=[*CALLS, CALLS[0]])
    assert missing_spans(recordings) == [
        "worker0 issued 4 python calls to worker1, but has 5 spans"
    ]


def test_a_repeated_span_in_place_of_another_is_noticed() -> None:
    # There are as many spans as calls, but one call has none.
    spans = [server_span(call) for call in [CALLS[0], *CALLS[:3]]]
    assert missing_spans(changed(pair(*CALLS), 1, server_spans=spans)) == [
        "worker1 answered 1 call from worker0 without a server's span"
    ]


def test_counts_are_compared_by_server_and_body() -> None:
    # The sums are equal, the parts are not.
    issued = {("worker1", "python"): 3, ("worker2", "python"): 1, ("worker1", "builtin"): 1}
    assert missing_spans(changed(pair(*CALLS), 0, issued=issued)) == [
        "worker0 issued 1 builtin call to worker1, but has 0 spans",
        "worker0 issued 3 python calls to worker1, but has 4 spans",
        "worker0 issued 1 python call to worker2, but has 0 spans",
    ]


def test_arrivals_are_compared_by_client() -> None:
    assert missing_spans(changed(pair(*CALLS), 1, arrived={0: 3, 2: 1})) == [
        "worker1 received 3 calls from rank 0, but has 4 spans",
        "worker1 received 1 call from rank 2, but has 0 spans",
    ]


@pytest.mark.parametrize("body", ["builtin", "script", "fetch"])
def test_what_runs_without_python_needs_no_server_span(body: str) -> None:
    call = client_span(1, body=body)
    assert missing_spans(pair(call)) == []
    # It is counted nevertheless.
    assert missing_spans(changed(pair(call), 0, issued={})) == [
        f"worker0 issued 0 {body} calls to worker1, but has 1 span"
    ]


@pytest.mark.parametrize("status", ["raised", "timed-out", "unfinished"])
def test_a_call_that_failed_needs_no_server_span(status: str) -> None:
    call = client_span(1, status=status, end_ns=None if status == "unfinished" else 1100)
    assert missing_spans([recording(0, client_spans=[call]), recording(1)]) == []


def test_what_all_ranks_lack_is_listed_together() -> None:
    recordings = [
        recording(0, client_spans=[CALLS[0]], issued={}),
        recording(1, arrived={2: 1}),
    ]
    assert len(missing_spans(recordings)) == 3


def test_unfinished_calls_are_losses_of_a_complete_trace() -> None:
    assert losses(pair(*CALLS)) == []
    hanging = client_span(9, end_ns=None, status="unfinished")
    running = server_span(hanging, end_ns=None, cpu_ns=None, run_queue_ns=None)
    recordings = pair(CALLS[0], CALLS[1], hanging, server_spans=[running])
    assert losses(recordings) == [
        "1 call of worker0 had no answer when the trace ended",
        "worker1 was still serving 1 call when the trace ended",
    ]


def test_a_kernel_without_run_queue_times_is_a_loss() -> None:
    spans = [server_span(call, run_queue_ns=None) for call in CALLS]
    assert losses(pair(*CALLS, server_spans=spans)) == [
        "the kernel under worker1 does not tell how long threads wait"
    ]
