"""How a search shows that it is alive: a live line on a terminal, plain lines elsewhere."""

from types import TracebackType
from typing import Self

from rich.console import Console
from rich.live import Live
from rich.text import Text

from tuner.searching.progress import Snapshot
from tuner.study.records import Phase
from tuner.text import duration, three_digits

_PHASES: dict[Phase, str] = {
    "calibration": "calibrating",
    "exploration": "exploring",
    "trace": "tracing",
    "race": "racing",
}


def snapshot_line(snapshot: Snapshot) -> str:
    """`racing · block 7 · 5 of 6 configurations left · leader channels=cma (2 ms) · 9s left`."""
    parts = [_PHASES[snapshot.phase]]
    if snapshot.phase == "calibration":
        parts.append(f"{snapshot.worlds} of {snapshot.configs} configurations")
    elif snapshot.phase == "exploration":
        parts.append(f"{snapshot.configs} configurations tried")
    elif snapshot.phase == "trace":
        parts.append(f"{snapshot.traced} of {snapshot.survivors} configurations")
    else:
        parts.append(f"block {snapshot.block}")
        parts.append(f"{snapshot.survivors} of {snapshot.configs} configurations left")
    if snapshot.leader is not None and snapshot.leader_value is not None:
        value = f"{three_digits(snapshot.leader_value)} {snapshot.unit}".rstrip()
        parts.append(f"leader {snapshot.leader} ({value})")
    parts.append(f"{duration(snapshot.remaining_s)} left")
    return " · ".join(parts)


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

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._live.stop()

    def on_snapshot(self, snapshot: Snapshot) -> None:
        """Redraw the line."""
        line = Text(snapshot_line(snapshot), overflow="ellipsis", no_wrap=True)
        self._live.update(line, refresh=True)

    def on_event(self, message: str) -> None:
        """Print the event above the line."""
        self._console.print(Text(message))


class PlainProgress:
    """An observer that prints a line per event, and per block as it begins."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._last: tuple[str, int] | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        return None

    def on_snapshot(self, snapshot: Snapshot) -> None:
        """Print a line when a block or a phase has begun."""
        key = (snapshot.phase, snapshot.block)
        if key != self._last:
            self._last = key
            self._console.print(Text(snapshot_line(snapshot)), soft_wrap=True)

    def on_event(self, message: str) -> None:
        """Print the event."""
        self._console.print(Text(message), soft_wrap=True)


def progress_for(console: Console) -> LiveProgress | PlainProgress:
    """A live line for a terminal, else plain lines."""
    return LiveProgress(console) if console.is_terminal else PlainProgress(console)
