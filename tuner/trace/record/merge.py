"""Merges the recordings of all ranks into one trace on one clock, and says what it lacks.

Which call ran which operator is found, too. A Python function's operators lie inside its span, on
its thread. A builtin operator and a TorchScript function run without Python, so the server has no
span of them: their operators stand for it, and belong to a call of fitting name and times. If
several calls fit, any assignment that the times allow is as good as another. Such links are
`inferred`.
"""

from bisect import bisect_left, bisect_right, insort
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from tuner.errors import TraceError
from tuner.text import plural
from tuner.torch_private.private_names import STEP, STEP_HELPERS
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


@dataclass
class Links:
    """The result of `link`."""

    call_of: list[int | None]
    """The call of each operator, in the order they were given."""
    inferred: dict[int, ServerSpan] = field(default_factory=dict)
    """The server's spans of calls that ran without Python, by call."""


@dataclass(frozen=True)
class _Slot:
    """An outermost operator and those inside it: a single call must have run them all."""

    name: str
    thread: int
    start_ns: int
    end_ns: int
    operators: tuple[int, ...]


def link(
    operators: Sequence[OperatorSpan],
    served: Sequence[ServerSpan],
    calls: Iterable[ClientSpan],
    main_thread: int,
) -> Links:
    """Link the operators of one server to the calls made to it; all times are on one clock.

    The server's main thread runs the program and serves no calls.
    """
    links = Links([None] * len(operators))
    spans: dict[int, list[ServerSpan]] = defaultdict(list)
    for span in sorted(served, key=lambda span: span.start_ns):
        spans[span.thread].append(span)
    starts = {thread: [span.start_ns for span in found] for thread, found in spans.items()}
    free = []
    for index, operator in enumerate(operators):
        position = bisect_right(starts.get(operator.thread, ()), operator.start_ns) - 1
        around = spans[operator.thread][position] if position >= 0 else None
        if around is not None and (around.end_ns is None or operator.start_ns < around.end_ns):
            links.call_of[index] = around.call_id
        elif operator.thread != main_thread:
            free.append(index)
    without_python: dict[str, list[ClientSpan]] = defaultdict(list)
    for call in calls:
        if call.body in ("builtin", "script"):
            without_python[_event_name(call)].append(call)
    slots: dict[str, list[_Slot]] = defaultdict(list)
    for slot in _slots(operators, free):
        if slot.name in without_python:
            slots[slot.name].append(slot)
    for name, candidates in without_python.items():
        for slot, call in _matched(slots[name], candidates):
            for index in slot.operators:
                links.call_of[index] = call.call_id
            links.inferred[call.call_id] = ServerSpan(
                call.call_id, slot.thread, slot.start_ns, slot.end_ns, None, None
            )
    return links


def _event_name(call: ClientSpan) -> str:
    """The name of the outermost event that the call leaves on the server."""
    if call.function == STEP:
        return STEP_HELPERS[-1]
    return call.function if call.body == "builtin" else call.function.rpartition(".")[2]


def _slots(operators: Sequence[OperatorSpan], free: Sequence[int]) -> Iterator[_Slot]:
    """Each outermost one of these operators, with the operators nested inside it."""
    by_thread: dict[int, list[int]] = defaultdict(list)
    for index in free:
        by_thread[operators[index].thread].append(index)
    for thread, indices in by_thread.items():
        # Of two that start together, the longer one is the outer one.
        indices.sort(key=lambda index: (operators[index].start_ns, -operators[index].end_ns))
        inside: list[int] = []
        for index in indices:
            if inside and operators[index].start_ns >= operators[inside[0]].end_ns:
                yield _slot(operators, thread, inside)
                inside = []
            inside.append(index)
        if inside:
            yield _slot(operators, thread, inside)


def _slot(operators: Sequence[OperatorSpan], thread: int, inside: list[int]) -> _Slot:
    outer = operators[inside[0]]
    return _Slot(outer.name, thread, outer.start_ns, outer.end_ns, tuple(inside))


def _matched(
    slots: Sequence[_Slot], calls: Sequence[ClientSpan]
) -> Iterator[tuple[_Slot, ClientSpan]]:
    """As many slots as possible, each with a call that may have run it, and no call twice.

    Of the calls that were under way throughout a slot, the one that ends first gets it: calls that
    end later may also fit later slots.
    """
    waiting = sorted(calls, key=lambda call: call.start_ns, reverse=True)
    begun: list[tuple[float, int, ClientSpan]] = []
    for slot in sorted(slots, key=lambda slot: slot.start_ns):
        while waiting and waiting[-1].start_ns <= slot.start_ns:
            call = waiting.pop()
            end_ns = float("inf") if call.end_ns is None else call.end_ns
            insort(begun, (end_ns, call.call_id, call))
        position = bisect_left(begun, (slot.end_ns,))
        if position < len(begun):
            yield slot, begun.pop(position)[2]
