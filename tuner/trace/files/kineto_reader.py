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
    EventCount,
    EventId,
    SpanColumns,
    Spans,
    thread_numbers,
)
from tuner.trace.files.trace_text import TraceText, decode_json
from tuner.trace.model.call_names import read_call_name

OPERATOR = "cpu_op"
ANNOTATION = "user_annotation"
PROFILED = "Trace"
"""The category of the profiler's own span, which lasts as long as it recorded."""
METADATA = ""
MOST_PROCESSES = 1000
"""Whose events are read: a file is of one process, or of a few that others have joined."""

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


class _Columns:
    """What a file holds of one process, part by part."""

    def __init__(self) -> None:
        self.operators = SpanColumns()
        self.calls = SpanColumns()
        self.labels: dict[EventId, str] = {}
        self.is_profiled = False

    def add(self, group: Mapping[str, list[Event]], pid: EventId) -> None:
        """Add its events, by category."""
        self.is_profiled |= bool(group[OPERATOR] or group[ANNOTATION])
        self.operators.add(group[OPERATOR])
        self.calls.add([event for event in group[ANNOTATION] if read_call_name(event.name)])
        self.labels |= _thread_labels(group[METADATA], pid)


def read_kineto(parts: Iterable[TraceText]) -> KinetoFile:
    """The processes of a file, in its order. UsageError if it is no trace."""
    columns = defaultdict[EventId, _Columns](_Columns)
    profiler, count = SpanColumns(), EventCount()
    for text in parts:
        try:
            document, whole = text.decode(_File)
        except msgspec.ValidationError as error:
            raise text.no_trace(error) from None
        groups = _grouped(count.events_in(document.traceEvents, text))
        for pid, group in groups.items():
            columns[pid].add(group, pid)
            profiler.add(group[PROFILED])
        if len(columns) > MOST_PROCESSES:
            raise text.refused(f"no trace: events of more than {MOST_PROCESSES:,} processes")
    if not count.read:
        raise text.refused("a trace without events")
    losses = count.losses(text, whole)
    pids = [pid for pid, each in columns.items() if each.is_profiled]
    recorded_ns = profiler.spans(
        thread_numbers(profiler.threads), document.baseTimeNanoseconds
    ).window_ns()
    processes = []
    for pid in pids or [None]:
        process, lost = _process(text, document, pid, columns[pid], recorded_ns)
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
    columns: _Columns,
    recorded_ns: Sequence[int],
) -> tuple[Process, list[str]]:
    """One process, from its columns and when the profiler recorded; and the losses."""
    base_ns = document.baseTimeNanoseconds
    numbers = thread_numbers([*columns.labels, *columns.operators.threads, *columns.calls.threads])
    operators = columns.operators.spans(numbers, base_ns)
    calls = columns.calls.spans(numbers, base_ns)
    times_ns = [*operators.window_ns(), *calls.window_ns(), *recorded_ns]
    distributed = document.distributedInfo or _Distributed()
    process = Process(
        subject=text.subject,
        rank=distributed.rank,
        world_size=distributed.world_size,
        host=document.host_name,
        pid=pid if isinstance(pid, int) and abs(pid) < 2**63 else None,
        threads=_threads(numbers, columns.labels),
        operators=operators,
        calls=calls,
        window_ns=(min(times_ns), max(times_ns)) if times_ns else None,
    )
    return process, [
        text.left_out(number, noun, why)
        for noun, spans in (("operator", columns.operators), ("call", columns.calls))
        for why, number in spans.lost.items()
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
