"""Whether a trace holds every call: compares the spans with the counts, and with each other."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

from tuner.text import plural
from tuner.trace.model.spans import CALLS_PER_RANK
from tuner.trace.record.recording import RankRecording


def missing_spans(recordings: Sequence[RankRecording]) -> list[str]:
    """What the spans lack, each as a sentence; empty for a complete trace.

    Both ends count calls independently of the spans: the client when Python hands a call to C++,
    the server when a request arrives.
    """
    problems = []
    served = {span.call_id for each in recordings for span in each.server_spans}
    issued = _issued(recordings)
    for each in recordings:
        problems += _against_own_counts(each)
        if stray := sum(span.call_id not in issued for span in each.server_spans):
            problems.append(f"{each.name} served {plural(stray, 'call')} without a client's span")
        lost = Counter(
            span.server
            for span in each.client_spans
            if span.status == "ok"
            and span.has_server_span
            and span.call_id not in served
            # Of a server that recorded nothing, no spans are missing.
            and any(span.server == other.name for other in recordings)
        )
        problems += [
            f"{server} answered {plural(count, 'call')} from {each.name} without a server's span"
            for server, count in lost.items()
        ]
    return problems


def without_strays(recordings: Sequence[RankRecording]) -> list[RankRecording]:
    """The recordings without what servers recorded of calls that no client recorded."""
    issued = _issued(recordings)
    return [
        replace(each, server_spans=[span for span in each.server_spans if span.call_id in issued])
        for each in recordings
    ]


def _issued(recordings: Sequence[RankRecording]) -> set[int]:
    return {span.call_id for each in recordings for span in each.client_spans}


def _against_own_counts(each: RankRecording) -> list[str]:
    """Where the spans of one process differ from its counts."""
    problems = []
    spans = Counter((span.server, span.body) for span in each.client_spans)
    for key in sorted(spans.keys() | each.issued.keys()):
        server, body = key
        counted = each.issued.get(key, 0)
        if spans[key] != counted:
            problems.append(
                f"{each.name} issued {plural(counted, f'{body} call')} to {server}, but has "
                f"{plural(spans[key], 'span')}"
            )
    arrived = Counter(span.call_id // CALLS_PER_RANK for span in each.server_spans)
    return problems + [
        f"{each.name} received {plural(each.arrived.get(rank, 0), 'call')} from rank {rank}, but "
        f"has {plural(arrived[rank], 'span')}"
        for rank in sorted(arrived.keys() | each.arrived.keys())
        if arrived[rank] != each.arrived.get(rank, 0)
    ]


def losses(recordings: Sequence[RankRecording]) -> list[str]:
    """What a complete trace still cannot show, each as a sentence."""
    found = []
    for each in recordings:
        if each.disturbed:
            found.append(
                f"another profiler ran in {each.name} during the trace: operators may be missing"
            )
        if count := sum(span.end_ns is None for span in each.client_spans):
            found.append(
                f"{plural(count, 'call')} of {each.name} had no answer when the trace ended"
            )
        if count := sum(span.end_ns is None for span in each.server_spans):
            found.append(
                f"{each.name} was still serving {plural(count, 'call')} when the trace ended"
            )
        if any(span.run_queue_ns is None and span.end_ns for span in each.server_spans):
            found.append(f"the kernel under {each.name} does not tell how long threads wait")
    return found
