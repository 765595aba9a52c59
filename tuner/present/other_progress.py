"""How a search shows that it is alive elsewhere: in a notebook, in a log, to several observers."""

import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any

from tuner.errors import UsageError
from tuner.present.progress import PlainProgress, progress_for, snapshot_line
from tuner.present.terminal import Terminal
from tuner.searching.progress import Observer, Silent, Snapshot, Stage, report_stage

_EVENTS = 5
"""The events that a notebook shows below the line: the last ones."""


class SeveralObservers:
    """An observer that passes everything on to several."""

    def __init__(self, observers: Sequence[Observer]) -> None:
        self._observers = observers

    def on_snapshot(self, snapshot: Snapshot) -> None:
        """Pass it on."""
        for each in self._observers:
            each.on_snapshot(snapshot)

    def on_event(self, message: str) -> None:
        """Pass it on."""
        for each in self._observers:
            each.on_event(message)

    def on_stage(self, stage: Stage) -> None:
        """Pass it on."""
        for each in self._observers:
            report_stage(each, stage)


@contextmanager
def logged(path: Path | None) -> Iterator[Observer]:
    """An observer that adds lines with the local time to a file; one that does nothing without.

    Raises:
        UsageError: The file cannot be written.
    """
    if path is None:
        yield Silent()
        return
    try:
        file = path.open("a", encoding="utf-8", buffering=1)
    except OSError as error:
        raise UsageError(f"cannot write --log {path}: {error.strerror}") from None
    with file:
        yield _Dated(Terminal(file=file, width=1000))


class _Dated(PlainProgress):
    """Plain lines, each with the local time before it."""

    def say(self, text: str) -> None:
        """Add a line."""
        now = time.strftime("%Y-%m-%d %H:%M:%S")
        super().say(f"{now}  {text}")


class NotebookProgress:
    """An observer that keeps one output of a notebook's cell up to date, and removes it at the end.

    Args:
        display: `IPython.display.display`.
    """

    def __init__(self, display: Any) -> None:
        self._handle = display({"text/plain": "starting"}, raw=True, display_id=True)
        self._line = ""
        self._events: list[str] = []

    def on_snapshot(self, snapshot: Snapshot) -> None:
        """Redraw."""
        self._line = snapshot_line(snapshot)
        self._show()

    def on_event(self, message: str) -> None:
        """Show the event below the line."""
        self._events = [*self._events, message][-_EVENTS:]
        self._show()

    def on_stage(self, stage: Stage) -> None:
        """Redraw."""
        self._line = stage
        self._show()

    def remove(self) -> None:
        """Leave nothing behind."""
        self._handle.update({"text/plain": ""}, raw=True)

    def _show(self) -> None:
        lines = [self._line, *(f"  {event}" for event in self._events)]
        self._handle.update({"text/plain": "\n".join(lines)}, raw=True)


@contextmanager
def shown_in_notebook() -> Iterator[Observer]:
    """An observer for whoever names none: it shows the progress in a notebook, and nowhere else."""
    # Whoever runs a notebook has imported it.
    ipython = sys.modules.get("IPython")
    shell = None if ipython is None else ipython.get_ipython()
    if type(shell).__name__ != "ZMQInteractiveShell" or ipython is None:
        yield Silent()
        return
    progress = NotebookProgress(ipython.display.display)
    try:
        yield progress
    finally:
        progress.remove()


@contextmanager
def progress_of_command(*, quiet: bool, log: Path | None) -> Iterator[Observer]:
    """What a command's search is observed by: a line on stderr, unless `quiet`, and the `log`."""
    shown = nullcontext(Silent()) if quiet else progress_for(Terminal(stderr=True))
    with logged(log) as in_file, shown as on_screen:
        yield SeveralObservers([on_screen, in_file])
