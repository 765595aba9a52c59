"""Hostile files, given to the commands as a person does: refused in a line, without a traceback."""

import gzip
import random
import shutil
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path

import tuner
from lab.faults.kit.commands import Ended, Running
from lab.faults.kit.rows import Outcome, Row
from lab.faults.kit.searches import MOST_COMMAND_MB
from tests.cheap_studies import cheaply
from tests.fakes import FakeLauncher
from tests.trace.golden_files import NATIVE
from tests.trace.kineto_trace import write_trace

# Of a machine that does something else meanwhile.
MOST_S = 60.0
_OPERATORS = 1_000_000
_HUGE_BYTES = 1 << 32
_INFLATED_BYTES = 1 << 30
_PLAN = b'workload = "udf"\n[space]\nnum_worker_threads = [2, 4]\n'


def _huge(path: Path) -> None:
    """4 GB that take no room on the disk."""
    with path.open("wb") as file:
        file.truncate(_HUGE_BYTES)


def _bomb(path: Path) -> None:
    """4 MB that inflate to 1 GB."""
    with gzip.open(path, "wb", compresslevel=1) as file:
        file.write(b"[")
        for _ in range(_INFLATED_BYTES >> 20):
            file.write(b" " * (1 << 20))


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
    written = {
        name: lambda path, content=content: path.write_bytes(content)
        for name, content in contents.items()
    }
    return {**written, "of 4 GB": _huge, "a gzip bomb": _bomb}


def _study(folder: Path) -> Path:
    out = folder / "good"
    launcher = FakeLauncher()
    with cheaply():
        tuner.tune("udf", launcher=launcher, clock=launcher.clock, out=str(out), max_blocks=2,
                   name="good", space={"num_worker_threads": [2]})  # fmt: skip
    return out


def _given(
    name: str, arguments: tuple[str, ...], good: Callable[[Path], bytes], folder: Path
) -> Outcome:
    """Each damage in a file of that name, given to a command: exit code 2 and one line."""
    return _all(folder, name, arguments, good(folder), _is_refused)


def _trace(name: str, content: bytes, folder: Path) -> Outcome:
    """The same for a trace, which may be large; one that a killed process has cut off is read."""
    return _all(folder, name, ("tuner.analyze", name), content, _is_refused_or_told)


def _large_trace(folder: Path) -> Outcome:
    here = folder / "here"
    here.mkdir()
    write_trace(here / "trace.json", _OPERATORS)
    ended = Running("tuner.analyze", "trace.json", cwd=here).ended(5 * MOST_S)
    told = f"exit code {ended.code} after {ended.seconds:.1f} s, {ended.peak_rss_mb:.0f} MB at most"
    survived = (
        ended.code == 0
        and f"{_OPERATORS:,} operators" in ended.stdout
        and ended.peak_rss_mb <= MOST_COMMAND_MB
    )
    return Outcome(told=told, survived=survived, left=ended.left)


def _all(
    folder: Path,
    name: str,
    arguments: tuple[str, ...],
    good: bytes,
    is_expected: Callable[[Ended], bool],
) -> Outcome:
    here = folder / "here"
    path = here / name
    path.parent.mkdir(parents=True, exist_ok=True)
    bad, peak_mb, longest_s, left = [], 0.0, 0.0, 0
    damages = _damages(good)
    for what, damage in damages.items():
        path.unlink(missing_ok=True)
        damage(path)
        ended = Running(*arguments, cwd=here).ended(5 * MOST_S)
        peak_mb, longest_s = max(peak_mb, ended.peak_rss_mb), max(longest_s, ended.seconds)
        left += ended.left
        if ended.has_traceback or not is_expected(ended):
            bad.append(f"{what}: exit code {ended.code}, {ended.stderr.strip()[-300:]}")
    told = f"{len(damages)} files, the longest in {longest_s:.1f} s, {peak_mb:.0f} MB at most"
    survived = not bad and peak_mb <= MOST_COMMAND_MB and longest_s <= MOST_S
    return Outcome(told="; ".join([told, *bad]), survived=survived, left=left)


def _is_refused(ended: Ended) -> bool:
    return ended.code == 2 and len(ended.stderr.strip().splitlines()) == 1


def _is_refused_or_told(ended: Ended) -> bool:
    return _is_refused(ended) or (ended.code == 0 and " breaks off at byte " in ended.stdout)


def _recommended(folder: Path) -> bytes:
    return (_study(folder) / "recommended.json").read_bytes()


def _of_study(
    name: str, command: str, is_expected: Callable[[Ended], bool], folder: Path
) -> Outcome:
    """The same for a file in the folder of a study."""
    good = _study(folder)
    content = (good / name).read_bytes()
    shutil.move(good, folder / "here" / "good")
    return _all(folder, f"good/{name}", (command, "good"), content, is_expected)


def _is_shown(ended: Ended) -> bool:
    return ended.code == 0 and "Against the baseline" in ended.stdout


_REFUSED = "exit code 2 and one line for each of nine kinds of damage"
_CHECK = ("tuner.search", "--check", "recommended.json")

_FAULTS: Sequence[tuple[str, str, Callable[[Path], Outcome]]] = (
    ("a damaged plan, given to search", _REFUSED,
     partial(_given, "plan.toml", ("tuner.search", "--plan", "plan.toml"), lambda _: _PLAN)),
    ("a damaged recommended.json, given to search", _REFUSED,
     partial(_given, "recommended.json", _CHECK, _recommended)),
    *(
        (f"a damaged {name}, given to analyze", f"{_REFUSED}, or what is whole",
         partial(_trace, name, content))
        for name, content in (
            ("trace.json", NATIVE.read_bytes()),
            ("trace.json.gz", gzip.compress(NATIVE.read_bytes())),
        )
    ),
    ("a trace.json of 265 MB, given to analyze", "it is analysed, in less than 500 MB",
     _large_trace),
    ("a damaged study.db, given to report", _REFUSED,
     partial(_of_study, "study.db", "tuner.report", _is_refused)),
    ("a damaged answer.json, given to show",
     "the answer is taken from the storage for each of nine kinds of damage",
     partial(_of_study, "answer.json", "tuner.show", _is_shown)),
)  # fmt: skip
ROWS = tuple(Row(*fault, starts_worlds=False) for fault in _FAULTS)
