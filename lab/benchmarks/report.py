"""How a benchmark says what it found."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
from rich.console import Console
from rich.table import Table

from testing.known import known
from tuner.decide.statistics import FloatArray, Interval, interval
from tuner.text import UNTOLD, ratio_cell

_T = TypeVar("_T")


@dataclass(frozen=True)
class Comparison:
    """Two things measured in the same run; less is better."""

    name: str
    ours: str
    theirs: str
    ours_value: float
    theirs_value: float
    unit: str = "s"
    interval: Interval | None = None
    """Of the ratio, where it was measured in pairs."""
    least_ratio: float = 0.0
    """What the ratio has to reach."""
    most: float = math.inf
    """What our value has to keep."""
    not_worse: bool = False
    """The interval of the ratio must reach 1."""

    @property
    def ratio(self) -> float:
        """How many times less ours is."""
        return self.interval.estimate if self.interval else self.theirs_value / self.ours_value

    @property
    def bar(self) -> str:
        """What it has to reach; empty if nothing."""
        least = f"at least {self.least_ratio:g}x" if self.least_ratio else ""
        most = f"at most {self.most:g} {self.unit}" if self.most < math.inf else ""
        not_worse = "not slower beyond the noise" if self.not_worse else ""
        return ", ".join(filter(None, (least, most, not_worse)))

    @property
    def reached(self) -> bool:
        if not self.bar:
            return True
        is_slower = self.not_worse and self.interval is not None and self.interval.high < 1
        return self.ratio >= self.least_ratio and self.ours_value <= self.most and not is_slower

    @property
    def ratio_cell(self) -> str:
        if self.interval is None:
            return f"{self.ratio:.1f}"
        return ratio_cell(self.ratio, self.interval.low, self.interval.high)


def in_turns(rounds: int, *sides: Callable[[], _T]) -> list[tuple[_T, ...]]:
    """What each side gave in each round: measured one after the other, again and again."""
    return [*zip(*([side() for side in sides] for _ in range(rounds)), strict=True)]


def log_ratio(theirs: FloatArray, ours: FloatArray) -> Interval:
    """log(theirs / ours) of values that were measured in pairs, with its 95 % interval."""
    return known(interval(np.log(theirs / ours), 0.95))


def print_comparisons(comparisons: list[Comparison]) -> None:
    table = Table("benchmark", "ours", "beside it", "ratio", "bar")
    for each in comparisons:
        table.add_row(
            each.name,
            f"{each.ours}: {each.ours_value:.3f} {each.unit}",
            f"{each.theirs}: {each.theirs_value:.3f} {each.unit}",
            each.ratio_cell,
            f"{each.bar}: {'reached' if each.reached else 'MISSED'}" if each.bar else "",
        )
    if any(comparison.ratio_cell == "?" for comparison in comparisons):
        table.caption = f"?: {UNTOLD}."
    Console(width=150).print(table)
