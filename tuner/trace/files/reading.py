"""Reads traces of every kind: ours, those of `torch.profiler`, those of the legacy profiler."""

from collections import Counter
from collections.abc import Sequence
from os import PathLike
from pathlib import Path

from tuner.errors import UsageError
from tuner.trace.files.join import join
from tuner.trace.files.kineto import KinetoFile, read_kineto
from tuner.trace.files.legacy import read_legacy
from tuner.trace.files.native_reader import MARK, read_native
from tuner.trace.files.opening import open_trace
from tuner.trace.model.schema import Trace


def read_trace(path: str | PathLike[str]) -> Trace:
    """The trace in one file. UsageError says what is wrong with it, and where."""
    return read_traces([Path(path)])


def read_traces(paths: Sequence[Path]) -> Trace:
    """One trace from several files: what ranks of one run recorded with Kineto, each for itself.

    A trace of another kind is in one file. UsageError names every file that cannot be read, or
    says why the files do not belong together.
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
        return join(partial)
    if len(paths) > 1:
        raise _not_together(complete)
    return complete[paths[0]]


def _read(path: Path) -> Trace | KinetoFile:
    text = open_trace(path)
    if text.content.startswith(MARK):
        return read_native(text)
    if text.first == b"[":
        return read_legacy(text)
    if not text.first:
        raise text.refused("empty")
    return read_kineto(text)


def _not_together(complete: dict[Path, Trace]) -> UsageError:
    whole = {"rpc-tuner": "written by rpc-tuner", "legacy": "of the legacy profiler"}
    return UsageError.about(
        "these traces do not belong together",
        [
            f"{path} is {whole[trace.source]}, which keeps all ranks in one file; read it by itself"
            for path, trace in complete.items()
        ],
    )
