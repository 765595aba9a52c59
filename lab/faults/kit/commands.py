"""Runs a command in the middle of faults, and counts what it leaves behind."""

import os
import subprocess
import sys
import threading
import time
import uuid
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

import psutil

ROOT = Path(__file__).parents[3]
_MARK = "RPC_TUNER_FAULT"
LEFT_AFTER_S = 5.0
_POLL_S = 0.05
_T = TypeVar("_T")


@dataclass(frozen=True)
class Ended:
    """How a command ended, what its own process used, and what is there LEFT_AFTER_S later."""

    code: int
    stdout: str
    stderr: str
    seconds: float
    peak_rss_mb: float
    left_processes: tuple[str, ...]
    left_files: tuple[str, ...]

    @property
    def left(self) -> int:
        return len(self.left_processes) + len(self.left_files)

    @property
    def has_traceback(self) -> bool:
        return "Traceback (most recent call last)" in self.stderr


class Running:
    """`python -m` that runs; its temporary files, and what it prints, go beside its folder `cwd`.
    `inside` is what runs it in another place, such as a network namespace."""

    def __init__(
        self,
        *arguments: str,
        cwd: Path,
        environment: Mapping[str, str] | None = None,
        stderr: int | None = None,
        inside: Sequence[str] = (),
    ) -> None:
        cwd.mkdir(parents=True, exist_ok=True)
        mark = uuid.uuid4().hex
        self.temporary = cwd.parent / f"{cwd.name}-tmp"
        self.temporary.mkdir(exist_ok=True)
        self._mark = f"{_MARK}={mark}".encode()
        self._printed = [cwd.parent / f"{cwd.name}-{mark}.{name}" for name in ("out", "err")]
        self._peak_kb = 0
        self._started_s = time.monotonic()
        given = {**os.environ, "PYTHONPATH": str(ROOT), "TMPDIR": str(self.temporary), _MARK: mark}
        with self._printed[0].open("wb") as out, self._printed[1].open("wb") as err:
            self.process = subprocess.Popen(
                [*inside, sys.executable, "-m", *arguments], cwd=cwd,
                env={**given, **(environment or {})}, stdin=subprocess.DEVNULL, stdout=out,
                stderr=err if stderr is None else stderr,
            )  # fmt: skip
        threading.Thread(target=self._watch_memory, daemon=True).start()

    @property
    def stderr(self) -> str:
        return self._printed[1].read_text(errors="replace")

    def others(self) -> list[psutil.Process]:
        """Every other process that carries its mark, whoever its parent is."""
        found = []
        for pid in psutil.pids():
            with suppress(OSError, psutil.Error):
                carried = Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
                if self._mark in carried and pid != self.process.pid:
                    found.append(psutil.Process(pid))
        return found

    def awaits(self, condition: Callable[[], bool], within_s: float = 120.0) -> bool:
        """Wait until something holds, or the command has ended, or the time is over."""
        until = time.monotonic() + within_s
        while time.monotonic() < until and self.process.poll() is None:
            if condition():
                return True
            time.sleep(_POLL_S)
        return condition()

    def ended(self, within_s: float = 600.0) -> Ended:
        """Wait for its end, kill what is left, and say what that was."""
        try:
            code = self.process.wait(within_s)
            seconds = time.monotonic() - self._started_s
            left = self._left()
        finally:
            if self.process.poll() is None:
                self.process.kill()
            for other in self.others():
                with suppress(psutil.Error):
                    other.kill()
            self.process.wait()
        out, err = (path.read_text(errors="replace") for path in self._printed)
        files = tuple(sorted(path.name for path in self.temporary.iterdir()))
        return Ended(code, out, err, seconds, self._peak_kb / 1024, tuple(left), files)

    def _left(self) -> list[str]:
        found = []
        for each in still_there(self.others):
            with suppress(psutil.Error):
                found.append(f"{each.pid} {' '.join(each.cmdline())[:120]}")
        return found

    def _watch_memory(self) -> None:
        status = Path(f"/proc/{self.process.pid}/status")
        while self.process.poll() is None:
            with suppress(OSError, StopIteration):
                lines = status.read_text().splitlines()
                peak = next(line for line in lines if line.startswith("VmHWM"))
                self._peak_kb = max(self._peak_kb, int(peak.split()[1]))
            time.sleep(_POLL_S)


def still_there(find: Callable[[], Sequence[_T]], within_s: float = LEFT_AFTER_S) -> Sequence[_T]:
    """What is found when the time is over that it has to end."""
    until = time.monotonic() + within_s
    while (found := find()) and time.monotonic() < until:
        time.sleep(_POLL_S)
    return found


def folder_mb(folder: Path) -> float:
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file()) / 2**20
