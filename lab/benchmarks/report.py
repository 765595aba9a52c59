"""How a benchmark says what it found."""

from dataclasses import dataclass

import numpy as np
from rich.console import Console
from rich.table import Table

from tuner.decide.statistics import FloatArray, Interval, interval
from tuner.text import UNTOLD, ratio_cell


@dataclass(frozen=True, kw_only=True)
class Bar:
    """What a comparison has to reach."""

    least_ratio: float | None = None
    most: float | None = None
    """In the comparison's unit."""
    not_worse: bool = False
    """The interval of the ratio must reach 1."""

    def wanted(self, unit: str) -> str:
        least = "" if self.least_ratio is None else f"at least {self.least_ratio:g}x"
        most = "" if self.most is None else f"at most {self.most:g} {unit}"
        not_worse = "not slower beyond the noise" if self.not_worse else ""
        return ", ".join(filter(None, (least, most, not_worse)))


@dataclass(frozen=True)
class Comparison:
    """Two things measured in the same run; less is better."""

    name: str
    ours: str
    theirs: str
    ours_value: float
    theirs_value: float
    unit: str = "s"
    bar: Bar = Bar()
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
        bar = self.bar
        return (
            (bar.least_ratio is None or self.ratio >= bar.least_ratio)
            and (bar.most is None or self.ours_value <= bar.most)
            and (not bar.not_worse or self.interval is None or self.interval.high >= 1)
        )

    @property
    def ratio_cell(self) -> str:
        if self.interval is None:
            return f"{self.ratio:.1f}"
        return ratio_cell(self.ratio, self.interval.low, self.interval.high)


def log_ratio(theirs: FloatArray, ours: FloatArray) -> Interval:
    """log(theirs / ours) of values that were measured in pairs, with its 95 % interval."""
    found = interval(np.log(theirs / ours), 0.95)
    assert found is not None
    return found


def print_comparisons(comparisons: list[Comparison]) -> None:
    table = Table("benchmark", "ours", "beside it", "ratio", "bar")
    for each in comparisons:
        wanted = each.bar.wanted(each.unit)
        table.add_row(
            each.name,
            f"{each.ours}: {each.ours_value:.3f} {each.unit}",
            f"{each.theirs}: {each.theirs_value:.3f} {each.unit}",
            each.ratio_cell,
            f"{wanted}: {'reached' if each.reached else 'MISSED'}" if wanted else "",
        )
    if any(each.ratio_cell == "?" for each in comparisons):
        table.caption = f"?: {UNTOLD}."
    Console(width=150).print(table)
