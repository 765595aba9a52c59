"""Notes which processes of a program are gone."""

import json
import os
import time
from contextlib import suppress
from pathlib import Path

from tuner.world.command.events import read_events
from tuner.world.descendants import status_of

_EXIT_CODE = 49
"""Its place in /proc/PID/stat, after the name."""


class Watch:
    """Notes which processes of a program are gone: one that is killed cannot report it.

    Args:
        reports: The folder of the hook's order, on the machine where the processes run.
    """

    def __init__(self, reports: Path) -> None:
        self._reports = reports
        self._noted: set[Path] = set()
        self._namespace = Path("/proc/self/ns/pid").stat().st_ino

    def note_gone(self) -> None:
        """Add the event `gone` to the reports of each process that is gone by now."""
        for file in self._reports.glob("*.jsonl"):
            if file in self._noted or not file.stem.isdigit():
                continue
            status = status_of(int(file.stem))
            if (status and status[0] not in (b"Z", b"X")) or not self._is_ours(file):
                continue
            self._noted.add(file)
            # Its parent need not have asked for it yet, and then it is there to be read.
            code = os.waitstatus_to_exitcode(int(status[_EXIT_CODE])) if status else None
            pid, now_ns = int(file.stem), time.time_ns()
            event = {"event": "gone", "pid": pid, "time_ns": now_ns, "code": code}
            line = json.dumps(event).encode() + b"\n"
            with suppress(OSError):
                # A program can put anything there: a pipe must not hold us up.
                flags = os.O_WRONLY | os.O_APPEND | os.O_NONBLOCK | os.O_CLOEXEC
                with os.fdopen(os.open(file, flags), "ab") as report:
                    report.write(line)

    def _is_ours(self, file: Path) -> bool:
        """Whether its process is one of those that we see: a sandbox may have ids of its own."""
        named = (each["pid_namespace"] for each in read_events(file) if "pid_namespace" in each)
        return next(named, 0) in (0, self._namespace)
