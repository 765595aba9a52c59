"""From the confirmation's pairs of worlds to the verdict: better, tie, keep or undecided."""

import math
from dataclasses import dataclass

from tuner.decide.rules import Rules
from tuner.decide.statistics import FloatArray, Interval, differences, interval
from tuner.decide.verdict_kind import VerdictKind

# Where the answer is clear, more pairs are still worth their time until the interval reaches no
# further than this from its estimate.
WIDE = math.log(1.04)


@dataclass(frozen=True)
class Comparison:
    """The challenger against the baseline, on fresh worlds that chose neither."""

    log_speedup: Interval | None
    """log(baseline time / challenger time); None when fewer than two pairs were measured."""
    pairs: int
    kind: VerdictKind

    @property
    def speedup(self) -> Interval | None:
        """Baseline time / challenger time."""
        return None if self.log_speedup is None else self.log_speedup.exp()

    @property
    def is_clear(self) -> bool:
        """Whether there is a verdict, and the speed-up is known well enough to stop."""
        if self.kind == "undecided" or self.log_speedup is None:
            return False
        return (self.log_speedup.high - self.log_speedup.low) / 2 <= WIDE


UNCOMPARED = Comparison(None, 0, "undecided")
"""What is known where no look was taken."""


def compare(
    baseline: FloatArray,
    challenger: FloatArray,
    *,
    alpha: float,
    rules: Rules,
    challenger_cheaper: bool,
) -> Comparison:
    """The comparison at one look.

    Args:
        baseline: log(objective) of the baseline, pair by pair.
        challenger: log(objective) of the challenger, pair by pair.
        alpha: What this look may spend: the interval has the confidence 1 - alpha.
        rules: What counts as a difference.
        challenger_cheaper: Whether the challenger takes less CPU; it decides a tie in time.
    """
    found = interval(differences(baseline, challenger), 1 - alpha)
    if found is None:
        return Comparison(None, len(baseline), "undecided")
    return Comparison(found, len(baseline), _kind(found, rules, challenger_cheaper))


def _kind(log_speedup: Interval, rules: Rules, challenger_cheaper: bool) -> VerdictKind:
    epsilon = rules.log_epsilon
    if log_speedup.low > 0 and log_speedup.estimate >= epsilon:
        return "better"
    if log_speedup.high <= epsilon:
        tied = log_speedup.low >= -epsilon
        return "tie" if tied and challenger_cheaper else "keep-baseline"
    return "undecided"
