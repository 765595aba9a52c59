"""How a search shows that it is alive: a live line on a terminal, plain lines elsewhere."""

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple, Self

from rich.console import Console
from rich.live import Live
from rich.text import Text

from tuner.errors import UsageError
from tuner.plan.config import Config, Dimension
from tuner.plan.knobs import Value
from tuner.present.configurations import named
from tuner.present.terminal import Terminal
from tuner.present.text_table import cut_in_middle
from tuner.searching.progress_reports import Observer, Silent, Snapshot, Stage, report_stage
from tuner.study.records import Phase
from tuner.text import (
    STARTING,
    UNTOLD,
    duration,
    plural,
    progress_bar,
    three_digits,
    times_cell,
)

_PHASES: dict[Phase, str] = {
    "calibration": "calibrating",
    "exploration": "exploring",
    "trace": "tracing",
    "race": "racing",
}
_JOINT = " · "
_LEAST_NAME = 8
_MOST_AHEAD = 4
"""More configurations that are ahead together are counted, not named."""
_WIDE, _BAR = 80, len(progress_bar(0.0).split()[0])
"""Columns in which a bar has room, and how many it takes; half of them have room for per cent."""
_EVENTS = 5
"""The events that a notebook shows below the line: the last ones."""


class _Part(NamedTuple):
    """A part of the line, which may begin with a name that can be cut."""

    text: str
    name: str = ""

    def cut(self, excess: int = 0) -> str:
        """With a name shorter by `excess` characters: names begin alike, and end with values."""
        most = max(_LEAST_NAME, len(self.name) - excess)
        return f"{cut_in_middle(self.name, most, most // 2)}{self.text}"


def snapshot_line(snapshot: Snapshot, width: int | None = None) -> str:
    """`racing · block 7 · 5 of 6 configurations left · channels=cma, shm ahead (2 ms) · 9s left`.

    From the first look on `channels=cma: 1.12x (0.98 to 1.27)` stands for who is ahead. To fit into
    `width` characters names are cut, and then all but the phase and the time left is left out.
    """
    phase = _PHASES[snapshot.phase]
    if snapshot.phase == "race" and snapshot.survivors == 2 < snapshot.configs:
        phase = "confirming"  # one rival of several is left
    left = f"{'at most ' * snapshot.until_clear}{duration(snapshot.remaining_s)} left"
    counted, compared = _counted(snapshot), _leading(snapshot)
    for shown in (
        counted + compared + _groups(snapshot),
        counted + compared,
        counted[:1] + compared,
        counted[:1] + compared[:1],
        compared[:1],
        counted[:1],
    ):
        parts = [_Part(phase), *shown, _Part(left)]
        line = _JOINT.join(part.cut() for part in parts)
        if width is None or len(line) <= width:
            return line
        line = _JOINT.join(part.cut(len(line) - width) for part in parts)
        if len(line) <= width:
            return line
    return f"{phase}{_JOINT}{left}"


def _counted(snapshot: Snapshot) -> list[_Part]:
    """How much of the phase is done, the most important part first."""
    match snapshot.phase:
        case "calibration":
            return [_Part(f"{snapshot.calibrated} of {snapshot.configs} configurations")]
        case "exploration":
            return [_Part(f"{plural(snapshot.configs, 'configuration')} tried")]
        case "trace":
            return [_Part(f"{snapshot.traced} of {snapshot.survivors} configurations")]
        case _:
            some = f"{snapshot.survivors} of {snapshot.configs} configurations left"
            return [_Part(f"block {snapshot.block}"), _Part(some)]


def _leading(snapshot: Snapshot) -> list[_Part]:
    """The last look at the strongest rival, or else who is ahead; never when it will be clear."""
    compared = snapshot.compared
    if compared is not None:
        found = compared.speedup
        times = times_cell(found.estimate, found.low, found.high)
        part = _Part(f": {f'gain {UNTOLD}' if times == '?' else times}", compared.rival)
        return [part, _Part("decided, not yet exact")] if compared.is_decided else [part]
    ahead = snapshot.ahead
    if not ahead or snapshot.ahead_value is None:
        return []
    value = f"{three_digits(snapshot.ahead_value)} {snapshot.unit}".rstrip()
    if len(ahead) > _MOST_AHEAD:
        return [_Part(f"{len(ahead)} ahead, alike (best {value})")]
    # In a fixed order: which of them is best changes from block to block.
    return [_Part(f" ahead ({value})", named(sorted(ahead, key=_fixed_order)))]


def _fixed_order(config: Config) -> list[tuple[Dimension, bool, Value]]:
    """By dimension and value; a default that is no value comes first."""
    return [(dimension, value is not None, value) for dimension, value in config.items]


def _groups(snapshot: Snapshot) -> list[_Part]:
    """Where each group is, while any measures a block: `groups 1: idle, 2: block 7, 3 of 6`."""
    if all(each.block is None for each in snapshot.groups):
        return []
    told = (
        f"{each.number}: lost" if each.is_lost
        else f"{each.number}: idle" if each.block is None
        else f"{each.number}: block {each.block}, {each.worlds} of {each.of}"
        for each in snapshot.groups
    )  # fmt: skip
    return [_Part(f"groups {', '.join(told)}")]


def stage_line(stage: Stage) -> str:
    """`setting up: a short trace · 58s left`."""
    left = [] if stage.remaining_s is None else [f"{duration(stage.remaining_s)} left"]
    return _JOINT.join([stage.text, *left])


def _bar(remaining_s: float | None, budget_s: float) -> str:
    """How much of the budget is spent; empty where that is not known."""
    return progress_bar(1 - remaining_s / budget_s) if remaining_s is not None and budget_s else ""


class LiveProgress:
    """An observer that keeps one line up to date, below the events."""

    def __init__(self, console: Console) -> None:
        self._console = console
        # No refresh thread: nothing may run during a measurement.
        self._live = Live(Text(STARTING), console=console, transient=True, auto_refresh=False)

    def __enter__(self) -> Self:
        self._live.start(refresh=True)
        return self

    def __exit__(self, *ending: object) -> None:
        self._live.stop()

    def on_snapshot(self, snapshot: Snapshot) -> None:
        """Redraw the line."""
        done, width = _bar(snapshot.remaining_s, snapshot.budget_s), self._console.width
        if width < _WIDE:
            done = done[_BAR + 1 :] if width >= _WIDE / 2 else ""
        self._draw(done + snapshot_line(snapshot, width - len(done)))

    def on_stage(self, stage: Stage) -> None:
        """Redraw the line."""
        self._draw(_bar(stage.remaining_s, stage.budget_s) + stage_line(stage))

    def _draw(self, line: str) -> None:
        self._live.update(Text(line, overflow="ellipsis", no_wrap=True), refresh=True)

    def on_event(self, message: str) -> None:
        """Print the event above the line."""
        self._console.print(Text(message))


class PlainProgress:
    """Prints a line, maybe `dated`, per event, per block as it begins, and per look."""

    def __init__(self, console: Console, *, dated: bool = False) -> None:
        self._console, self._dated = console, dated
        self._last: tuple[str, int] | None = None
        self._looks = 0

    def on_snapshot(self, snapshot: Snapshot) -> None:
        """Print a line when a block or a phase has begun, and what a look has shown."""
        key = (snapshot.phase, snapshot.block)
        has_looked = snapshot.compared is not None and snapshot.looks != self._looks
        if key == self._last and not has_looked:
            return
        self._last, self._looks = key, snapshot.looks
        self.on_event(snapshot_line(snapshot if has_looked else replace(snapshot, compared=None)))

    def on_event(self, message: str) -> None:
        """Print the event."""
        now = f"{time.strftime('%Y-%m-%d %H:%M:%S')}  " if self._dated else ""
        self._console.print(Text(f"{now}{message}"), soft_wrap=True)

    def on_stage(self, stage: Stage) -> None:
        """Print the stage."""
        self.on_event(stage_line(stage))


class NotebookProgress:
    """Keeps one output of a notebook's cell up to date, and removes it at the end."""

    def __init__(self, display: Any) -> None:
        self._handle = display({"text/plain": STARTING}, raw=True, display_id=True)
        self._line = ""
        self._events: list[str] = []

    def on_snapshot(self, snapshot: Snapshot) -> None:
        """Redraw."""
        self._draw(_bar(snapshot.remaining_s, snapshot.budget_s) + snapshot_line(snapshot))

    def on_event(self, message: str) -> None:
        """Show the event below the line."""
        self._events = [*self._events, message][-_EVENTS:]
        self._draw(self._line)

    def on_stage(self, stage: Stage) -> None:
        """Redraw."""
        self._draw(_bar(stage.remaining_s, stage.budget_s) + stage_line(stage))

    def _draw(self, line: str) -> None:
        self._line = line
        self._show("\n".join([line, *(f"  {event}" for event in self._events)]))

    def remove(self) -> None:
        """Leave nothing behind."""
        self._show("")

    def _show(self, text: str) -> None:
        self._handle.update({"text/plain": text}, raw=True)


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


class _Both(NamedTuple):
    """An observer that passes everything on to two."""

    first: Observer
    second: Observer

    def on_snapshot(self, snapshot: Snapshot) -> None:
        self.first.on_snapshot(snapshot)
        self.second.on_snapshot(snapshot)

    def on_event(self, message: str) -> None:
        self.first.on_event(message)
        self.second.on_event(message)

    def on_stage(self, stage: Stage) -> None:
        report_stage(self.first, stage)
        report_stage(self.second, stage)


@contextmanager
def progress_of_command(*, quiet: bool, log: Path | None) -> Iterator[Observer]:
    """What a command's search is observed by: a line on stderr, unless `quiet`, and the `log`.

    UsageError if the log cannot be written.
    """
    try:
        file = None if log is None else log.open("a", encoding="utf-8", buffering=1)
    except OSError as error:
        raise UsageError(f"cannot write --log {log}: {error.strerror}") from None
    console = Terminal(stderr=True)
    live = LiveProgress(console) if console.is_terminal and not quiet else None
    with file or nullcontext(), live or nullcontext():
        on_screen = live or (Silent() if quiet else PlainProgress(console))
        if file is None:
            yield on_screen
        else:
            yield _Both(on_screen, PlainProgress(Terminal(file=file, width=1000), dated=True))
