"""From the rival's interval to the verdict: better, tie, keep or undecided."""

import math
from dataclasses import dataclass

from tuner.decide.rules import Rules
from tuner.decide.statistics import Interval
from tuner.decide.verdict_kind import VerdictKind

# Where the answer is clear, more blocks are still worth their time until the interval reaches no
# further than this from its estimate.
WIDE = math.log(1.04)


@dataclass(frozen=True)
class Comparison:
    """The strongest rival against the baseline, at the last look."""

    log_speedup: Interval | None
    """log(baseline time / rival's time); None where too few blocks were measured."""
    kind: VerdictKind
    may_tie: bool = False
    """Whether the baseline is to be kept, and more blocks may show a tie."""

    @property
    def speedup(self) -> Interval | None:
        """Baseline time / rival's time."""
        return None if self.log_speedup is None else self.log_speedup.exp()

    @property
    def is_narrow(self) -> bool:
        """Whether the speed-up is known well enough to stop."""
        if self.log_speedup is None:
            return False
        return (self.log_speedup.high - self.log_speedup.low) / 2 <= WIDE


def compare(
    log_speedup: Interval | None, rules: Rules, *, rival_cheaper: bool, others_excluded: bool
) -> Comparison:
    """The verdict.

    Args:
        log_speedup: The strongest rival's gain over the baseline, as the looks left it.
        rules: What counts as a difference.
        rival_cheaper: Whether the rival takes less CPU; it decides a tie in time.
        others_excluded: Whether every other rival is shown to gain at most epsilon.
    """
    epsilon = rules.log_epsilon
    if log_speedup is None:
        return Comparison(None, "undecided")
    if log_speedup.low > 0 and log_speedup.estimate >= epsilon:
        return Comparison(log_speedup, "better")
    if log_speedup.high > epsilon or not others_excluded:
        return Comparison(log_speedup, "undecided")
    if rival_cheaper and log_speedup.low >= -epsilon:
        return Comparison(log_speedup, "tie")
    near = rival_cheaper and log_speedup.estimate >= -epsilon / 2
    return Comparison(log_speedup, "keep-baseline", may_tie=near)
