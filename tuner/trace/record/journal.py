"""What a process of a program records: files that outlive it, however it ends.

They are mapped into memory, so that the kernel keeps what a killed process had written: all but
the last WRITE_S seconds. Standard library only: it runs in the program's own interpreter.
"""

import json
import mmap
import os
import re
import struct
import threading
from array import array
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple, get_args

from tuner.files import head_of
from tuner.trace.model.spans import CALLS_PER_RANK, CallBody, CallKind, ClientSpan, ServerSpan
from tuner.trace.record.threads import waited_ns

MOST_CALLS = 250_000
"""Calls of one process that are recorded: of many more, no reader of traces shows anything."""
EVERYBODY_READS = "everybody.reads"
"""The file, beside the journals, that says of every rank that it can read marked requests, where
those of other hosts cannot be seen."""
WRITE_S = 0.05
"""How often records are written. To do that in each call would slow the program twice as much."""
NOTHING = -1
"""Stands for no number, no text, and the end of what has not ended."""
STATUSES = ("ok", "raised", "timed-out", "unfinished")

_CHUNK_RECORDS = 4096
_MOST_CHUNKS = -(-4 * MOST_CALLS // _CHUNK_RECORDS)
"""So much of a file is read: of a call there may be two records, and many may call one server."""
_MOST_TEXT_BYTES = 1 << 26
_MOST_RANKS = 1 << 21
"""More would make no ids of calls that every reader of JSON keeps."""
_MOST_NS = 1 << 62
_SCHEDULE = re.compile(rb"(\d+ \d+(\s.*)?)?", re.DOTALL)


class Records:
    """A file of records of one size. The last value of each is never 0: then it is whole."""

    def __init__(self, layout: str) -> None:
        """The values of a record, as `struct` has them."""
        self._layout = struct.Struct(f"<{layout}")
        # Chunks are mapped one by one, so they begin at multiples of a page.
        pages = -(-_CHUNK_RECORDS * self._layout.size // mmap.PAGESIZE)
        self._chunk_bytes = pages * mmap.PAGESIZE
        self._chunks: list[mmap.mmap] = []
        # A list, since it can be added to from any thread without a lock; `put` is its own method,
        # since one of ours would cost more than all it does.
        self._waiting: list[tuple[Any, ...]] = []
        self.put: Callable[[tuple[Any, ...]], None] = self._waiting.append
        """Add a record; in each call: every line of this would slow the program."""
        self._written = 0
        self.is_full = False
        """Whether the disk had no room for a record."""

    def create(self, path: Path) -> None:
        """Make the file; OSError if that is not possible."""
        flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
        self._file = os.open(path, flags, 0o600)
        self._grow()

    def write(self) -> None:
        """Write the records that were added until now; one thread at a time."""
        count = len(self._waiting)
        for values in self._waiting[:count]:
            chunk, number = divmod(self._written, _CHUNK_RECORDS)
            if chunk == len(self._chunks) and (self.is_full or not self._has_grown()):
                break
            self._layout.pack_into(self._chunks[chunk], number * self._layout.size, *values)
            self._written += 1
        del self._waiting[:count]

    def read(self, path: Path) -> Iterator[tuple[Any, ...]]:
        """The values of every record, while and after they are written, up to a bound."""
        size = self._layout.size
        with path.open("rb") as file:
            for _ in range(_MOST_CHUNKS):
                chunk = file.read(self._chunk_bytes)
                whole = min(len(chunk) // size, _CHUNK_RECORDS)
                yield from filter(_is_written, self._layout.iter_unpack(chunk[: whole * size]))
                if len(chunk) < self._chunk_bytes:
                    return

    def _has_grown(self) -> bool:
        try:
            self._grow()
        except OSError:
            self.is_full = True
        return not self.is_full

    def _grow(self) -> None:
        start = len(self._chunks) * self._chunk_bytes
        # A page that the disk has no room for would end the process when it is written.
        os.posix_fallocate(self._file, start, self._chunk_bytes)
        self._chunks.append(mmap.mmap(self._file, self._chunk_bytes, offset=start))


def _is_written(values: tuple[Any, ...]) -> bool:
    return bool(values[-1])


def _calls() -> Records:
    """Call, its target's text, thread, parent, start, issue, number of its status, error, end."""
    return Records("9q")


def _served() -> Records:
    """Call, thread, start, CPU time, the thread's `schedule` before and after, end."""
    # Of a schedule the first two numbers count, which have 14 digits after a day.
    return Records("4q32s32sq")


def _done() -> Records:
    """Call, when the future of its `async_execution` function was complete."""
    return Records("2q")


class Journal:
    """What one process records, in files of its own; from any thread, but for `write`.

    A call that has not ended may be in it, too: if it ends, it is there again.
    """

    def __init__(self, path: Path) -> None:
        """`path` is that of all files but for their suffix; OSError if they cannot be made."""
        self.calls, self.served, self.done = _calls(), _served(), _done()
        for name, records in (("calls", self.calls), ("served", self.served), ("done", self.done)):
            records.create(path.with_suffix(f".{name}"))
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND | os.O_CLOEXEC
        self._arrivals_file = path.with_suffix(".arrivals")
        self._texts_file = os.open(path.with_suffix(".texts"), flags, 0o600)
        self._texts: dict[str, int] = {}
        self._lock = threading.Lock()

    def text(self, text: str) -> int:
        """The number that stands for a text; NOTHING if the disk is full."""
        number = self._texts.get(text)
        if number is None:
            with self._lock:
                number = self._texts.setdefault(text, len(self._texts))
                if number == len(self._texts) - 1:
                    try:
                        os.write(self._texts_file, json.dumps([number, text]).encode() + b"\n")
                    except OSError:
                        number = self._texts[text] = NOTHING
        return number

    def write(self) -> None:
        """Write the records that were added until now."""
        for records in (self.calls, self.served, self.done):
            records.write()

    def note_arrivals(self, calls: list[int]) -> None:
        """Keep the ids of the calls that have arrived here; once, at the end."""
        with suppress(OSError):  # the disk is full
            self._arrivals_file.write_bytes(array("q", calls).tobytes())


@dataclass(frozen=True, kw_only=True)
class JournalContent:
    """The calls of one process, from its journal."""

    client_spans: list[ClientSpan] = field(default_factory=list)
    server_spans: list[ServerSpan] = field(default_factory=list)
    done_ns: dict[int, int] = field(default_factory=dict)
    arrivals: list[int] | None = None
    """The ids of the calls that had arrived when the process noted them; None if it never did."""
    damaged: int = 0
    """How many records are none that a process writes."""


class _Target(NamedTuple):
    """What a call calls, as the journal has it in JSON."""

    kind: str
    function: str
    server: str
    server_rank: int
    body: str


def read_journal(path: Path) -> JournalContent:
    """What a journal holds, also while its process is still writing it, or was killed.

    The program can write to its files, too: what is no record is left out, and counted.

    Raises:
        OSError: The files cannot be read.
    """
    for name in ("texts", "calls", "served", "done"):
        if not path.with_suffix(f".{name}").is_file():
            raise FileNotFoundError(f"{path.name} has no {name}")
    texts = dict(_texts(path.with_suffix(".texts")))
    calls = _last_of_each(_calls().read(path.with_suffix(".calls")))
    targets = {number: _target(texts.get(number, "")) for number in {call[1] for call in calls}}
    served = _last_of_each(_served().read(path.with_suffix(".served")))
    client_spans = [
        _client_span(call, target, texts)
        for call in calls
        if (target := targets[call[1]]) is not None and _is_call(call)
    ]
    server_spans = [_server_span(*call) for call in served if _is_served(*call)]
    return JournalContent(
        client_spans=client_spans,
        server_spans=server_spans,
        done_ns={
            call: done_ns
            for call, done_ns in _done().read(path.with_suffix(".done"))
            if _is_id(call) and _is_time(done_ns)
        },
        arrivals=_arrivals(path.with_suffix(".arrivals")),
        damaged=len(calls) - len(client_spans) + len(served) - len(server_spans),
    )


def _is_id(call: int) -> bool:
    return 0 <= call < _MOST_RANKS * CALLS_PER_RANK


def _is_time(time_ns: int) -> bool:
    return 0 <= time_ns < _MOST_NS


def _is_call(call: tuple[Any, ...]) -> bool:
    call_id, _, thread, parent, start_ns, issued_ns, status, _, end_ns = call
    return (
        _is_id(call_id)
        and _is_time(thread)
        and (parent == NOTHING or _is_id(parent))
        and _is_time(start_ns)
        and _is_time(issued_ns)
        and 0 <= status < len(STATUSES)
        and (end_ns == NOTHING or start_ns <= end_ns < _MOST_NS)
    )


def _is_served(
    call_id: int, thread: int, start_ns: int, cpu_ns: int, before: bytes, after: bytes, end_ns: int
) -> bool:
    times = map(_is_time, (thread, start_ns, cpu_ns))
    has_ended = end_ns == NOTHING or start_ns <= end_ns < _MOST_NS
    known = all(_SCHEDULE.fullmatch(each.rstrip(b"\0")) for each in (before, after))
    return _is_id(call_id) and all(times) and has_ended and known


def _arrivals(path: Path) -> list[int] | None:
    if not path.is_file():
        return None
    content = head_of(path, _MOST_CHUNKS * _CHUNK_RECORDS * 8)
    # The process may have been killed, or the disk full, while it was written.
    return array("q", content[: len(content) // 8 * 8]).tolist()


def _last_of_each(records: Iterable[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
    """One record per call: that of its end, if it has ended."""
    found: dict[int, tuple[Any, ...]] = {}
    for record in records:
        if record[-1] != NOTHING or record[0] not in found:
            found[record[0]] = record
    return list(found.values())


def _texts(path: Path) -> Iterator[tuple[int, str]]:
    # The last line has no end if the process was killed while it wrote it.
    for line in head_of(path, _MOST_TEXT_BYTES).split(b"\n")[:-1]:
        match _json(line):
            case [int(number), str(text)]:
                yield number, text


def _target(text: str) -> _Target | None:
    match _json(text):
        case [str(kind), str(function), str(server), int(rank), str(body)] if (
            kind in get_args(CallKind) and body in get_args(CallBody) and 0 <= rank < _MOST_RANKS
        ):
            return _Target(kind, function, server, rank, body)
    return None


def _json(text: str | bytes) -> Any:
    """What JSON says; None for what is none."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


def _client_span(call: tuple[Any, ...], target: _Target, texts: Mapping[int, str]) -> ClientSpan:
    call_id, _, thread, parent, start_ns, issued_ns, status, error, end = call
    end_ns = None if end == NOTHING else end
    return ClientSpan(
        call_id=call_id,
        kind=target.kind,
        body=target.body,
        function=target.function,
        server=target.server,
        server_rank=target.server_rank,
        thread=thread,
        parent_call=None if parent == NOTHING else parent,
        start_ns=start_ns,
        # The answer may be here before the thread that issued the call has noted the time.
        issued_ns=issued_ns or end_ns or start_ns,
        end_ns=end_ns,
        status=STATUSES[status],
        error=texts.get(error, ""),
    )


def _server_span(
    call_id: int, thread: int, start_ns: int, cpu_ns: int, before: bytes, after: bytes, end_ns: int
) -> ServerSpan:
    if end_ns == NOTHING:
        return ServerSpan(call_id, thread, start_ns, None, None, None)
    waited = waited_ns(
        before.rstrip(b"\0"), after.rstrip(b"\0"), at_most_ns=end_ns - start_ns - cpu_ns
    )
    return ServerSpan(call_id, thread, start_ns, end_ns, cpu_ns, waited)
