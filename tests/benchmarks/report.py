"""How a benchmark says what it found."""

from dataclasses import dataclass

from rich.console import Console
from rich.table import Table


@dataclass(frozen=True, kw_only=True)
class Bar:
    """What a comparison has to reach."""

    least_ratio: float | None = None
    most: float | None = None
    """In the comparison's unit."""


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

    @property
    def ratio(self) -> float:
        """How many times less ours is."""
        return self.theirs_value / self.ours_value

    @property
    def reached(self) -> bool:
        """Whether every bar is reached."""
        return all(
            (bar.least_ratio is None or self.ratio >= bar.least_ratio)
            and (bar.most is None or self.ours_value <= bar.most)
            for bar in self.bars
        )


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
            f"{each.ratio:.1f}x",
            verdict,
        )
    Console(width=150).print(table)


def _wanted(bar: Bar, unit: str) -> str:
    parts = []
    if bar.least_ratio is not None:
        parts.append(f"at least {bar.least_ratio:g}x")
    if bar.most is not None:
        parts.append(f"at most {bar.most:g} {unit}")
    return ", ".join(parts)
