"""Hostile files, given to the commands as a person does: refused in a line, without a traceback."""

import gzip
import itertools
import os
import random
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path

from lab.faults.kit.commands import Ended, Running
from lab.faults.kit.rows import Outcome, Row
from lab.faults.kit.searches import MOST_COMMAND_MB, fake_search
from testing.golden_files import NATIVE
from testing.kineto_trace import write_trace

# Of a machine that does something else meanwhile.
MOST_S = 60.0
_OPERATORS = 1_000_000
_PLAN = b'workload = "udf"\n[space]\nnum_worker_threads = [2, 4]\n'


def _written(content: bytes) -> Callable[[Path], object]:
    return lambda path: path.write_bytes(content)


def _huge(path: Path) -> None:
    """4 GB that take no room on the disk."""
    path.touch()
    os.truncate(path, 1 << 32)


def _bomb(path: Path) -> None:
    """4 MB that inflate to 1 GB."""
    with gzip.open(path, "wb", compresslevel=1) as file:
        file.write(b"[")
        file.writelines(itertools.repeat(b" " * (1 << 20), 1 << 10))


def _damages(good: bytes) -> Mapping[str, Callable[[Path], object]]:
    """What is written in the place of a good file, by what it is."""
    contents = {
        "empty": b"",
        "of random bytes": random.Random(1).randbytes(4096),
        "cut off": good[: len(good) // 2],
        "nested deeply": b"[" * 500_000,
        "a number of 10,000 digits": b"9" * 10_000,
        "NULs": b"\0" * 4096,
        "a JSON list": b"[1, 2]",
    }
    written = {name: _written(content) for name, content in contents.items()}
    return {**written, "of 4 GB": _huge, "a gzip bomb": _bomb}


def _damaged(
    name: str,
    command: Sequence[str],
    make: Callable[[Path], object],
    is_expected: Callable[[Ended], bool],
    folder: Path,
) -> Outcome:
    """Each damage in the place of a file of that name, which `make` makes, given to a command in
    its folder."""
    here = folder / "here"
    here.mkdir()
    path = here / name
    make(path)
    bad, peak_mb, longest_s, left = [], 0.0, 0.0, 0
    damages = _damages(path.read_bytes())
    for what, damage in damages.items():
        path.unlink(missing_ok=True)
        damage(path)
        ended = Running(*command, cwd=here).ended(5 * MOST_S)
        peak_mb, longest_s = max(peak_mb, ended.peak_rss_mb), max(longest_s, ended.seconds)
        left += ended.left
        if ended.has_traceback or not is_expected(ended):
            bad.append(f"{what}: exit code {ended.code}, {ended.stderr.strip()[-300:]}")
    told = f"{len(damages)} files, the longest in {longest_s:.1f} s, {peak_mb:.0f} MB at most"
    survived = not bad and peak_mb <= MOST_COMMAND_MB and longest_s <= MOST_S
    return Outcome(told="; ".join([told, *bad]), survived=survived, left=left)


def _large_trace(folder: Path) -> Outcome:
    here = folder / "here"
    here.mkdir()
    write_trace(here / "trace.json", _OPERATORS)
    ended = Running("tuner.analyze", "trace.json", cwd=here).ended(5 * MOST_S)
    told = f"exit code {ended.code} after {ended.seconds:.1f} s, {ended.peak_rss_mb:.0f} MB at most"
    is_read = ended.code == 0 and f"{_OPERATORS:,} operators" in " ".join(ended.stdout.split())
    survived = is_read and ended.peak_rss_mb <= MOST_COMMAND_MB
    return Outcome(told=told, survived=survived, left=ended.left)


def _is_refused(ended: Ended) -> bool:
    # What of a trace was left out is listed below the line.
    lines = [line for line in ended.stderr.strip().splitlines() if not line.startswith("  - ")]
    return ended.code == 2 and len(lines) == 1


def _is_refused_or_told(ended: Ended) -> bool:
    return _is_refused(ended) or (ended.code == 0 and " breaks off at byte " in ended.stdout)


def _is_shown(ended: Ended) -> bool:
    return ended.code == 0 and "times as " in ended.stdout


def _study(path: Path) -> None:
    fake_search(path.parent, name="good")


_REFUSED = "exit code 2 and a line for each of nine kinds of damage"
_IN_STUDY = "good/recommended.json"

ROWS = (
    *(
        Row(f"a damaged {what}, given to {command[0].removeprefix('tuner.')}", expected,
            partial(_damaged, name, command, make, is_expected), starts_worlds=False)
        for what, name, command, make, is_expected, expected in (
            ("plan", "plan.toml", ("tuner.search", "--plan", "plan.toml"),
             _written(_PLAN), _is_refused, _REFUSED),
            ("recommended.json", _IN_STUDY, ("tuner.search", "--check", _IN_STUDY), _study,
             _is_refused, _REFUSED),
            *(
                (name, name, ("tuner.analyze", name), _written(content),
                 _is_refused_or_told, f"{_REFUSED}, or what is whole")
                for name, content in (
                    ("trace.json", NATIVE.read_bytes()),
                    ("trace.json.gz", gzip.compress(NATIVE.read_bytes())),
                )
            ),
            ("study.db", "good/study.db", ("tuner.report", "good"), _study, _is_refused, _REFUSED),
            ("answer.json", "good/answer.json", ("tuner.show", "good"), _study, _is_shown,
             "the answer is taken from the storage for each of nine kinds of damage"),
        )
    ),
    Row("a trace.json of 265 MB, given to analyze", "it is analysed, in less than 500 MB",
        _large_trace, starts_worlds=False),
)  # fmt: skip
