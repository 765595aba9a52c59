"""How a search shows that it is alive: a live line on a terminal, plain lines elsewhere."""

import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple, Self

from rich.console import Console
from rich.live import Live
from rich.text import Text

from tuner.errors import UsageError
from tuner.present.terminal import Terminal
from tuner.searching.progress_reports import (
    Compared,
    GroupState,
    Observer,
    Silent,
    Snapshot,
    Stage,
    report_stage,
)
from tuner.study.records import Phase
from tuner.text import UNTOLD, duration, plural, rough_duration, three_digits, times_cell

_PHASES: dict[Phase, str] = {
    "calibration": "calibrating",
    "exploration": "exploring",
    "trace": "tracing",
    "race": "racing",
}


class _Part(NamedTuple):
    """A part of the line: a name that may be cut, between what may not."""

    name: str
    rest: str = ""
    before: str = ""

    def __str__(self) -> str:
        return f"{self.before}{self.name}{self.rest}"

    def cut(self, least: int, excess: int) -> "_Part":
        """The part with up to `excess` characters less of its name, which keeps `least`.

        The middle is cut: names of configurations begin alike, and their ends are values.
        """
        length = max(least, len(self.name) - excess)
        if length >= len(self.name):
            return self
        tail = length // 2
        short = f"{self.name[: length - tail - 1]}…{self.name[-tail:]}"
        return self._replace(name=short)


_JOINT = " · "
_LEAST_NAME = 8


def snapshot_line(snapshot: Snapshot, width: int | None = None) -> str:
    """`racing · block 7 · 5 of 6 configurations left · leader channels=cma (2 ms) · 9s left`.

    From the first look on `channels=cma: 1.12x (0.98 to 1.27) · clear in about 40s` stands for the
    leader. Where `width` is given, in characters, names are cut and then the less important parts
    left out, until the line fits: the phase and the time left are always there.
    """
    left = f"{'at most ' * snapshot.until_clear}{duration(snapshot.remaining_s)} left"
    counted, compared = _counted(snapshot), _leading(snapshot)
    everything = counted + compared + _groups(snapshot)
    fewer = (everything, counted + compared, counted[:1] + compared, counted[:1] + compared[:1])
    for shown in (*fewer, compared[:1], counted[:1], []):
        parts = [_Part("", _phase(snapshot)), *shown, _Part("", left)]
        line = _JOINT.join(map(str, parts))
        if width is None or len(line) <= width:
            return line
        line = _JOINT.join(str(part.cut(_LEAST_NAME, len(line) - width)) for part in parts)
        if len(line) <= width:
            return line
    return f"{_phase(snapshot)}{_JOINT}{left}"


def _phase(snapshot: Snapshot) -> str:
    """What the search does: where one rival of several is left, its race confirms it."""
    if snapshot.phase == "race" and snapshot.survivors == 2 < snapshot.configs:
        return "confirming"
    return _PHASES[snapshot.phase]


def _counted(snapshot: Snapshot) -> list[_Part]:
    """How much of the phase is done, the most important part first."""
    if snapshot.phase == "calibration":
        counted = [f"{snapshot.calibrated} of {snapshot.configs} configurations"]
    elif snapshot.phase == "exploration":
        counted = [f"{plural(snapshot.configs, 'configuration')} tried"]
    elif snapshot.phase == "trace":
        counted = [f"{snapshot.traced} of {snapshot.survivors} configurations"]
    else:
        some = f"{snapshot.survivors} of {snapshot.configs} configurations left"
        counted = [f"block {snapshot.block}", some]
    return [_Part("", each) for each in counted]


def _leading(snapshot: Snapshot) -> list[_Part]:
    """What leads: the last look at the strongest rival, or else the lowest value."""
    if snapshot.compared is not None:
        return _compared(snapshot.compared)
    if snapshot.leader is None or snapshot.leader_value is None:
        return []
    value = f"{three_digits(snapshot.leader_value)} {snapshot.unit}".rstrip()
    return [_Part(snapshot.leader, f" ({value})", before="leader ")]


def _groups(snapshot: Snapshot) -> list[_Part]:
    """Where each group is, while any measures a block."""
    if all(each.block is None for each in snapshot.groups):
        return []
    return [_Part("", f"groups {', '.join(map(_group, snapshot.groups))}")]


def _group(state: GroupState) -> str:
    """`2: block 7, 3 of 6`."""
    if state.is_lost:
        return f"{state.number}: lost"
    if state.block is None:
        return f"{state.number}: idle"
    return f"{state.number}: block {state.block}, {state.worlds} of {state.of}"


def _compared(compared: Compared) -> list[_Part]:
    """The gain over the baseline with its interval, and when the answer may be clear."""
    found = compared.speedup
    told = times_cell(found.estimate, found.low, found.high) if found.is_told else f"gain {UNTOLD}"
    parts = [_Part(compared.rival, f": {told}")]
    if compared.more_s is not None:
        parts.append(_Part("", _forecast(compared, compared.more_s)))
    return parts


def _forecast(compared: Compared, more_s: float) -> str:
    """What to expect of the time that is left; a forecast, which luck may prove wrong."""
    if compared.is_decided:
        # When the interval is narrow enough hangs on luck alone.
        return "decided, not yet exact"
    more, has_time = rough_duration(more_s), more_s <= compared.left_s
    return f"clear in about {more}" if has_time else f"may take longer: about {more} more"


class LiveProgress:
    """An observer that keeps one line up to date, below the events."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._live = Live(
            Text("starting"), console=console, transient=True, auto_refresh=False
        )  # no refresh thread: nothing may run during a measurement

    def __enter__(self) -> Self:
        self._live.start(refresh=True)
        return self

    def __exit__(self, *ending: object) -> None:
        self._live.stop()

    def on_snapshot(self, snapshot: Snapshot) -> None:
        """Redraw the line."""
        self._show(snapshot_line(snapshot, self._console.width))

    def on_stage(self, stage: Stage) -> None:
        """Redraw the line."""
        self._show(stage)

    def _show(self, line: str) -> None:
        self._live.update(Text(line, overflow="ellipsis", no_wrap=True), refresh=True)

    def on_event(self, message: str) -> None:
        """Print the event above the line."""
        self._console.print(Text(message))


class PlainProgress:
    """An observer that prints a line per event, per block as it begins, and per look."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._last: tuple[str, int] | None = None
        self._looks = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *ending: object) -> None:
        return None

    def on_snapshot(self, snapshot: Snapshot) -> None:
        """Print a line when a block or a phase has begun, and what a look has shown."""
        key = (snapshot.phase, snapshot.block)
        has_looked = snapshot.compared is not None and snapshot.looks != self._looks
        if key == self._last and not has_looked:
            return
        self._last, self._looks = key, snapshot.looks
        shown = snapshot if has_looked else replace(snapshot, compared=None)
        self.say(snapshot_line(shown))

    def on_event(self, message: str) -> None:
        """Print the event."""
        self.say(message)

    def on_stage(self, stage: Stage) -> None:
        """Print the stage."""
        self.say(stage)

    def say(self, text: str) -> None:
        """Print a line of any length."""
        self._console.print(Text(text), soft_wrap=True)


def progress_for(console: Console) -> LiveProgress | PlainProgress:
    """A live line for a terminal, else plain lines."""
    return LiveProgress(console) if console.is_terminal else PlainProgress(console)


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
