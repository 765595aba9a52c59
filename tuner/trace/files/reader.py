"""Reads trace files of every format, in parts of some MB, to take little memory.

Each part is a document of its own: the beginning of the whole one, and some of its events; the last
part has what comes after them, too.
"""

import codecs
import re
import zlib
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain
from os import PathLike
from os.path import realpath
from pathlib import Path
from threading import Timer
from typing import BinaryIO

import msgspec

from tuner.errors import UsageError
from tuner.trace.files import trace_text
from tuner.trace.files.chrome_events import EventParts, SpanColumns
from tuner.trace.files.event_places import BETWEEN, closing_of, event_places, head_of
from tuner.trace.files.kineto_join import join_kineto
from tuner.trace.files.kineto_reader import KinetoEvents, KinetoFile
from tuner.trace.files.legacy_reader import legacy_events, legacy_trace
from tuner.trace.files.native_reader import read_native
from tuner.trace.files.native_writer import MARK
from tuner.trace.files.trace_text import TraceText, decode_json
from tuner.trace.model.trace import RECORDERS, Trace

MOST_BYTES = 2**30  # the most bytes of a trace that are read, unpacked
MOST_OBJECTS = 10_000_000  # the most JSON objects of a trace that are read; an event is one or two
PART_BYTES = 2**22  # the least bytes of a part that is not the last
MOST_EVENT_BYTES = 2**24  # in which an event must end
MOST_BYTES_BESIDE = 2**28  # before the events, and after them
_WAIT_S = 1.0  # how long a FIFO may lack a writer before that is said
_GZIP = b"\x1f\x8b"
_BETWEEN_EVENTS = re.compile(rb"\}([ \t\n\r]*,[ \t\n\r]*)\{")
_NEAR_BYTES = 2**16
_PLACES_TRIED = 10
_BINARY = {
    b"PK\x03\x04": "a zip archive: unpack it",
    b"\x28\xb5\x2f\xfd": "compressed with zstd: unpack it",
    b"\xfd7zXZ": "compressed with xz: unpack it",
    b"BZh": "compressed with bzip2: unpack it",
    b"SQLite format 3\0": "an SQLite database, not JSON",
}
"""What no trace that is read begins with, and what it is."""
_CONTROL = re.compile(rb"[\x00-\x08\x0b\x0c\x0e-\x1f]")
"""What JSON does not have, and a protobuf, whose first byte is a line break for JSON, has."""


def _binary_kind(text: TraceText) -> str:
    """What kind of binary file it is; empty if it is none that is known."""
    start = text.content[:4096]
    for mark, kind in _BINARY.items():
        if start.startswith(mark):
            return kind
    if not start.startswith(b"\n") or not _CONTROL.search(start, 0, 64):
        return ""
    if b"/host:" in start or b"/device:" in start:
        return "an XPlane protobuf of TensorFlow's or JAX's profiler, not JSON"
    return "a protobuf, as Perfetto writes it, not JSON"


def _read_chrome(parts: Iterable[TraceText]) -> Trace | KinetoFile:
    """Events of the legacy profiler, if any in an array is; else Kineto's."""
    events, legacy, kineto = EventParts(), SpanColumns(), KinetoEvents()
    unread = Counter[str]()
    for text in parts:
        found = events.read_part(text)
        if text.first == b"[":
            spans, others = legacy_events(found)
            legacy.add(spans)
            unread.update(others)
        if not legacy.threads:
            kineto.add(found, text)
        del found  # before the next part is read: it takes memory, and time
    if legacy.threads:
        return legacy_trace(legacy, events, unread, text)
    return kineto.file(events, text)


_Recognizes = Callable[[TraceText], bool]
_Read = Callable[[Iterable[TraceText]], Trace | KinetoFile]
READERS: tuple[tuple[_Recognizes, _Read], ...] = (
    (lambda text: text.content.startswith(MARK), read_native),
    # Last, for any other text: it says why a text is no trace.
    (lambda _: True, _read_chrome),
)
"""One entry per format; the first that recognizes the first part of a file reads it."""


def read_trace(path: str | PathLike[str]) -> Trace:
    """Reads the trace in one file.

    Args:
        path: A file that `tuner.profile()` or a search wrote, or one that `torch.profiler` or
            `torch.autograd.profiler_legacy` exported; compressed with gzip or not.

    Returns:
        The trace. Its frames `calls` and `operators` have the columns `CALL_COLUMNS` and
        `OPERATOR_COLUMNS` of `tuner.trace.model.trace`, with times in nanoseconds since
        `base_time_ns`. Of a file that breaks off it holds the complete events. `losses` says what
        the trace lacks.

    Raises:
        UsageError: The file cannot be read, is no trace, or is of a newer format.
    """
    return read_traces([Path(path)])


def read_traces(paths: Sequence[Path], on_wait: Callable[[Path], None] | None = None) -> Trace:
    """Reads the files of one run as one trace; see `read_trace`.

    Args:
        paths: The files of all ranks, as `torch.profiler` exported them in each; or one file of
            any other format, which holds all ranks.
        on_wait: Called with a FIFO that no program has opened to write for a second.

    Raises:
        UsageError: No file is named, a file is named twice or cannot be read, or the files do not
            belong together. It lists every problem.
    """
    if not paths:
        raise UsageError("no trace was named")
    # Of a loop of links, opening it tells.
    if repeated := [path for path, times in Counter(map(realpath, paths)).items() if times > 1]:
        raise UsageError.about("named more than once", repeated)
    found: dict[Path, Trace | KinetoFile] = {}
    problems: list[str] = []
    for path in paths:
        try:
            found[path] = _read(path, on_wait)
        except UsageError as error:
            problems.append(str(error))
    if len(problems) == 1:
        raise UsageError(problems[0])
    if problems:
        raise UsageError(f"{len(problems)} traces cannot be read", problems)
    complete = {path: trace for path, trace in found.items() if isinstance(trace, Trace)}
    if not complete:
        return join_kineto([file for file in found.values() if isinstance(file, KinetoFile)])
    if len(paths) == 1:
        return complete[paths[0]]
    alone = "which writes all ranks to one file: read it alone"
    raise UsageError.about(
        "these traces do not belong together",
        [f"{path} is from {RECORDERS[one.source]}, {alone}" for path, one in complete.items()],
    )


def _read(path: Path, on_wait: Callable[[Path], None] | None) -> Trace | KinetoFile:
    parts = open_trace(path, on_wait)
    first = next(parts)
    if refused := _binary_kind(first) if first.first else "empty":
        raise first.foreign(refused)
    read = next(read for recognizes, read in READERS if recognizes(first))
    return read(chain([first], parts))


def open_trace(path: Path, on_wait: Callable[[Path], None] | None = None) -> Iterator[TraceText]:
    """The parts of a trace file, gzip or not. UsageError if it cannot be read, or is too large."""
    try:
        with _opened(path, on_wait) as file:
            start = file.read(PART_BYTES)
            unpacked = start.startswith(_GZIP)
            plain = chain([start], iter(lambda: file.read(PART_BYTES), b""))
            chunks = _unpacked(start, file) if unpacked else plain
            yield from _parts(str(path), unpacked, _bounded(path, unpacked, chunks))
    except FileNotFoundError:
        raise UsageError(f"{path}: there is no such file") from None
    except IsADirectoryError:
        raise UsageError(f"{path}: a folder, not a trace; name the files in it") from None
    except OSError as error:
        raise UsageError(f"{path}: cannot be read: {error.strerror}") from None
    except zlib.error as error:
        raise UsageError(f"{path}: a damaged gzip file: {error}") from None


def _opened(path: Path, on_wait: Callable[[Path], None] | None) -> BinaryIO:
    waits = Timer(_WAIT_S, on_wait or str, [path])
    waits.daemon = True
    if on_wait and path.is_fifo():
        waits.start()
    try:
        return path.open("rb")
    finally:
        waits.cancel()


def _unpacked(packed: bytes, file: BinaryIO) -> Iterator[bytes]:
    """The content of a gzip file; if the file breaks off, as much as there is."""
    while packed.startswith(_GZIP):
        member = zlib.decompressobj(wbits=zlib.MAX_WBITS | 16)
        while packed and not member.eof:
            yield member.decompress(packed, PART_BYTES)
            packed = member.unconsumed_tail or (b"" if member.eof else file.read(PART_BYTES))
        packed = member.unused_data
        if len(packed) < len(_GZIP):
            packed += file.read(PART_BYTES)


def _bounded(path: Path, unpacked: bool, chunks: Iterable[bytes]) -> Iterator[bytes]:
    """The same without a byte order mark. UsageError once there is too much."""
    size, objects = 0, 0
    for chunk in chunks:
        content = chunk if size else chunk.removeprefix(codecs.BOM_UTF8)
        size += len(chunk)
        objects += chunk.count(b"{")
        if size > MOST_BYTES or objects > MOST_OBJECTS:
            what = f"{MOST_BYTES >> 20:,} MB{', once it is unpacked' * unpacked}"
            what = what if size > MOST_BYTES else f"{MOST_OBJECTS:,} JSON objects"
            most = "the most that is read of a trace; record fewer steps"
            raise UsageError(f"{path}: more than {what}, {most}")
        yield content


def _parts(subject: str, unpacked: bool, chunks: Iterable[bytes]) -> Iterator[TraceText]:
    head, held, skipped, follows = b"", b"", 0, False

    def text(content: bytes) -> TraceText:
        return TraceText(subject=subject, content=content, unpacked=unpacked,
                         head=head, skipped=skipped, follows=follows)  # fmt: skip

    chunks = iter(chunks)
    for chunk in chunks:
        held += chunk
        if len(held) <= PART_BYTES:
            continue
        if not head:
            if text(held).first not in (b"", b"{", b"["):
                raise _endless(text(held))  # whatever comes
            head = head_of(held)
            held = held[len(head) :]
        blank = len(held) - len(held.lstrip(b" \t\n\r"))
        held, skipped = held[blank:], skipped + blank
        found = _events_in(held) if head else None
        if found is not None:
            end, following = found
            yield text(head + held[:end] + closing_of(head))
            held, skipped, follows = held[following:], skipped + following, True
        elif head and event_places(held)[1] is not None:
            held = b"".join([held, *_beside(subject, chunks)])
        elif len(held) > (MOST_EVENT_BYTES if head else MOST_BYTES_BESIDE):
            raise _endless(text(head + held))
    yield text(head + held)


def _beside(subject: str, chunks: Iterable[bytes]) -> Iterator[bytes]:
    """All that comes after the events. UsageError once it is too much."""
    size = 0
    for chunk in chunks:
        size += len(chunk)
        if size > MOST_BYTES_BESIDE:
            most = f"{MOST_BYTES_BESIDE >> 20} MB"
            raise UsageError(f"{subject}: more than {most} after its events; remove what is there")
        yield chunk


def _events_in(held: bytes) -> tuple[int, int] | None:
    """Where the last event ends that is surely one, and where the next one begins."""
    for near in (_NEAR_BYTES, len(held)):
        places = _BETWEEN_EVENTS.finditer(held, max(0, len(held) - near))
        for place in reversed(deque(places, _PLACES_TRIED)):
            end, following = place.span(1)
            try:
                # It may as well be inside of an event, or after all of them.
                decode_json(b"[" + held[:end] + b"]", msgspec.Raw)
            except ValueError:
                continue
            return end, following
    # An event that is no JSON ends as others do.
    *_, last = [(0, 0), *event_places(held)[0][:-1]]
    end = last[1]
    following = len(held) - len(held[end:].lstrip(BETWEEN))
    return (end, following) if end else None


def _endless(text: TraceText) -> UsageError:
    try:
        decode_json(text.content, msgspec.Raw)
    except ValueError as error:
        if "truncated" not in str(error):
            return text.malformed(error)
    if not text.head and text.first == b"{":
        return text.without_events()
    if b"{" not in text.content[len(text.head) :]:
        return text.foreign(trace_text.NO_OBJECTS)
    return text.foreign(f"no trace: no event ends within {MOST_EVENT_BYTES >> 20} MB")
