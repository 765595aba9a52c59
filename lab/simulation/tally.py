"""What many simulated studies of one kind came to together."""

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from lab.simulation.cells import EPSILON, Cell, Outcome

WRONG_BETTER = 0.025
WRONG_CLAIMS = 0.05
COVERAGE = 0.95
COLUMNS = ("best <3 %", "bet <3 %", "wr.better", "wr.claims", "coverage", "wr.knobs", "knob cov.")
"""Of a line: the shares, in the order of the fields of a tally."""


@dataclass(frozen=True)
class Tally:
    """Shares of the sessions, and means over them."""

    recommended: float  # what is recommended is within epsilon of the best
    favourite: float  # so is what is most likely the best
    wrong_better: float
    wrong: float  # claims of any kind that are not true
    coverage: float
    wrong_knobs: float  # claims about single knobs that are not true
    knob_coverage: float
    width: float  # the median of half the interval's width
    worlds: float
    sessions: int
    verdicts: dict[str, int]

    def line(self, name: str) -> str:
        said = ", ".join(f"{kind} {count}" for kind, count in sorted(self.verdicts.items()))
        shares = [*vars(self).values()][: len(COLUMNS)]
        shown = "".join(f"{share:>10.3f}" for share in shares)
        return f"{name:<16}{shown}{self.width:>8.3f}{self.worlds:>8.0f}  {said}"

    def missed(self) -> list[str]:
        """The bars that are missed by more than chance explains in one of forty cells."""
        shares = {
            "wrong better": (self.wrong_better, WRONG_BETTER),
            "wrong claims": (self.wrong, WRONG_CLAIMS),
            "intervals without the truth": (1 - self.coverage, 1 - COVERAGE),
            "wrong claims of knobs": (self.wrong_knobs, WRONG_CLAIMS),
            "intervals of knobs without it": (1 - self.knob_coverage, 1 - COVERAGE),
        }
        return missed_bars(shares, self.sessions)


def missed_bars(shares: dict[str, tuple[float, float]], count: int) -> list[str]:
    """The shares, of so many, that are above their bars by more than chance explains."""
    return [
        f"{name} {share:.3f}"
        for name, (share, bar) in shares.items()
        if share > bar + 3 * math.sqrt(bar * (1 - bar) / count)
    ]


def heading() -> str:
    return " " * 16 + "".join(f"{name:>10}" for name in COLUMNS) + f"{'width':>8}{'worlds':>8}"


def mean(values: Iterable[float | None]) -> float:
    """Of those that are known; NaN where none is."""
    known = [value for value in values if value is not None]
    return sum(known) / len(known) if known else math.nan


def tally(cell: Cell, outcomes: Sequence[Outcome]) -> Tally:
    widths = [outcome.width for outcome in outcomes if not math.isnan(outcome.width)]
    claims = ("better", "argmin", "certified")
    return Tally(
        recommended=mean(cell.behind_best(outcome.recommended) <= EPSILON for outcome in outcomes),
        favourite=mean(cell.behind_best(outcome.favourite) <= EPSILON for outcome in outcomes),
        wrong_better=mean(
            each.verdict in claims and each.recommended != 0 and cell.gain(each.recommended) <= 0
            for each in outcomes
        ),
        wrong=mean(outcome.wrong for outcome in outcomes),
        coverage=mean(outcome.covered for outcome in outcomes),
        wrong_knobs=mean(outcome.wrong_knobs for outcome in outcomes),
        knob_coverage=mean(held for outcome in outcomes for held in outcome.knobs_covered),
        width=float(np.median(widths)) if widths else math.nan,
        worlds=mean(outcome.worlds for outcome in outcomes),
        sessions=len(outcomes),
        verdicts=dict(Counter(outcome.verdict for outcome in outcomes)),
    )
