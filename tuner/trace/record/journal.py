"""What a process of a program records, in files that outlive it, however it ends.

They are mapped into memory: the kernel keeps what a killed process had written.
"""

import json
import mmap
import os
import struct
import threading
from array import array
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from tuner.trace.model.spans import CallbackSpan, ServerSpan
from tuner.trace.record.threads import in_turn, slices_between, waited_ns

MOST_CALLS = 250_000  # of one process: of many more, no reader of traces shows anything
MOST_ERRORS, LONGEST_ERROR = 1000, 500  # texts of errors that are kept, and their characters
EVERYBODY_READS = "everybody.reads"
"""The file, beside the journals, that says of every rank that it can read marked requests, where
those of other hosts cannot be seen."""
NOTHING = -1  # stands for no number, no text, and the end of what has not ended
STATUSES = ("ok", "raised", "timed-out", "unfinished")

SERVED = struct.Struct("<4q40s40sq")
"""A served call: its id, thread, start, CPU time, the thread's `schedule` before and after, and its
end. Of a schedule three numbers count, of which two have 14 digits after a day."""
CALLBACK = struct.Struct("<3q?5q")
"""A callback: its number, that of its name, its call, whether it holds a worker thread, its thread,
start, CPU time, time on the run queue, and end. NOTHING stands for no call and an unknown time."""
LAYOUTS = {
    # Call, its target's text, thread, parent, start, issue, number of its status, error, time limit
    # in seconds, bytes and tensors of its request, an earlier call of the same, its site's text,
    # end. NOTHING stands for an unknown limit, and an unknown site, too.
    "calls": struct.Struct("<8qd5q"),
    "served": SERVED,
    # Call, one more than the number of its function's error.
    "raised": struct.Struct("<2q"),
    # Call, how many tensors its answer has, their bytes, when that was pickled.
    "answered": struct.Struct("<4q"),
    # Call, when its request began to be unpickled, and when it was.
    "unpickled": struct.Struct("<3q"),
    # Call, when its answer began to be unpickled.
    "received": struct.Struct("<2q"),
    # Call, when the future of its `async_execution` function was complete.
    "done": struct.Struct("<2q"),
    # Name, thread, start, end of an operator that is noted in Python.
    "noted": struct.Struct("<4q"),
    "callbacks": CALLBACK,
    # When a thread that had slept wanted the GIL, how long it waited for it, how long it had slept.
    "gil": struct.Struct("<3q"),
    # A thread, the number of what it waits for and where, and when.
    "pauses": struct.Struct("<3q"),
}
"""The records of a journal, each in a file of its own, and their values. The last one is never 0
in a record that is whole."""
CHUNK_RECORDS = 1024
_CREATE = os.O_CREAT | os.O_EXCL | os.O_CLOEXEC


def chunk_bytes(layout: struct.Struct) -> int:
    """So much of a file has CHUNK_RECORDS; chunks are mapped one by one, as whole pages."""
    return -(-CHUNK_RECORDS * layout.size // mmap.PAGESIZE) * mmap.PAGESIZE


class Records:
    """A new file of records of one size; OSError if it cannot be made."""

    def __init__(self, layout: struct.Struct, path: Path) -> None:
        self._layout = layout
        self._chunks = 0
        self._growing = threading.Lock()
        self.is_full = False
        """Whether the disk had no room for a record."""
        self.write: Callable[[bytes], object] = _no_room
        """Keep a record, from any thread; ValueError if there is no room in this chunk."""
        self._file = os.open(path, os.O_RDWR | _CREATE, 0o600)
        self._grow()

    def put(self, *values: Any) -> None:
        """Keep the record with these values; from any thread."""
        record = self._layout.pack(*values)
        try:
            self.write(record)
        except ValueError:
            self.write_on(record)

    def write_on(self, record: bytes) -> None:
        """Keep a record in the next chunk; not if the disk is full, or the file closed."""
        with self._growing:
            try:
                self.write(record)  # another thread may have mapped it meanwhile
            except ValueError:
                if self._file != NOTHING and not self.is_full:
                    try:
                        self._grow()
                        self.write(record)
                    except OSError:
                        self.is_full = True

    def close(self) -> None:
        """Close the file; its records stay."""
        with self._growing:
            self.write = _no_room
            if self._file != NOTHING:
                os.close(self._file)
                self._file = NOTHING

    def _grow(self) -> None:
        size = chunk_bytes(self._layout)
        # A page that the disk has no room for would end the process when it is written.
        os.posix_fallocate(self._file, self._chunks * size, size)
        # As long as whole records: one that does not fit is written to the next.
        length = CHUNK_RECORDS * self._layout.size
        self.write = in_turn(mmap.mmap(self._file, length, offset=self._chunks * size).write)
        self._chunks += 1


def _no_room(record: bytes) -> None:
    raise ValueError


class InMemory:
    """Keeps records in memory, as `Records` does in a file; there is always room."""

    def __init__(self) -> None:
        self.records: list[bytes] = []
        self.write = self.write_on = self.records.append


class Journal:
    """What one process records, in files of its own; from any thread.

    A call that has not ended may be in it, too: if it ends, it is there again.
    """

    def __init__(self, path: Path) -> None:
        """`path` is that of all files but for their suffix; OSError if they cannot be made."""
        self._records = tuple(
            Records(layout, path.with_suffix(f".{name}")) for name, layout in LAYOUTS.items()
        )
        self.calls, self.served, self.raised, self.answered, *others = self._records
        self.unpickled, self.received, self.done, self.noted, self.callbacks, *others = others
        self.gil, self.pauses = others
        self._arrivals_file = path.with_suffix(".arrivals")
        flags = os.O_WRONLY | os.O_APPEND | _CREATE
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

    def error(self, text: str) -> int:
        """The same for the text of an error: of very many different ones, only the first."""
        text = text[:LONGEST_ERROR]
        if text not in self._texts and len(self._texts) >= MOST_ERRORS:
            text = "another error"
        return self.text(text)

    @property
    def is_full(self) -> bool:
        """Whether the disk had no room for a record."""
        return any(record.is_full for record in self._records)

    def close(self) -> None:
        """Close all files; what comes later is not kept."""
        with self._lock:
            for record in self._records:
                record.close()
            if self._texts_file != NOTHING:
                os.close(self._texts_file)
                self._texts_file = NOTHING

    def note_arrivals(self, calls: list[int]) -> None:
        """Keep the ids of the calls that have arrived here; once, at the end."""
        with suppress(OSError):  # the disk is full
            self._arrivals_file.write_bytes(array("q", calls).tobytes())


def served_span(
    record: tuple[Any, ...], answer: Sequence[int] | None, unpickled: tuple[int, int] | None,
    error: str,
) -> ServerSpan:  # fmt: skip
    """The span of a served call, from the values of its record, a SERVED.

    `answer` is when its answer was pickled, with how many tensors, and their bytes; `unpickled`
    when its request began to be, and when it was: each only if that took long.
    """
    call_id, thread, start_ns, cpu_ns, before, after, end_ns = record
    # The run queue is read just outside the span, so it may exceed it.
    run_queue_ns = waited_ns(
        before.rstrip(b"\0"), after.rstrip(b"\0"), at_most_ns=end_ns - start_ns - cpu_ns
    )
    slices = slices_between(before.rstrip(b"\0"), after.rstrip(b"\0"))
    answered_ns, tensors, their_bytes = answer or (None, None, None)
    arrived_ns, unpickled_ns = unpickled or (None, None)
    return ServerSpan(
        call_id, thread, start_ns, end_ns, cpu_ns, run_queue_ns, answered_ns, error, slices,
        arrived_ns, unpickled_ns, tensors, their_bytes,
    )  # fmt: skip


def callback_span(record: tuple[Any, ...], name: str) -> CallbackSpan:
    """The span of a callback, from the values of its record, a CALLBACK, and its name."""
    _, _, call, holds_thread, thread, start_ns, cpu, run_queue, end = record
    call_id, cpu_ns, run_queue_ns, end_ns = (
        None if value == NOTHING else value for value in (call, cpu, run_queue, end)
    )
    return CallbackSpan(name, thread, call_id, holds_thread, start_ns, end_ns, cpu_ns, run_queue_ns)
