"""How a search shows that it is alive: a live line on a terminal, plain lines elsewhere."""

from dataclasses import replace
from types import TracebackType
from typing import Self

from rich.console import Console
from rich.live import Live
from rich.text import Text

from tuner.searching.progress import Compared, Snapshot
from tuner.study.records import Phase
from tuner.text import UNTOLD, duration, is_told, ratio_cell, rough_duration, three_digits

_PHASES: dict[Phase, str] = {
    "calibration": "calibrating",
    "exploration": "exploring",
    "trace": "tracing",
    "race": "racing",
}


def snapshot_line(snapshot: Snapshot) -> str:
    """`racing · block 7 · 5 of 6 configurations left · leader channels=cma (2 ms) · 9s left`.

    From the first look on `channels=cma: 1.12x (0.98 to 1.27) · clear in about 40s` stands for the
    leader.
    """
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
    if snapshot.compared is not None:
        parts += _compared(snapshot.compared)
    elif snapshot.leader is not None and snapshot.leader_value is not None:
        value = f"{three_digits(snapshot.leader_value)} {snapshot.unit}".rstrip()
        parts.append(f"leader {snapshot.leader} ({value})")
    parts.append(f"{'at most ' * snapshot.until_clear}{duration(snapshot.remaining_s)} left")
    return " · ".join(parts)


def _compared(compared: Compared) -> list[str]:
    """The gain over the baseline with its interval, and when the answer may be clear."""
    found = compared.speedup
    ratio, _, ends = ratio_cell(found.estimate, found.low, found.high).partition(" ")
    told = f"{ratio}x {ends}" if is_told(found.low, found.high) else f"gain {UNTOLD}"
    parts = [f"{compared.rival}: {told}"]
    if compared.more_s is not None and compared.more_s <= compared.left_s:
        parts.append(f"clear in about {rough_duration(compared.more_s)}")
    elif compared.more_s is not None:
        parts.append(f"not enough time: clear in about {rough_duration(compared.more_s)}")
    return parts


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
    """An observer that prints a line per event, per block as it begins, and per look."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._last: tuple[str, int] | None = None
        self._looks = 0

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
        """Print a line when a block or a phase has begun, and what a look has shown."""
        key = (snapshot.phase, snapshot.block)
        has_looked = snapshot.compared is not None and snapshot.looks != self._looks
        if key == self._last and not has_looked:
            return
        self._last, self._looks = key, snapshot.looks
        shown = snapshot if has_looked else replace(snapshot, compared=None)
        self._console.print(Text(snapshot_line(shown)), soft_wrap=True)

    def on_event(self, message: str) -> None:
        """Print the event."""
        self._console.print(Text(message), soft_wrap=True)


def progress_for(console: Console) -> LiveProgress | PlainProgress:
    """A live line for a terminal, else plain lines."""
    return LiveProgress(console) if console.is_terminal else PlainProgress(console)
