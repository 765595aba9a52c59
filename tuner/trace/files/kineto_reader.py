"""Reads the Chrome traces that `torch.profiler` exports, one process at a time.

They hold operators. Kineto does not record calls; but a program may annotate them with PyTorch's
names, and then the clients' side is known.
"""

import re
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Annotated

import msgspec

from tuner.text import shortened
from tuner.trace.files.chrome_events import (
    Event,
    EventId,
    Spans,
    events_in,
    spans_of,
    thread_numbers,
)
from tuner.trace.files.trace_text import TraceText, decode_json
from tuner.trace.model.call_names import read_call_name

OPERATOR = "cpu_op"
ANNOTATION = "user_annotation"
PROFILED = "Trace"
"""The category of the profiler's own span, which lasts as long as it recorded."""
METADATA = ""

_PHASES = frozenset("XBM")
"""Complete events, begins, and metadata."""
_THREAD_LABEL = re.compile(r"thread \d+ \((.*)\)")


class _Distributed(msgspec.Struct):
    rank: Annotated[int, msgspec.Meta(ge=0, lt=2**31)] | None = None
    world_size: Annotated[int, msgspec.Meta(ge=0, lt=2**31)] | None = None


class _File(msgspec.Struct):
    """A whole file, its events not yet looked into."""

    traceEvents: msgspec.Raw  # noqa: N815 - the format's own names
    baseTimeNanoseconds: Annotated[int, msgspec.Meta(ge=0, lt=2**62)] = 0  # noqa: N815
    """Unix time of the time stamps' zero; older versions of PyTorch count from 1970."""
    distributedInfo: _Distributed | None = None  # noqa: N815
    host_name: str = ""


class _Label(msgspec.Struct):
    """The arguments of a metadata event that names a thread."""

    name: str


@dataclass(frozen=True, kw_only=True)
class Process:
    """One process of one file. Times are nanoseconds of Unix time."""

    subject: str
    """The file, for messages."""
    rank: int | None
    """The rank in `torch.distributed`; None if the file does not tell."""
    world_size: int | None
    host: str
    pid: int | None
    threads: tuple[tuple[int, str], ...]
    operators: Spans
    calls: Spans
    window_ns: tuple[int, int] | None
    """When the profiler recorded; None if nothing in the file has a time."""

    @property
    def rpc_name(self) -> str | None:
        """The client's name in its calls; None if it made none."""
        names = (read_call_name(name) for name in self.calls.names.categories)
        return next((name.client for name in names if name), None)


@dataclass(frozen=True, kw_only=True)
class KinetoFile:
    """What one file holds: usually one process."""

    processes: tuple[Process, ...]
    losses: tuple[str, ...]


def read_kineto(text: TraceText) -> KinetoFile:
    """The processes of a file, in its order. UsageError if it is no trace."""
    try:
        document, whole = text.decode(_File)
    except msgspec.ValidationError as error:
        raise text.no_trace(error) from None
    events, losses = events_in(document.traceEvents, text)
    if not events:
        raise text.refused("a trace without events")
    if not whole:
        losses.append(text.broken_off(len(events)))
    groups = _grouped(events)
    pids = [pid for pid, group in groups.items() if group[OPERATOR] or group[ANNOTATION]]
    profiled = [event for group in groups.values() for event in group[PROFILED]]
    processes = []
    for pid in pids or [None]:
        process, lost = _process(text, document, pid, groups[pid], profiled)
        processes.append(process)
        losses += lost
    if len(processes) > 1:
        # The file tells the rank of the process that wrote it, but not which of these it is.
        processes = [replace(process, rank=None) for process in processes]
    return KinetoFile(processes=tuple(processes), losses=tuple(losses))


def _grouped(events: Iterable[Event]) -> dict[EventId, dict[str, list[Event]]]:
    """Spans and metadata, by process and category."""
    groups: defaultdict[EventId, dict[str, list[Event]]]
    groups = defaultdict(lambda: defaultdict(list))
    for event in events:
        if event.ph in _PHASES:
            groups[event.pid][event.cat].append(event)
    return groups


def _process(
    text: TraceText,
    document: _File,
    pid: EventId,
    group: Mapping[str, list[Event]],
    profiled: Sequence[Event],
) -> tuple[Process, list[str]]:
    """One process, from its events by category and the profiler's own; and the losses."""
    base_ns = document.baseTimeNanoseconds
    annotated = [event for event in group[ANNOTATION] if read_call_name(event.name)]
    labels = _thread_labels(group[METADATA], pid)
    used = (event.tid for events in (group[OPERATOR], annotated) for event in events)
    numbers = thread_numbers([*labels, *used])
    operators, lost_operators = spans_of(group[OPERATOR], numbers, base_ns)
    calls, lost_calls = spans_of(annotated, numbers, base_ns)
    recording, _ = spans_of(profiled, thread_numbers(event.tid for event in profiled), base_ns)
    times_ns = [*operators.window_ns(), *calls.window_ns(), *recording.window_ns()]
    distributed = document.distributedInfo or _Distributed()
    process = Process(
        subject=text.subject,
        rank=distributed.rank,
        world_size=distributed.world_size,
        host=document.host_name,
        pid=pid if isinstance(pid, int) and abs(pid) < 2**63 else None,
        threads=_threads(numbers, labels),
        operators=operators,
        calls=calls,
        window_ns=(min(times_ns), max(times_ns)) if times_ns else None,
    )
    return process, [
        text.left_out(number, noun, why)
        for noun, lost in (("operator", lost_operators), ("call", lost_calls))
        for why, number in lost.items()
    ]


def _thread_labels(metadata: Iterable[Event], pid: EventId) -> dict[EventId, str]:
    """The name of each thread, by its id in the file."""
    labels: dict[EventId, str] = {}
    for event in metadata:
        if event.name != "thread_name":
            continue
        try:
            name = shortened(decode_json(event.args, _Label).name)
        except ValueError:  # no name in the arguments, or not UTF-8
            continue
        # Kineto writes `thread 12880 (python)`, with the kernel's name of the thread.
        own = _THREAD_LABEL.fullmatch(name)
        labels[event.tid] = "main" if event.tid == pid else own[1] if own else name
    return labels


def _threads(
    numbers: Mapping[EventId, int], labels: Mapping[EventId, str]
) -> tuple[tuple[int, str], ...]:
    """The named threads, by number; an id that is text serves as the name."""
    named = {
        number: labels.get(track) or (track if isinstance(track, str) else "")
        for track, number in numbers.items()
    }
    return tuple(sorted((number, name) for number, name in named.items() if name))
