"""Reads the Chrome traces that `torch.profiler` exports, one process at a time.

They hold operators, and the clients' side of calls that a program annotates with PyTorch's names.
Every version of PyTorch since 1.8 is read:

- The category of operators is `Operator` in 1.8 and 1.9, and `cpu_op` since. Older versions write
  annotations with it, too; and ids of threads as text.
- Times are whole microseconds since 1970 before 2.4; with three decimals since
  `baseTimeNanoseconds` since, which older versions write after the events; and in builds between
  them with three decimals since 1970, which are more digits than a float64 has.
- Other tools join the files of several ranks, and write the rank into the ids of processes; keep
  the array of the events alone; or write times as text.
"""

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import msgspec

from tuner.text import first_of, plural, shortened
from tuner.trace.files import chrome_events as chrome
from tuner.trace.files.chrome_events import Event, EventId, EventParts, SpanColumns, Spans
from tuner.trace.files.trace_text import TraceText, decode_json
from tuner.trace.model.spans import CallName, read_call_name

OPERATORS = ("cpu_op", "Operator")
ANNOTATION = "user_annotation"
PROFILED = "Trace"  # the category of the profiler's own span, which lasts as long as it recorded
METADATA = ""
MOST_PROCESSES = 1000  # a file is of one process, or of a few that others have joined
YEAR_2001_NS = 10**18  # earlier times do not count from 1970

_PHASES = frozenset("XBM")  # complete events, begins, and metadata
_THREAD_LABEL = re.compile(r"thread \d+ \((.*)\)")
# The id of a process in a joined file: `[rank1] 7`, `[rank 1] 7`, `[TP01] 7`.
_RANK = re.compile(r"\[?(?:rank|wr|tp)[ _:-]?([0-9]{1,9})\b.*", re.IGNORECASE)
_LAST_NUMBER = re.compile(r"(?:.*[^0-9])?([0-9]{1,18})\]?")
_OF_DEVICES = re.compile(r"(?i)kernel|memcpy|memset|runtime|gpu_.*|.*_runtime|.*_driver|cuda_.*")
_OF_TORCH = re.compile(rf"{_OF_DEVICES.pattern}|python_function|Trace|user_annotation")
_MOST_CATEGORIES = 5
_READ = (ANNOTATION, PROFILED)  # categories of which at least some are read, beside operators
_MARKS = ("Record Window End", "Iteration Start")  # what the profiler writes of itself


class _Label(msgspec.Struct):
    name: str


@dataclass(frozen=True, kw_only=True)
class Process:
    """One process of one file, the subject. Times are nanoseconds of Unix time."""

    subject: str
    rank: int | None  # in `torch.distributed`, if the file says it
    world_size: int | None
    host: str
    pid: int | None
    threads: tuple[tuple[int, str], ...]
    operators: Spans
    calls: Spans
    window_ns: tuple[int, int] | None  # when the profiler recorded; None if nothing has a time
    is_baseless: bool = False  # whether the file breaks off before the base of its times

    @property
    def call_names(self) -> list[CallName]:
        """The names of its calls."""
        return [name for name in map(read_call_name, self.calls.names.categories) if name]

    @property
    def rpc_name(self) -> str | None:
        """The client's name in its calls; None if it made none."""
        return next((name.client for name in self.call_names), None)


@dataclass(frozen=True)
class KinetoFile:
    """What one file, the subject, holds: usually one process."""

    subject: str
    processes: list[Process]
    losses: list[str]
    others: str  # what it has beside operators and calls, for messages
    unread: Counter[str]  # its events that are not read, by kind
    events: int  # all but metadata


class _Columns:
    """What a file holds of one process, part by part."""

    def __init__(self) -> None:
        self.operators = SpanColumns()
        self.calls = SpanColumns()
        self.labels: dict[EventId, str] = {}
        self.is_annotated = False
        self.unread_annotations = 0

    def add(self, group: Mapping[str, list[Event]], pid: EventId) -> None:
        """Add its events, by category."""
        self.is_annotated |= bool(group[ANNOTATION])
        for category in OPERATORS:
            self.operators.add(group[category])
        calls = [event for event in group[ANNOTATION] if read_call_name(event.name)]
        self.calls.add(calls)
        self.unread_annotations += len(group[ANNOTATION]) - len(calls)
        self.labels |= _thread_labels(group[METADATA], pid)

    def process(
        self, subject: str, document: chrome.Document, pid: EventId, recorded_ns: Sequence[int]
    ) -> Process:
        """The process; `recorded_ns` is when the profiler recorded."""
        numbers = chrome.thread_numbers(
            [*self.labels, *self.operators.threads, *self.calls.threads]
        )
        zero_ns = document.baseTimeNanoseconds or 0
        operators = self.operators.spans(numbers, zero_ns)
        calls = self.calls.spans(numbers, zero_ns)
        # A call may have the category of operators, too.
        if of_calls := [name for name in operators.names.categories if read_call_name(name)]:
            is_call = operators.names.isin(of_calls)
            calls = Spans.joined([calls, operators.take(is_call)])
            operators = operators.take(~is_call)
        named = (
            (number, self.labels.get(track) or (track if isinstance(track, str) else ""))
            for track, number in numbers.items()
        )
        times_ns = [*operators.window_ns(), *calls.window_ns(), *recorded_ns]
        distributed = document.distributedInfo
        return Process(
            subject=subject,
            rank=distributed.rank if distributed else None,
            world_size=distributed.world_size if distributed else None,
            host=document.host_name,
            pid=_pid(pid),
            threads=tuple(sorted((number, name) for number, name in named if name)),
            operators=operators,
            calls=calls,
            window_ns=(min(times_ns), max(times_ns)) if times_ns else None,
        )


class KinetoEvents:
    """What a file holds of its processes, part by part."""

    def __init__(self) -> None:
        self._columns = defaultdict[EventId, _Columns](_Columns)
        self._profiler = SpanColumns()
        self._others = Counter[str]()
        self._unread = Counter[str]()
        self._metadata = 0

    def add(self, events: Iterable[Event], text: TraceText) -> None:
        """Add the events of a part. UsageError if they are of too many processes."""
        groups, others = _grouped(events)
        self._unread.update(map(chrome.unread_kind, others))
        for pid, group in groups.items():
            self._columns[pid].add(group, pid)
            self._profiler.add(group[PROFILED])
            categories = _categories(group)
            self._others.update(categories)
            self._unread.update(
                {
                    category or "without a category": number
                    for category, number in categories.items()
                    if category not in _READ
                }
            )
            self._metadata += sum(event.ph == "M" for event in group[METADATA])
        if len(self._columns) > MOST_PROCESSES:
            raise text.foreign(f"no trace: events of more than {MOST_PROCESSES:,} processes")

    def file(self, events: EventParts, last: TraceText) -> KinetoFile:
        """The file, once its last part was added. UsageError if it is no trace of Kineto."""
        losses, others, document = events.losses(last), _what_else(self._others), events.document
        threads = chrome.thread_numbers(self._profiler.threads)
        base_ns = document.baseTimeNanoseconds
        recorded_ns = self._profiler.spans(threads, base_ns or 0).window_ns()
        columns = self._columns
        pids = [pid for pid, of in columns.items() if of.operators.threads or of.calls.threads]
        if self._others and not pids and not any(map(_OF_TORCH.fullmatch, self._others)):
            what = f"not of torch.profiler: no operator and no call in it{others}"
            raise last.foreign(what, losses)
        # Other events, such as annotations on a GPU, are of no process of their own.
        pids = pids or [pid for pid, column in columns.items() if column.is_annotated] or [None]
        processes = [columns[pid].process(last.subject, document, pid, recorded_ns) for pid in pids]
        for pid in pids:
            losses += columns[pid].operators.losses(last, "operator")
            losses += columns[pid].calls.losses(last, "call")
        latest_ns = max((each.window_ns[1] for each in processes if each.window_ns), default=0)
        is_based = base_ns is not None or latest_ns >= YEAR_2001_NS
        # An array never has a base: it does not lack one.
        is_baseless = not (is_based or events.has_header or last.first == b"[")
        if is_baseless:
            unknown = "from when its times count is not known"
            losses.append(f"{last.subject} lacks its base time: {unknown}.")
        ranks = zip(processes, _ranks(pids, processes[0].rank), strict=True)
        processes = [replace(each, rank=rank, is_baseless=is_baseless) for each, rank in ranks]
        annotations = sum(column.unread_annotations for column in columns.values())
        unread = self._unread + Counter({ANNOTATION: annotations})
        number = events.read - self._metadata
        return KinetoFile(last.subject, processes, losses, others, unread, number)


def _grouped(
    events: Iterable[Event],
) -> tuple[dict[EventId, dict[str, list[Event]]], list[Event]]:
    """Spans and metadata, by process and category; and events that are neither."""
    others: list[Event] = []
    groups: dict[EventId, dict[str, list[Event]]] = defaultdict(lambda: defaultdict(list))
    group: list[Event] = []
    for event in events:
        if event.ph in _PHASES:
            # Most events are of the group of the one before.
            if not group or event.cat != group[-1].cat or event.pid != group[-1].pid:
                group = groups[event.pid][event.cat]
            group.append(event)
        elif not event.name.startswith(_MARKS):
            others.append(event)
    return groups, others


def _categories(group: Mapping[str, Sequence[Event]]) -> dict[str, int]:
    """How many spans of a group are no operators, by category."""
    found = {category: len(events) for category, events in group.items()}
    found[METADATA] = sum(event.ph != "M" for event in group.get(METADATA, ()))
    return {each: number for each, number in found.items() if number and each not in OPERATORS}


def _ranks(pids: Sequence[EventId], own: int | None) -> list[int | None]:
    """The ranks that the ids of a joined file say; `own` is that of the process that wrote it."""
    found = [_RANK.fullmatch(pid) if isinstance(pid, str) else None for pid in pids]
    ranks = [int(match[1]) if match else None for match in found]
    if len(ranks) == 1 and own is not None:
        # Of several processes, it is not known which one wrote the file.
        ranks = [own]
    said = [rank for rank in ranks if rank is not None]
    return ranks if len({*said}) == len(said) else [None] * len(ranks)


def _pid(pid: EventId) -> int | None:
    """The number of a process, also in the id that it has in a joined file."""
    if isinstance(pid, str):
        found = _LAST_NUMBER.fullmatch(pid)
        return int(found[1]) if found else None
    return chrome.id_number(pid)


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
        is_main = event.tid is not None and chrome.id_number(event.tid) == _pid(pid)
        labels[event.tid] = "main" if is_main else own[1] if own else name
    return labels


def _what_else(others: Mapping[str, int]) -> str:
    if not others:
        return ""
    names = first_of([category or "none" for category in others], _MOST_CATEGORIES)
    number = plural(sum(others.values()), "event")
    if all(map(_OF_DEVICES.fullmatch, others)):
        return f", only {number} of GPUs ({names}): profile the CPU, too"
    return f", but {number} of other categories ({names})"
