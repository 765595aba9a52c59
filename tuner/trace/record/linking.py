"""Finds which call ran which operator.

A Python function's operators lie inside its span, on its thread. A builtin operator and a
TorchScript function run without Python, so the server has no span of them: their operators stand
for it, and belong to a call of fitting name and times. If several calls fit, any assignment that
the times allow is as good as another. Such links are `inferred`.
"""

from bisect import bisect_left, bisect_right, insort
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from tuner.torch_private.private_names import STEP, STEP_HELPERS
from tuner.trace.model.spans import ClientSpan, OperatorSpan, ServerSpan


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
