"""Whether a trace holds every call: the spans against each process's own counts, and each other."""

from collections import Counter
from collections.abc import Sequence

from tuner.trace.model.spans import CALLS_PER_RANK
from tuner.trace.record.recording import RankRecording


def missing_spans(recordings: Sequence[RankRecording]) -> list[str]:
    """What the spans lack, each as a sentence; empty for a complete trace.

    Both ends count apart from the tracing: the client where Python hands a call to C++, the
    server as a request arrives.
    """
    problems = []
    served = {span.call_id for each in recordings for span in each.server_spans}
    issued = {span.call_id for each in recordings for span in each.client_spans}
    for each in recordings:
        problems += _against_own_counts(each)
        if stray := sum(span.call_id not in issued for span in each.server_spans):
            problems.append(f"{each.name} served {stray} calls that no client's span tells of")
        lost = Counter(
            span.server
            for span in each.client_spans
            if span.status == "ok" and span.has_server_span and span.call_id not in served
        )
        problems += [
            f"{count} calls from {each.name} were answered by {server} without a span there"
            for server, count in lost.items()
        ]
    return problems


def _against_own_counts(each: RankRecording) -> list[str]:
    """The spans of one process against what it counted."""
    problems = []
    spans = Counter((span.server, span.body) for span in each.client_spans)
    for key in sorted(spans.keys() | each.issued.keys()):
        server, body = key
        if spans[key] != each.issued.get(key, 0):
            problems.append(
                f"{each.name} issued {each.issued.get(key, 0)} {body} calls to {server}, and "
                f"has spans of {spans[key]}"
            )
    arrived = Counter(span.call_id // CALLS_PER_RANK for span in each.server_spans)
    return problems + [
        f"{each.name} was sent {each.arrived.get(rank, 0)} calls by rank {rank}, and has spans of "
        f"{arrived[rank]}"
        for rank in sorted(arrived.keys() | each.arrived.keys())
        if arrived[rank] != each.arrived.get(rank, 0)
    ]


def losses(recordings: Sequence[RankRecording]) -> list[str]:
    """What a complete trace still cannot show, each as a sentence."""
    found = []
    for each in recordings:
        if each.disturbed:
            found.append(
                f"another profiler ran in {each.name} meanwhile: operators may be missing there"
            )
        if count := sum(span.end_ns is None for span in each.client_spans):
            found.append(f"{count} calls of {each.name} had no answer when the trace ended")
        if count := sum(span.end_ns is None for span in each.server_spans):
            found.append(f"{count} calls were still being served by {each.name} as it ended")
        if any(span.run_queue_ns is None and span.end_ns for span in each.server_spans):
            found.append(f"the kernel under {each.name} does not tell how long threads wait")
    return found
