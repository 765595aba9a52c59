"""What a process of a program records: files that outlive it, however it ends.

They are mapped into memory, so that the kernel keeps what a killed process had written. Standard
library only: it runs in the program's own interpreter.
"""

import itertools
import json
import mmap
import os
import struct
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tuner.trace.model.spans import ClientSpan, ServerSpan
from tuner.trace.record.threads import waited_ns

MOST_CALLS = 250_000
"""Calls of one process that are recorded: of many more, no reader of traces shows anything."""
NOTHING = -1
"""Stands for no number, and for no text."""
STATUSES = ("ok", "raised", "timed-out", "never sent")
NEVER_SENT = STATUSES.index("never sent")

_CHUNK_SLOTS_BITS = 12
_CHUNK_SLOTS = 1 << _CHUNK_SLOTS_BITS


class Slots:
    """A file of slots of one size. A slot is opened with some values, and closed with others.

    The last value of both parts is a time, and never 0: one without it was not written to its end.
    """

    def __init__(self, begin: str, end: str = "q") -> None:
        """The values of both parts, as `struct` has them."""
        self._begin, self._end = struct.Struct(f"<{begin}"), struct.Struct(f"<{end}")
        self._size = self._begin.size + self._end.size
        # Chunks are mapped one by one, so they begin at multiples of a page.
        self._chunk_bytes = -(-_CHUNK_SLOTS * self._size // mmap.PAGESIZE) * mmap.PAGESIZE
        self._chunks: list[mmap.mmap] = []
        self._numbers = itertools.count()
        self._growing = threading.Lock()

    def create(self, path: Path) -> None:
        """Make the file; OSError if that is not possible."""
        flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
        self._file = os.open(path, flags, 0o600)
        self._grow()

    def open(self, *values: Any) -> int:
        """Fill the next slot's first part; returns the slot, or NOTHING if the disk is full."""
        number = next(self._numbers)
        chunk = number >> _CHUNK_SLOTS_BITS
        if chunk >= len(self._chunks) and not self._has_grown_to(chunk):
            return NOTHING
        place = (number & (_CHUNK_SLOTS - 1)) * self._size
        self._begin.pack_into(self._chunks[chunk], place, *values)
        return number

    def close(self, number: int, *values: Any) -> None:
        """Fill the second part of a slot that `open` returned."""
        if number != NOTHING:
            place = (number & (_CHUNK_SLOTS - 1)) * self._size + self._begin.size
            self._end.pack_into(self._chunks[number >> _CHUNK_SLOTS_BITS], place, *values)

    def read(self, path: Path) -> Iterator[tuple[tuple[Any, ...], tuple[Any, ...] | None]]:
        """The values of every slot's first and second part, while and after they are written."""
        content = memoryview(path.read_bytes())
        for start in range(0, len(content), self._chunk_bytes):
            for place in range(start, start + _CHUNK_SLOTS * self._size, self._size):
                begun = self._begin.unpack_from(content, place)
                if begun[-1]:
                    ended = self._end.unpack_from(content, place + self._begin.size)
                    yield begun, ended if ended[-1] else None

    def _has_grown_to(self, chunk: int) -> bool:
        with self._growing:
            try:
                while chunk >= len(self._chunks):
                    self._grow()
            except OSError:
                return False
        return True

    def _grow(self) -> None:
        start = len(self._chunks) * self._chunk_bytes
        # A page that the disk has no room for would end the process when it is written.
        os.posix_fallocate(self._file, start, self._chunk_bytes)
        self._chunks.append(mmap.mmap(self._file, self._chunk_bytes, offset=start))


def _calls() -> Slots:
    """Call, text of its target, thread, parent, start; when issued, status, error's text, end."""
    return Slots("5q", "4q")


def _served() -> Slots:
    """Call, thread, start; CPU time, the thread's `schedule` before and after, end."""
    # Of a schedule the first two numbers count, which have 14 digits after a day.
    return Slots("3q", "q32s32sq")


def _done() -> Slots:
    """Call, when the future of its `async_execution` function was complete."""
    return Slots("2q")


class Journal:
    """What one process records, in files of its own; from any thread."""

    def __init__(self, path: Path) -> None:
        """`path` is that of all files but for their suffix; OSError if they cannot be made."""
        self.calls, self.served, self.done = _calls(), _served(), _done()
        for name, slots in (("calls", self.calls), ("served", self.served), ("done", self.done)):
            slots.create(path.with_suffix(f".{name}"))
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND | os.O_CLOEXEC
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


@dataclass(frozen=True, kw_only=True)
class JournalContent:
    """The calls of one process, from its journal."""

    client_spans: list[ClientSpan]
    server_spans: list[ServerSpan]
    done_ns: dict[int, int]


def read_journal(path: Path) -> JournalContent:
    """What a journal holds, also while its process is still writing it, or was killed.

    Raises:
        OSError: The files cannot be read.
    """
    texts = dict(_texts(path.with_suffix(".texts")))
    calls = list(_calls().read(path.with_suffix(".calls")))
    targets = {
        number: json.loads(texts[number])
        for number in {begun[1] for begun, _ in calls}
        if number in texts
    }
    return JournalContent(
        client_spans=[
            _client_span(begun, ended, targets[begun[1]], texts)
            for begun, ended in calls
            if begun[1] in targets and (ended is None or ended[1] != NEVER_SENT)
        ],
        server_spans=[
            _server_span(begun, ended)
            for begun, ended in _served().read(path.with_suffix(".served"))
        ],
        done_ns=dict(begun for begun, _ in _done().read(path.with_suffix(".done"))),
    )


def _texts(path: Path) -> Iterator[tuple[int, str]]:
    for line in path.read_bytes().splitlines(keepends=True):
        if line.endswith(b"\n"):  # else the process was killed while it wrote the line
            number, text = json.loads(line)
            yield number, text


def _client_span(
    begun: tuple[Any, ...], ended: tuple[Any, ...] | None, target: Any, texts: dict[int, str]
) -> ClientSpan:
    call_id, _, thread, parent, start_ns = begun
    kind, function, server, server_rank, body = target
    # The thread that issued the call may note the time when the answer is there already.
    issued_ns, status, error, end_ns = ended or (start_ns, NOTHING, NOTHING, None)
    return ClientSpan(
        call_id=call_id,
        kind=kind,
        body=body,
        function=function,
        server=server,
        server_rank=server_rank,
        thread=thread,
        parent_call=None if parent == NOTHING else parent,
        start_ns=start_ns,
        issued_ns=issued_ns or end_ns,
        end_ns=end_ns,
        status="unfinished" if ended is None else STATUSES[status],
        error=texts.get(error, ""),
    )


def _server_span(begun: tuple[Any, ...], ended: tuple[Any, ...] | None) -> ServerSpan:
    call_id, thread, start_ns = begun
    if ended is None:
        return ServerSpan(call_id, thread, start_ns, None, None, None)
    cpu_ns, before, after, end_ns = ended
    waited = waited_ns(
        before.rstrip(b"\0"), after.rstrip(b"\0"), at_most_ns=end_ns - start_ns - cpu_ns
    )
    return ServerSpan(call_id, thread, start_ns, end_ns, cpu_ns, waited)
