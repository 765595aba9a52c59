"""How a benchmark says what it found."""

from dataclasses import dataclass

import numpy as np
from rich.console import Console
from rich.table import Table

from tuner.decide.statistics import FloatArray, Interval, interval
from tuner.text import UNTOLD, ratio_cell

CONFIDENCE = 0.95


@dataclass(frozen=True, kw_only=True)
class Bar:
    """What a comparison has to reach."""

    least_ratio: float | None = None
    most: float | None = None
    """In the comparison's unit."""
    not_worse: bool = False
    """The interval of the ratio must reach 1."""


@dataclass(frozen=True, kw_only=True)
class Comparison:
    """Two things measured in the same run; less is better."""

    name: str
    ours: str
    theirs: str
    ours_value: float
    theirs_value: float
    unit: str = "s"
    bars: tuple[Bar, ...] = ()
    interval: Interval | None = None
    """Of the ratio, where it was measured in pairs."""

    @property
    def ratio(self) -> float:
        """How many times less ours is."""
        if self.interval is not None:
            return self.interval.estimate
        return self.theirs_value / self.ours_value

    @property
    def reached(self) -> bool:
        """Whether every bar is reached."""
        return all(
            (bar.least_ratio is None or self.ratio >= bar.least_ratio)
            and (bar.most is None or self.ours_value <= bar.most)
            and (not bar.not_worse or self.interval is None or self.interval.high >= 1)
            for bar in self.bars
        )


def log_ratio(theirs: FloatArray, ours: FloatArray) -> Interval:
    """log(theirs / ours) of values that were measured in pairs, with its 95 % interval."""
    found = interval(np.log(theirs / ours), CONFIDENCE)
    assert found is not None
    return found


def print_comparisons(comparisons: list[Comparison]) -> None:
    """A table with one row per comparison."""
    table = Table("benchmark", "ours", "beside it", "ratio", "bar")
    for each in comparisons:
        wanted = ", ".join(_wanted(bar, each.unit) for bar in each.bars)
        verdict = f"{wanted}: {'reached' if each.reached else 'MISSED'}" if wanted else ""
        table.add_row(
            each.name,
            f"{each.ours}: {each.ours_value:.3f} {each.unit}",
            f"{each.theirs}: {each.theirs_value:.3f} {each.unit}",
            _ratio(each),
            verdict,
        )
    if any(_ratio(each) == "?" for each in comparisons):
        table.caption = f"?: {UNTOLD}."
    Console(width=150).print(table)


def _ratio(each: Comparison) -> str:
    if each.interval is None:
        return f"{each.ratio:.1f}"
    return ratio_cell(each.ratio, each.interval.low, each.interval.high)


def _wanted(bar: Bar, unit: str) -> str:
    parts = []
    if bar.least_ratio is not None:
        parts.append(f"at least {bar.least_ratio:g}x")
    if bar.most is not None:
        parts.append(f"at most {bar.most:g} {unit}")
    if bar.not_worse:
        parts.append("not slower beyond the noise")
    return ", ".join(parts)
