"""Reads trace files of every format: ours, that of `torch.profiler`, the legacy profiler's."""

import re
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from itertools import chain
from os import PathLike
from pathlib import Path
from typing import NamedTuple

from tuner.errors import UsageError
from tuner.trace.files.chrome_events import EventParts
from tuner.trace.files.event_spans import SpanColumns
from tuner.trace.files.kineto_join import join_kineto
from tuner.trace.files.kineto_reader import KinetoEvents, KinetoFile, read_kineto
from tuner.trace.files.legacy_reader import legacy_events, legacy_trace
from tuner.trace.files.native_format import MARK
from tuner.trace.files.native_reader import read_native
from tuner.trace.files.trace_parts import open_trace
from tuner.trace.files.trace_text import TraceText
from tuner.trace.model.trace import RECORDERS, Trace


class Reader(NamedTuple):
    """How to read one format."""

    recognizes: Callable[[TraceText], bool]
    """By the first part of a file."""
    read: Callable[[Iterable[TraceText]], Trace | KinetoFile]


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


def _refuse_binary(parts: Iterable[TraceText]) -> Trace:
    text = next(iter(parts))
    raise text.foreign(_binary_kind(text))


def _read_array(parts: Iterable[TraceText]) -> Trace | KinetoFile:
    """An array of events: the legacy profiler's if any is, else Kineto's without their header."""
    events, legacy, kineto = EventParts(), SpanColumns(), KinetoEvents()
    for text in parts:
        found = events.read_part(text)
        legacy.add(legacy_events(found))
        if not legacy.threads:
            kineto.add(found, text)
    return legacy_trace(legacy, events, text) if legacy.threads else kineto.file(events, text)


READERS = (
    Reader(lambda text: text.content.startswith(MARK), read_native),
    Reader(lambda text: bool(_binary_kind(text)), _refuse_binary),
    Reader(lambda text: text.first == b"[", _read_array),
    # Last, for any other text: it says why a text is no trace.
    Reader(lambda _: True, read_kineto),
)
"""One entry per format; the first that recognizes a text reads it."""


def read_trace(path: str | PathLike[str]) -> Trace:
    """Reads the trace in one file.

    Args:
        path: A file that `tuner.profile()` or a search wrote, or one that `torch.profiler` or
            `torch.autograd.profiler_legacy` exported; compressed with gzip or not.

    Returns:
        The trace. Its frames `calls` and `operators` have the columns `CALL_COLUMNS` and
        `OPERATOR_COLUMNS` of `tuner.trace.model.columns`, with times in nanoseconds since
        `base_time_ns`. Of a file that breaks off it holds the complete events. `losses` says what
        the trace lacks.

    Raises:
        UsageError: The file cannot be read, is no trace, or is of a newer format.
    """
    return read_traces([Path(path)])


def read_traces(paths: Sequence[Path]) -> Trace:
    """Reads the files of one run as one trace.

    Args:
        paths: The files of all ranks, as `torch.profiler` exported them in each; or one file of
            any other format, which holds all ranks.

    Returns:
        The trace; see `read_trace`.

    Raises:
        UsageError: No file is named, a file is named twice or cannot be read, or the files do not
            belong together. It lists every problem.
    """
    if not paths:
        raise UsageError("no trace was named")
    if repeated := [path for path, times in Counter(map(Path.resolve, paths)).items() if times > 1]:
        raise UsageError.about("named more than once", [str(path) for path in repeated])
    complete: dict[Path, Trace] = {}
    partial: list[KinetoFile] = []
    problems: list[str] = []
    for path in paths:
        try:
            found = _read(path)
        except UsageError as error:
            problems.append(str(error))
            continue
        if isinstance(found, Trace):
            complete[path] = found
        else:
            partial.append(found)
    if len(problems) == 1:
        raise UsageError(problems[0])
    if problems:
        raise UsageError(f"{len(problems)} traces cannot be read", problems)
    if not complete:
        return join_kineto(partial)
    if len(paths) > 1:
        raise _not_together(complete)
    return complete[paths[0]]


def _read(path: Path) -> Trace | KinetoFile:
    parts = open_trace(path)
    first = next(parts)
    if not first.first:
        raise first.foreign("empty")
    read = next(reader.read for reader in READERS if reader.recognizes(first))
    return read(chain([first], parts))


def _not_together(complete: dict[Path, Trace]) -> UsageError:
    return UsageError.about(
        "these traces do not belong together",
        [
            f"{path} is from {RECORDERS[trace.source]}, which writes all ranks to one file: read "
            "it alone"
            for path, trace in complete.items()
        ],
    )
