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


@dataclass(frozen=True)
class Tally:
    """Shares of the sessions, and means over them."""

    sessions: int
    recommended: float  # what is recommended is within epsilon of the best
    favourite: float  # so is what is most likely the best
    wrong_better: float
    wrong: float  # claims of any kind that are not true
    coverage: float
    wrong_knobs: float  # claims about single knobs that are not true
    knob_coverage: float
    width: float  # the median of half the interval's width
    worlds: float
    verdicts: dict[str, int]

    def line(self, name: str) -> str:
        said = ", ".join(f"{kind} {count}" for kind, count in sorted(self.verdicts.items()))
        numbers = [self.recommended, self.favourite, self.wrong_better, self.wrong, self.coverage]
        numbers += [self.wrong_knobs, self.knob_coverage]
        shown = "".join(f"{number:>10.3f}" for number in numbers)
        return f"{name:<16}{shown}{self.width:>8.3f}{self.worlds:>8.0f}  {said}"

    def missed(self) -> list[str]:
        """The bars that are missed by more than chance explains in one of forty cells."""
        bars = (
            ("wrong better", self.wrong_better, self.wrong_better, WRONG_BETTER),
            ("wrong claims", self.wrong, self.wrong, WRONG_CLAIMS),
            ("coverage", self.coverage, 1 - self.coverage, 1 - COVERAGE),
            ("wrong claims of knobs", self.wrong_knobs, self.wrong_knobs, WRONG_CLAIMS),
            ("coverage of knobs", self.knob_coverage, 1 - self.knob_coverage, 1 - COVERAGE),
        )
        return [
            f"{name} {shown:.3f}"
            for name, shown, wrong, bar in bars
            if wrong > bar + 3 * math.sqrt(bar * (1 - bar) / self.sessions)
        ]


def heading() -> str:
    names = ("best <3 %", "bet <3 %", "wr.better", "wr.claims", "coverage", "wr.knobs", "knob cov.")
    return " " * 16 + "".join(f"{name:>10}" for name in names) + f"{'width':>8}{'worlds':>8}"


def tally(cell: Cell, outcomes: Sequence[Outcome]) -> Tally:
    def mean(values: Iterable[float]) -> float:
        known = list(values)
        return sum(known) / len(known) if known else math.nan

    def near(chosen: int) -> bool:
        return cell.behind_best(chosen) <= EPSILON

    covered = [each.covered for each in outcomes if each.covered is not None]
    knobs = [held for each in outcomes for held in each.knobs_covered]
    widths = [each.width for each in outcomes if not math.isnan(each.width)]
    claims = ("better", "argmin", "certified")
    gains = [cell.gain(each.recommended) for each in outcomes]
    worse = [
        each.verdict in claims and each.recommended != 0 and gain <= 0
        for each, gain in zip(outcomes, gains, strict=True)
    ]
    return Tally(
        sessions=len(outcomes),
        recommended=mean(near(each.recommended) for each in outcomes),
        favourite=mean(near(each.favourite) for each in outcomes),
        wrong_better=mean(worse),
        wrong=mean(each.wrong for each in outcomes),
        coverage=mean(covered),
        wrong_knobs=mean(each.wrong_knobs for each in outcomes),
        knob_coverage=mean(knobs),
        width=float(np.median(widths)) if widths else math.nan,
        worlds=mean(each.worlds for each in outcomes),
        verdicts=dict(Counter(each.verdict for each in outcomes)),
    )
