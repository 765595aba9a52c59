"""Merges the recordings of all ranks into one trace on one clock, and says what it lacks.

A Python function's operators lie inside its span, on its thread. Of builtin operators and
TorchScript functions the server has no span: their operators stand for it, and are `inferred` to
belong to a call of fitting name and times. If several calls fit, any of them is as good.
"""

from bisect import bisect_left, bisect_right, insort
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import fields, replace
from typing import Any, TypeVar

from tuner.errors import TraceError
from tuner.text import first_of, plural, three_digits
from tuner.torch_private.private_names import STEP, STEP_HELPERS
from tuner.trace.model.spans import (
    CALLS_PER_RANK,
    STOPPED,
    CallbackSpan,
    ClientSpan,
    Facts,
    Link,
    MergedCall,
    MergedCallback,
    MergedOperator,
    MergedTrace,
    OperatorSpan,
    RankRecording,
    ServerSpan,
    TraceRank,
    call_name,
)
from tuner.trace.record.clock import ClockOffset

_Span = TypeVar("_Span", ClientSpan, ServerSpan, CallbackSpan)
_TIMES = (
    "start_ns", "issued_ns", "end_ns", "answered_ns", "arrived_ns", "unpickled_ns", "received_ns",
)  # fmt: skip
"""The fields of spans that are points in time."""
_MOST_NAMED = 3  # functions
MOST_OPERATORS = 500_000
"""Those of all ranks together: to write and to read them again takes some 10 us for each."""


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
    first_ns = [
        min(span.start_ns for span in spans) - clocks[each.name].offset_ns
        for each in recordings
        for spans in (each.client_spans, each.server_spans, each.callbacks, each.operators)
        if spans
    ]
    base_ns = min([window_ns[0], *first_ns])
    issued = _issued(recordings)
    ranks = [_rebased(each, clocks[each.name].offset_ns + base_ns, issued) for each in recordings]
    window_ns = (window_ns[0] - base_ns, window_ns[1] - base_ns)
    ranks, until_ns, left_out = with_operators_alike(ranks, window_ns)
    served = {span.call_id: span for rank in ranks for span in rank.server_spans}
    inferred: dict[int, ServerSpan] = {}
    operators = []
    made = defaultdict[str, list[ClientSpan]](list)
    for client in ranks:
        for span in client.client_spans:
            made[span.server].append(span)
    for rank in ranks:
        made_to = made[rank.name]
        spans = [*(rank.operators or ()), *rank.noted]
        call_of, served_without = link(spans, rank.server_spans, made_to, main_thread=rank.pid)
        inferred |= served_without
        operators += [
            MergedOperator(rank.rank, span, call_id, _link(call_id, served, inferred))
            for span, call_id in zip(spans, call_of, strict=True)
            if span.is_operator
        ]
    done_ns = {call_id: time_ns for rank in ranks for call_id, time_ns in rank.done_ns.items()}
    calls = [
        MergedCall(
            call_name(span, rank.name), rank.name, rank.rank, span, found,
            done_ns.get(span.call_id), _link(span.call_id, served, inferred),
        )
        for rank in ranks
        for span, found in (_reconciled(span, served, inferred) for span in rank.client_spans)
    ]  # fmt: skip
    facts = Facts(
        base_time_ns=base_ns,
        window_ns=window_ns,
        ranks=tuple(
            TraceRank(**{field.name: getattr(rank, field.name) for field in fields(TraceRank)})
            for rank in ranks
        ),
        operators_recorded=all(rank.operators is not None for rank in ranks),
        operators_until_ns=until_ns,
        steps=steps,
        # The largest error between times of two ranks, whose errors may add up.
        clock_error_ns=sum(sorted(clock.error_ns for clock in clocks.values())[-2:]),
        tracing_overhead=tracing_overhead,
        losses=(*left_out, *missing, *losses(ranks)),
    )
    callbacks = [
        MergedCallback(rank.rank, span if span.call_id in issued else span._replace(call_id=None))
        for rank in ranks
        for span in rank.callbacks
    ]
    return MergedTrace(facts, calls, operators, callbacks)


def _rebased(each: RankRecording, zero_ns: int, issued: Collection[int]) -> RankRecording:
    """The recording in nanoseconds since a time on its clock, without calls of unknown clients."""
    return replace(
        each,
        client_spans=[_earlier(span, zero_ns) for span in each.client_spans],
        server_spans=[_earlier(s, zero_ns) for s in each.server_spans if s.call_id in issued],
        done_ns={call_id: time_ns - zero_ns for call_id, time_ns in each.done_ns.items()},
        callbacks=[_earlier(span, zero_ns) for span in each.callbacks],
        operators=each.operators and _earlier_operators(each.operators, zero_ns),
        operators_until_ns=each.operators_until_ns and each.operators_until_ns - zero_ns,
        noted=_earlier_operators(each.noted, zero_ns),
        gil=tuple(wait._replace(asked_ns=wait.asked_ns - zero_ns) for wait in each.gil),
        pauses=tuple(pause._replace(at_ns=pause.at_ns - zero_ns) for pause in each.pauses),
    )


def with_operators_alike(
    ranks: list[RankRecording], window_ns: tuple[int, int]
) -> tuple[list[RankRecording], int | None, list[str]]:
    """The recordings with the operators of one span of time: to where a rank could record no more,
    or where those of all ranks are MOST_OPERATORS. With its end, None where nothing is left out,
    and what is left out as sentences. Times are on one clock, as the window's."""
    ends = [rank.operators_until_ns for rank in ranks if rank.operators_until_ns is not None]
    starts = sorted(span.start_ns for rank in ranks for span in rank.operators or ())
    until_ns = min([*ends, *starts[MOST_OPERATORS : MOST_OPERATORS + 1]], default=None)
    if until_ns is None:
        return ranks, None, []
    opened, closed = window_ns
    kept = [
        rank.operators and [span for span in rank.operators if span.start_ns < until_ns]
        for rank in ranks
    ]
    count = sum(len(operators or ()) for operators in kept)
    at_that_rate = 0.0
    for rank in ranks:
        own_ns = (closed if rank.operators_until_ns is None else rank.operators_until_ns) - opened
        at_that_rate += len(rank.operators or ()) * (closed - opened) / max(own_ns, 1)
    first_s, other_s = (max(0, ns) / 1e9 for ns in (until_ns - opened, closed - until_ns))
    more = float(f"{max(at_that_rate - count, 1.0):.2g}")
    left_out = (
        f"only the first {count:,} operators are in the trace, those of {three_digits(first_s)} s: "
        f"those of the other {three_digits(other_s)} s are left out, about {more:,.0f} "
        "at that rate"
    )
    recordings = [replace(rank, operators=own) for rank, own in zip(ranks, kept, strict=True)]
    return recordings, until_ns, [left_out]


def _earlier(span: _Span, by_ns: int) -> _Span:
    times: dict[str, Any] = {
        name: time - by_ns for name in _TIMES if (time := getattr(span, name, None)) is not None
    }
    return span._replace(**times)


def _earlier_operators(spans: Iterable[OperatorSpan], by_ns: int) -> list[OperatorSpan]:
    # Without `_replace`, which takes many times as long: there may be millions.
    return [
        OperatorSpan(name, thread, start_ns - by_ns, end_ns - by_ns, is_operator)
        for name, thread, start_ns, end_ns, is_operator in spans
    ]


def _reconciled(
    span: ClientSpan, served: Mapping[int, ServerSpan], inferred: Mapping[int, ServerSpan]
) -> tuple[ClientSpan, ServerSpan | None]:
    """Both ends of a call, where one of them knows what the other cannot."""
    found = served.get(span.call_id) or inferred.get(span.call_id)
    if found is None:
        return span, None
    if span.status == "ok" and found.error:
        # `remote` is answered before its function has run.
        span = span._replace(status="raised", error=found.error)
    is_open = found.end_ns is None and span.status == "raised"
    if span.end_ns is not None and (is_open or found.error == STOPPED):
        found = found._replace(end_ns=max(found.start_ns, span.end_ns))
    return span, found


def _link(call_id: int | None, served: Collection[int], inferred: Collection[int]) -> Link:
    if call_id in served:
        return "exact"
    return "inferred" if call_id in inferred else ""


def missing_spans(recordings: Sequence[RankRecording]) -> list[str]:
    """What the spans lack, each as a sentence; empty for a complete trace.

    Both ends count calls independently of the spans: the client when Python hands a call to C++,
    the server when a request arrives.
    """
    problems: list[str] = []
    served = {span.call_id for recording in recordings for span in recording.server_spans}
    issued = _issued(recordings)
    # Of a server that recorded nothing, no spans are missing.
    recorded = {recording.name for recording in recordings}
    for each in recordings:
        problems += _against_own_counts(each)
        if stray := sum(span.call_id not in issued for span in each.server_spans):
            problems.append(f"{each.name} served {plural(stray, 'call')} without a client's span")
        lost = Counter(
            span.server
            for span in each.client_spans
            if span.status == "ok" and span.has_server_span and span.server in recorded
            if span.call_id not in served
        )
        problems += [
            f"{server} answered {plural(count, 'call')} from {each.name} without a server's span"
            for server, count in lost.items()
        ]
    return problems


def _issued(recordings: Sequence[RankRecording]) -> set[int]:
    return {span.call_id for recording in recordings for span in recording.client_spans}


def _against_own_counts(each: RankRecording) -> Iterator[str]:
    """Where the spans of one process differ from its counts."""
    issued = Counter((span.server, span.body) for span in each.client_spans)
    for key in sorted(issued.keys() | each.issued.keys()):
        if issued[key] != (counted := each.issued.get(key, 0)):
            server, body = key
            yield (
                f"{each.name} issued {plural(counted, f'{body} call')} to {server}, but has "
                f"{plural(issued[key], 'span')}"
            )
    arrived = Counter(span.call_id // CALLS_PER_RANK for span in each.server_spans)
    for rank in sorted(arrived.keys() | each.arrived.keys()):
        if arrived[rank] != (counted := each.arrived.get(rank, 0)):
            yield (
                f"{each.name} received {plural(counted, 'call')} from rank {rank}, but has "
                f"{plural(arrived[rank], 'span')}"
            )


def losses(recordings: Sequence[RankRecording]) -> Iterator[str]:
    """What a complete trace still cannot show, each as a sentence."""
    issued = {span.call_id: span for recording in recordings for span in recording.client_spans}
    for each in recordings:
        if each.disturbed:
            yield f"another profiler ran in {each.name} during the trace: operators may be missing"
        if count := sum(span.end_ns is None for span in each.client_spans):
            yield f"{plural(count, 'call')} of {each.name} had no answer when the trace ended"
        if open_spans := [span for span in each.server_spans if span.end_ns is None]:
            yield _still_serving(each, open_spans, issued)
        if count := sum(span.end_ns is None for span in each.callbacks):
            yield f"{each.name} was still running {plural(count, 'callback')} when the trace ended"
        if any(span.run_queue_ns is None and span.end_ns is not None for span in each.server_spans):
            yield f"the kernel under {each.name} does not tell how long threads wait"


def _still_serving(
    server: RankRecording, open_spans: Sequence[ServerSpan], issued: Mapping[int, ClientSpan]
) -> str:
    """What all of its threads were in, if none was free, and how many calls never got one."""
    said = f"{server.name} was still serving {plural(len(open_spans), 'call')} when the trace ended"
    threads = len({span.thread for span in open_spans})
    if threads != server.num_worker_threads:
        return said
    known = Counter(issued[e.call_id].function for e in open_spans if e.call_id in issued)
    names = first_of([name for name, _ in known.most_common()], _MOST_NAMED)
    begun = {span.call_id for span in server.server_spans}
    # Of a call that timed out, too, the request is still there.
    left = [e for e in issued.values() if e.end_ns is None or e.status == "timed-out"]
    sent = [e for e in left if e.server_rank == server.rank and e.has_server_span]
    waited = sum(call.call_id not in begun for call in sent)
    said += f": {'its thread was' if threads == 1 else f'all {threads} threads were'} in "
    said += names or "them"
    return f"{said}, and {plural(waited, 'more call')} never began" if waited else said


def link(
    operators: Sequence[OperatorSpan],
    served: Sequence[ServerSpan],
    calls: Iterable[ClientSpan],
    main_thread: int | None,
) -> tuple[list[int | None], dict[int, ServerSpan]]:
    """Link the operators of one server to the calls made to it; all times are on one clock.

    The server's main thread runs the program and serves no calls.

    Returns:
        The call of each operator, and the server's spans of calls that ran without Python, by call.
    """
    call_of: list[int | None] = [None] * len(operators)
    inferred: dict[int, ServerSpan] = {}
    spans: dict[int, list[ServerSpan]] = defaultdict(list)
    for span in sorted(served, key=lambda span: span.start_ns):
        spans[span.thread].append(span)
    starts = {thread: [span.start_ns for span in found] for thread, found in spans.items()}
    free: dict[int, list[int]] = defaultdict(list)
    for index, operator in enumerate(operators):
        position = bisect_right(starts.get(operator.thread, ()), operator.start_ns) - 1
        around = spans[operator.thread][position] if position >= 0 else None
        if around is not None and (around.end_ns is None or operator.start_ns < around.end_ns):
            call_of[index] = around.call_id
        elif operator.thread != main_thread:
            free[operator.thread].append(index)
    without_python: dict[str, list[ClientSpan]] = defaultdict(list)
    for call in calls:
        if call.body in ("builtin", "script"):
            without_python[_event_name(call)].append(call)
    nests: dict[str, list[list[int]]] = defaultdict(list)
    for indices in free.values():
        for nest in _nests(operators, indices):
            nests[operators[nest[0]].name].append(nest)
    for name, candidates in without_python.items():
        for nest, call in _matched(operators, nests[name], candidates):
            for index in nest:
                call_of[index] = call.call_id
            outer = operators[nest[0]]
            inferred[call.call_id] = ServerSpan(
                call.call_id, outer.thread, outer.start_ns, outer.end_ns, None, None
            )
    return call_of, inferred


def _event_name(call: ClientSpan) -> str:
    """The name of the outermost event that the call leaves on the server."""
    if call.function == STEP:
        return STEP_HELPERS[-1]
    return call.function if call.body == "builtin" else call.function.rpartition(".")[2]


def _nests(operators: Sequence[OperatorSpan], indices: list[int]) -> Iterator[list[int]]:
    """Each outermost operator of a thread, and then those inside it: one call ran them all."""
    # Of two that start together, the longer one is the outer one.
    indices.sort(key=lambda index: (operators[index].start_ns, -operators[index].end_ns))
    nest: list[int] = []
    for index in indices:
        if nest and operators[index].start_ns >= operators[nest[0]].end_ns:
            yield nest
            nest = []
        nest.append(index)
    if nest:
        yield nest


def _matched(
    operators: Sequence[OperatorSpan], nests: list[list[int]], calls: Sequence[ClientSpan]
) -> Iterator[tuple[list[int], ClientSpan]]:
    """As many nests as possible, each with a call that may have run it, and no call twice.

    Of the calls that were under way throughout a nest, the one that ends first gets it: calls that
    end later may also fit later nests.
    """
    waiting = sorted(calls, key=lambda call: call.start_ns, reverse=True)
    begun: list[tuple[float, int, ClientSpan]] = []
    for nest in sorted(nests, key=lambda nest: operators[nest[0]].start_ns):
        outer = operators[nest[0]]
        while waiting and waiting[-1].start_ns <= outer.start_ns:
            call = waiting.pop()
            end_ns = float("inf") if call.end_ns is None else call.end_ns
            insort(begun, (end_ns, call.call_id, call))
        position = bisect_left(begun, (outer.end_ns,))
        if position < len(begun):
            yield nest, begun.pop(position)[2]
