"""Merges the recordings of all ranks into one trace on one clock, and says what it lacks."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from tuner.errors import TraceError
from tuner.text import plural
from tuner.trace.model.spans import (
    CALLS_PER_RANK,
    STOPPED,
    ClientSpan,
    Facts,
    Link,
    MergedCall,
    MergedOperator,
    MergedTrace,
    OperatorSpan,
    RankRecording,
    ServerSpan,
    TraceRank,
    call_name,
)
from tuner.trace.record.clock import ClockOffset
from tuner.trace.record.linking import link


@dataclass
class _ServerSides:
    """The servers' side of a trace; times are nanoseconds since its base."""

    served: dict[int, ServerSpan] = field(default_factory=dict)
    """The spans that servers recorded, by call."""
    inferred: dict[int, ServerSpan] = field(default_factory=dict)
    """Spans of calls that ran without Python, by call."""
    done_ns: dict[int, int] = field(default_factory=dict)
    """When each future of an `async_execution` function was complete, by call."""
    operators: list[MergedOperator] = field(default_factory=list)


def merge(
    recordings: Sequence[RankRecording],
    clocks: Mapping[str, ClockOffset],
    window_ns: tuple[int, int],
    *,
    steps: int | None = None,
    tracing_overhead: float | None = None,
    may_lack_spans: bool = False,
) -> MergedTrace:
    """The recordings as one trace.

    What is missing if spans are, TraceError lists, or the trace itself where it `may_lack_spans`.
    """
    missing = missing_spans(recordings)
    if missing and not may_lack_spans:
        raise TraceError("the trace is incomplete: " + "; ".join(missing))
    recordings = without_strays(recordings)
    base_ns = min([window_ns[0], *_first_times(recordings, clocks)])
    client_spans = {
        each.name: [_client_span(span, _zero(each, clocks, base_ns)) for span in each.client_spans]
        for each in recordings
    }
    sides = _ServerSides()
    for each in recordings:
        made_to = [s for spans in client_spans.values() for s in spans if s.server == each.name]
        _add_server(sides, each, made_to, _zero(each, clocks, base_ns))
    facts = Facts(
        base_time_ns=base_ns,
        window_ns=(window_ns[0] - base_ns, window_ns[1] - base_ns),
        ranks=tuple(map(_rank_facts, recordings)),
        operators_recorded=all(each.operators is not None for each in recordings),
        steps=steps,
        clock_error_ns=_clock_error_ns(clocks),
        tracing_overhead=tracing_overhead,
        losses=(*missing, *losses(recordings)),
    )
    calls = [
        _merged_call(span, each, sides) for each in recordings for span in client_spans[each.name]
    ]
    return MergedTrace(facts, calls, sides.operators)


def _add_server(
    sides: _ServerSides, each: RankRecording, made_to: list[ClientSpan], zero_ns: int
) -> None:
    """Add what a rank recorded as a server; `made_to` are the calls to it."""
    here = [_server_span(span, zero_ns) for span in each.server_spans]
    sides.served.update((span.call_id, span) for span in here)
    sides.done_ns.update((call, done - zero_ns) for call, done in each.done_ns.items())
    spans = [_operator_span(span, zero_ns) for span in (*(each.operators or ()), *each.noted)]
    links = link(spans, here, made_to, main_thread=each.pid)
    sides.inferred.update(links.inferred)
    sides.operators += [
        MergedOperator(each.rank, span, call_id, _operator_link(call_id, sides.inferred))
        for span, call_id in zip(spans, links.call_of, strict=True)
        if span.is_operator
    ]


def _merged_call(span: ClientSpan, client: RankRecording, sides: _ServerSides) -> MergedCall:
    call = span.call_id
    served = sides.served.get(call) or sides.inferred.get(call)
    if served is not None and span.status == "ok" and served.error:
        # `remote` is answered before its function has run.
        span = span._replace(status="raised", error=served.error)
    is_open = served is not None and served.end_ns is None and span.status == "raised"
    if served is not None and span.end_ns is not None and (is_open or served.error == STOPPED):
        served = served._replace(end_ns=max(served.start_ns, span.end_ns))
    return MergedCall(
        name=call_name(span, client.name),
        client=client.name,
        client_rank=client.rank,
        span=span,
        served=served,
        done_ns=sides.done_ns.get(call),
        link=_call_link(call, sides),
    )


def _call_link(call_id: int, sides: _ServerSides) -> Link:
    if call_id in sides.served:
        return "exact"
    return "inferred" if call_id in sides.inferred else ""


def _zero(each: RankRecording, clocks: Mapping[str, ClockOffset], base_ns: int) -> int:
    """The trace's base on that rank's own clock."""
    return base_ns + clocks[each.name].offset_ns


def _first_times(
    recordings: Sequence[RankRecording], clocks: Mapping[str, ClockOffset]
) -> Iterator[int]:
    for each in recordings:
        spans = (each.client_spans, each.server_spans, each.operators or ())
        starts = [span.start_ns for group in spans for span in group]
        if starts:
            yield min(starts) - clocks[each.name].offset_ns


def _clock_error_ns(clocks: Mapping[str, ClockOffset]) -> int:
    """The largest error between times of two ranks, whose errors may add up."""
    return sum(sorted((clock.error_ns for clock in clocks.values()), reverse=True)[:2])


def _operator_link(call_id: int | None, inferred: Mapping[int, ServerSpan]) -> Link:
    if call_id is None:
        return ""
    return "inferred" if call_id in inferred else "exact"


def _client_span(span: ClientSpan, zero_ns: int) -> ClientSpan:
    return span._replace(
        start_ns=span.start_ns - zero_ns,
        issued_ns=span.issued_ns - zero_ns,
        end_ns=None if span.end_ns is None else span.end_ns - zero_ns,
    )


def _server_span(span: ServerSpan, zero_ns: int) -> ServerSpan:
    end_ns, answered_ns = (
        None if time is None else time - zero_ns for time in (span.end_ns, span.answered_ns)
    )
    return span._replace(start_ns=span.start_ns - zero_ns, end_ns=end_ns, answered_ns=answered_ns)


def _operator_span(span: OperatorSpan, zero_ns: int) -> OperatorSpan:
    return span._replace(start_ns=span.start_ns - zero_ns, end_ns=span.end_ns - zero_ns)


def _rank_facts(each: RankRecording) -> TraceRank:
    return TraceRank(
        rank=each.rank,
        name=each.name,
        num_worker_threads=each.num_worker_threads,
        host=each.host,
        pid=each.pid,
        cpu_count=each.cpu_count,
        cpu_s=each.cpu_s,
        rpc_timeout_s=each.rpc_timeout_s,
        main_cpu_s=each.main_thread_s[0] if each.main_thread_s else None,
        main_run_queue_s=each.main_thread_s[1] if each.main_thread_s else None,
        threads=tuple(each.threads.items()),
    )


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
