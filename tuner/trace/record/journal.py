"""What a process of a program records: files that outlive it, however it ends.

They are mapped into memory, and written as calls happen, so that the kernel keeps what a killed
process had written. Standard library only: it runs in the program's own interpreter.
"""

import itertools
import json
import mmap
import os
import struct
import threading
from array import array
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

MOST_CALLS = 250_000
"""Calls of one process that are recorded: of many more, no reader of traces shows anything."""
EVERYBODY_READS = "everybody.reads"
"""The file, beside the journals, that says of every rank that it can read marked requests, where
those of other hosts cannot be seen."""
NOTHING = -1
"""Stands for no number, no text, and the end of what has not ended."""
STATUSES = ("ok", "raised", "timed-out", "unfinished")

_CHUNK_RECORDS = 1024
MOST_RECORDS = 4 * MOST_CALLS
"""So much of a file is read: of a call there may be two records, and many may call one server."""


class Records:
    """A file of records of one size. The last value of each is never 0: then it is whole."""

    def __init__(self, layout: str) -> None:
        """The values of a record, as `struct` has them."""
        self._layout = struct.Struct(f"<{layout}")
        # Chunks are mapped one by one, so they begin at multiples of a page.
        pages = -(-_CHUNK_RECORDS * self._layout.size // mmap.PAGESIZE)
        self._chunk_bytes = pages * mmap.PAGESIZE
        self._chunks: list[mmap.mmap] = []
        self._numbers = itertools.count()
        self._growing = threading.Lock()
        self._file = NOTHING
        self.is_full = False
        """Whether the disk had no room for a record."""

    def create(self, path: Path) -> None:
        """Make the file; OSError if that is not possible."""
        flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
        self._file = os.open(path, flags, 0o600)
        self._grow()

    def put(self, values: tuple[Any, ...]) -> None:
        """Write a record; from any thread. What comes after `close` is not kept."""
        # In each call: every line of this slows the program.
        chunk, place = divmod(next(self._numbers), _CHUNK_RECORDS)
        chunks = self._chunks
        if chunk < len(chunks) or self._has_grown_to(chunk):
            self._layout.pack_into(chunks[chunk], place * self._layout.size, *values)

    def close(self) -> None:
        """Close the file; its records stay."""
        with self._growing:
            # A thread that is writing keeps its chunk.
            self._chunks = []
            if self._file != NOTHING:
                os.close(self._file)
                self._file = NOTHING

    def read(self, path: Path) -> Iterator[tuple[Any, ...]]:
        """The values of every record, while and after they are written, up to a bound."""
        size = self._layout.size
        with path.open("rb") as file:
            for _ in range(-(-MOST_RECORDS // _CHUNK_RECORDS)):
                chunk = file.read(self._chunk_bytes)
                whole = min(len(chunk) // size, _CHUNK_RECORDS)
                yield from filter(_is_written, self._layout.iter_unpack(chunk[: whole * size]))
                if len(chunk) < self._chunk_bytes:
                    return

    def _has_grown_to(self, chunk: int) -> bool:
        with self._growing:
            try:
                while self._file != NOTHING and not self.is_full and chunk >= len(self._chunks):
                    self._grow()
            except OSError:
                self.is_full = True
            return chunk < len(self._chunks)

    def _grow(self) -> None:
        start = len(self._chunks) * self._chunk_bytes
        # A page that the disk has no room for would end the process when it is written.
        os.posix_fallocate(self._file, start, self._chunk_bytes)
        self._chunks.append(mmap.mmap(self._file, self._chunk_bytes, offset=start))


def _is_written(values: tuple[Any, ...]) -> bool:
    return bool(values[-1])


LAYOUTS = {
    # Call, its target's text, thread, parent, start, issue, number of its status, error, time limit
    # in seconds, bytes of its request, end. NOTHING stands for an unknown limit, too.
    "calls": "8qd2q",
    # Call, thread, start, CPU time, the thread's `schedule` before and after, end.
    # Of a schedule the first two numbers count, which have 14 digits after a day.
    "served": "4q32s32sq",
    # Call, one more than the number of its function's error.
    "raised": "2q",
    # Call, when its answer was pickled.
    "answered": "2q",
    # Call, when the future of its `async_execution` function was complete.
    "done": "2q",
    # Name, thread, start, end of an operator that is noted in Python.
    "noted": "4q",
}
"""The records of a journal, each in a file of its own, and their values as `struct` has them."""


class Journal:
    """What one process records, in files of its own; from any thread.

    A call that has not ended may be in it, too: if it ends, it is there again.
    """

    def __init__(self, path: Path) -> None:
        """`path` is that of all files but for their suffix; OSError if they cannot be made."""
        records = {name: Records(layout) for name, layout in LAYOUTS.items()}
        for name, each in records.items():
            each.create(path.with_suffix(f".{name}"))
        self._records = tuple(records.values())
        self.calls, self.served, self.raised, self.answered, self.done, self.noted = self._records
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

    @property
    def is_full(self) -> bool:
        """Whether the disk had no room for a record."""
        return any(each.is_full for each in self._records)

    def close(self) -> None:
        """Close all files; what comes later is not kept."""
        with self._lock:
            for each in self._records:
                each.close()
            if self._texts_file != NOTHING:
                os.close(self._texts_file)
                self._texts_file = NOTHING

    def note_arrivals(self, calls: list[int]) -> None:
        """Keep the ids of the calls that have arrived here; once, at the end."""
        with suppress(OSError):  # the disk is full
            self._arrivals_file.write_bytes(array("q", calls).tobytes())
