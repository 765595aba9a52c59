"""Whether an earlier verdict still holds, from a comparison that was measured today."""

from typing import Literal

from tuner.decide.rules import Rules
from tuner.decide.statistics import Interval
from tuner.decide.verdict_kind import VerdictKind

Standing = Literal["holds", "no-longer-holds", "undecided"]


def standing_of(
    verdict: VerdictKind | None, speedup: Interval | None, *, keeps_baseline: bool, rules: Rules
) -> Standing:
    """What today's interval shows of the earlier verdict.

    A configuration that was better must gain epsilon, one that was as good may be at most epsilon
    slower, and the rival of a baseline that was kept must not be better. What is shown neither way
    is undecided: an interval that is too wide refutes nothing.

    Args:
        verdict: The earlier one; None where nobody compared the configuration with the baseline.
        speedup: Baseline time / configuration time today, of the recommended configuration; where
            the baseline is recommended, of its rival. None where it is not known.
        keeps_baseline: Whether the baseline is what is recommended.
        rules: What counts as a difference.
    """
    if speedup is None:
        return "undecided"
    gain = 1 + rules.epsilon
    is_better = speedup.low > 1 and speedup.estimate >= gain
    if keeps_baseline:
        holds, fails = speedup.high <= gain, is_better
    elif verdict == "better":
        holds, fails = is_better, speedup.high < gain
    else:
        holds, fails = speedup.low >= 1 / gain, speedup.high < 1 / gain
    return "no-longer-holds" if fails else "holds" if holds else "undecided"
