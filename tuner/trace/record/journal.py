"""What a process of a program records: a file that outlives it, however it ends.

The file is mapped into memory, so that the kernel keeps what a killed process had written. Standard
library only: it runs in the program's own interpreter.
"""

import itertools
import json
import mmap
import os
import struct
import threading
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from tuner.trace.model.spans import CALLS_PER_RANK, ClientSpan, ServerSpan

# The kind comes last, and is never 0: a record without it was not written to its end.
_RECORD = struct.Struct("<6q8xq")
_CHUNK_RECORDS = 1 << 14
_CHUNK_BYTES = _CHUNK_RECORDS * _RECORD.size

MOST_CALLS = 250_000
"""Calls of one process that are recorded: of many more, no reader of traces shows anything."""

# Kinds of records, each with what it holds.
CALLED = 1
"""Call, text of its target, thread, parent call or NOTHING, start. The client's side."""
ENDED = 2
"""Call, when it was issued, end, number of its status, text of its error or NOTHING."""
NEVER_CALLED = 3
"""A call that was noted, and could not be sent."""
ARRIVED = 4
"""Call, thread, time. The server's side."""
SERVED = 5
"""Call, thread, start, end, CPU time, time on the run queue or NOTHING."""
DONE = 6
"""Call, when the future of its `async_execution` function was complete."""

NOTHING = -1
STATUSES = ("ok", "raised", "timed-out")


class Journal:
    """Appends records of up to six numbers, from any thread."""

    def __init__(self, path: Path) -> None:
        """OSError if the file cannot be made."""
        flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
        self._file = os.open(path, flags, 0o600)
        self._texts_file = os.open(_texts_path(path), flags | os.O_APPEND, 0o600)
        self._texts: dict[str, int] = {}
        self._numbers = itertools.count()
        self._chunks: list[mmap.mmap] = []
        self._lock = threading.Lock()
        self.is_full = False
        """Whether a record found no room on the disk: from then on, records are lost."""

    def add(
        self, kind: int, a: int, b: int = 0, c: int = 0, d: int = 0, e: int = 0, f: int = 0
    ) -> None:
        """Append a record: see the kinds above. Times are Unix nanoseconds."""
        chunk, place = divmod(next(self._numbers), _CHUNK_RECORDS)
        if chunk >= len(self._chunks) and not self._has_grown_to(chunk):
            return
        _RECORD.pack_into(self._chunks[chunk], place * _RECORD.size, a, b, c, d, e, f, kind)

    def text(self, text: str) -> int:
        """The number that stands for a text in records."""
        number = self._texts.get(text)
        if number is None:
            with self._lock:
                number = self._texts.setdefault(text, len(self._texts))
                if number == len(self._texts) - 1:
                    self._write(json.dumps([number, text]).encode() + b"\n")
        return number

    def _write(self, line: bytes) -> None:
        try:
            os.write(self._texts_file, line)
        except OSError:
            self.is_full = True

    def _has_grown_to(self, chunk: int) -> bool:
        with self._lock:
            try:
                while chunk >= len(self._chunks):
                    start = len(self._chunks) * _CHUNK_BYTES
                    # A page that the disk has no room for would end the process when it is written.
                    os.posix_fallocate(self._file, start, _CHUNK_BYTES)
                    self._chunks.append(mmap.mmap(self._file, _CHUNK_BYTES, offset=start))
            except OSError:
                self.is_full = True
        return chunk < len(self._chunks)


@dataclass(frozen=True, kw_only=True)
class JournalContent:
    """The calls of one process, from its journal."""

    client_spans: list[ClientSpan]
    server_spans: list[ServerSpan]
    done_ns: dict[int, int]
    arrived: dict[int, int]
    """Requests that arrived, by the client's rank."""


def read_journal(path: Path) -> JournalContent:
    """What a journal holds, also while its process is still writing it, or was killed.

    Raises:
        OSError: The file cannot be read.
    """
    texts = dict(_texts(path))
    records: dict[int, dict[int, tuple[int, ...]]] = {
        kind: {} for kind in (CALLED, ENDED, NEVER_CALLED, ARRIVED, SERVED, DONE)
    }
    for *numbers, kind in _RECORD.iter_unpack(path.read_bytes()):
        if kind in records:
            # Two threads may notice the end of a call: the first one counts.
            records[kind].setdefault(numbers[0], tuple(numbers))
    called = [
        record for call, record in records[CALLED].items() if call not in records[NEVER_CALLED]
    ]
    served = records[SERVED]
    open_calls = [each for call, each in records[ARRIVED].items() if call not in served]
    return JournalContent(
        client_spans=[_client_span(each, records[ENDED].get(each[0]), texts) for each in called],
        server_spans=[
            *(_server_span(each) for each in served.values()),
            *(
                ServerSpan(call, thread, ns, None, None, None)
                for call, thread, ns, *_ in open_calls
            ),
        ],
        done_ns={call: record[1] for call, record in records[DONE].items()},
        arrived=dict(Counter(call // CALLS_PER_RANK for call in records[ARRIVED])),
    )


def _texts_path(path: Path) -> Path:
    return path.with_suffix(".texts")


def _texts(path: Path) -> Iterator[tuple[int, str]]:
    for line in _texts_path(path).read_bytes().splitlines(keepends=True):
        if line.endswith(b"\n"):  # else the process was killed while it wrote the line
            number, text = json.loads(line)
            yield number, text


def _client_span(
    called: tuple[int, ...], ended: tuple[int, ...] | None, texts: dict[int, str]
) -> ClientSpan:
    call_id, target, thread, parent, start_ns, _ = called
    kind, function, server, server_rank, body = json.loads(texts[target])
    _, issued_ns, end_ns, status, error, _ = ended or (call_id, start_ns, None, None, NOTHING, 0)
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
        issued_ns=issued_ns,
        end_ns=end_ns,
        status="unfinished" if status is None else STATUSES[status],
        error="" if error == NOTHING else texts.get(error, ""),
    )


def _server_span(served: tuple[int, ...]) -> ServerSpan:
    call_id, thread, start_ns, end_ns, cpu_ns, waited_ns = served
    run_queue_ns = None if waited_ns == NOTHING else waited_ns
    return ServerSpan(call_id, thread, start_ns, end_ns, cpu_ns, run_queue_ns)
