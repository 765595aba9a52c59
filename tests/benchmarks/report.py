"""How a benchmark says what it found."""

from dataclasses import dataclass

from rich.console import Console
from rich.table import Table


@dataclass(frozen=True)
class Bar:
    """What a comparison has to reach."""

    least_ratio: float
    most_s: float


@dataclass(frozen=True)
class Comparison:
    """Two things measured in the same run, in seconds; less is better."""

    name: str
    ours: str
    theirs: str
    ours_s: float
    theirs_s: float
    bars: tuple[Bar, ...] = ()

    @property
    def ratio(self) -> float:
        """How many times less ours takes."""
        return self.theirs_s / self.ours_s

    @property
    def reached(self) -> bool:
        """Whether every bar is reached."""
        return all(self.ratio >= bar.least_ratio and self.ours_s <= bar.most_s for bar in self.bars)


def print_comparisons(comparisons: list[Comparison]) -> None:
    """A table with one row per comparison."""
    table = Table("benchmark", "ours", "beside it", "ratio", "bar")
    for each in comparisons:
        bars = ", ".join(
            f"at least {bar.least_ratio:g}x, at most {bar.most_s:g} s" for bar in each.bars
        )
        verdict = f"{bars}: {'reached' if each.reached else 'MISSED'}" if bars else ""
        table.add_row(
            each.name,
            f"{each.ours}: {each.ours_s:.3f} s",
            f"{each.theirs}: {each.theirs_s:.3f} s",
            f"{each.ratio:.1f}x",
            verdict,
        )
    Console(width=150).print(table)
