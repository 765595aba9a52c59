"""The claims and their rules: the verdict, whether it holds, the front, and who fails more often.

Matrices hold log(objective), blocks x trials, NaN where nothing was measured; less is better.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from tuner.decide.statistics import FloatArray, Interval, differences_over, interval

# A gain is worth more blocks until its interval reaches no further than half of its logarithm, at
# most, and at least: the verdict is certain long before a large one is known as exactly.
MOST_REACH, LEAST_REACH = math.log(1.3), math.log(1.04)
VerdictKind = Literal["better", "tie", "keep-baseline", "undecided"]
Standing = Literal["holds", "no-longer-holds", "undecided"]
LEAST_FRONT_BLOCKS = 4  # trials that share fewer cannot be told apart
FAILING_SHARE = 0.2  # of alpha, for all claims of this kind; what the looks of a first budget leave


@dataclass(frozen=True, kw_only=True)
class Rules:
    """What counts as a difference, and how sure a claim must be."""

    epsilon: float
    confidence: float

    @property
    def log_epsilon(self) -> float:
        """log(1 + epsilon)."""
        return math.log1p(self.epsilon)

    @property
    def alpha(self) -> float:
        """The chance of a wrong claim that is accepted."""
        return 1 - self.confidence


@dataclass(frozen=True)
class Comparison:
    """The strongest rival against the baseline, at the last interim analysis."""

    log_speedup: Interval | None
    """log(baseline time / rival's time); None where too few blocks were measured."""
    kind: VerdictKind
    may_tie: bool = False  # whether the baseline is to be kept, and more blocks may show a tie

    @property
    def speedup(self) -> Interval | None:
        """Baseline time / rival's time."""
        return None if self.log_speedup is None else self.log_speedup.exp()

    @property
    def is_narrow(self) -> bool:
        """Whether the speed-up is known well enough to stop."""
        gain = self.log_speedup
        return gain is not None and (gain.high - gain.low) / 2 <= enough_reach(gain.estimate)


def enough_reach(gain: float) -> float:
    """How far the interval of a log gain may reach once nothing else is to be found out."""
    return min(MOST_REACH, max(LEAST_REACH, gain / 2))


def compare(
    log_speedup: Interval | None, rules: Rules, *, rival_cheaper: bool, others_excluded: bool
) -> Comparison:
    """The verdict: superiority, equivalence within epsilon, or neither yet.

    Args:
        log_speedup: The strongest rival's log effect size, as the looks left it.
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


def standing_of(
    verdict: VerdictKind | None, speedup: Interval | None, *, keeps_baseline: bool, rules: Rules
) -> Standing:
    """What today's interval shows of the earlier verdict; a wide one refutes nothing.

    A configuration that was better must gain epsilon, one that was as good may be at most epsilon
    slower, and the rival of a baseline that was kept must not be better.

    Args:
        verdict: The earlier one; None where the configuration was not compared with the baseline.
        speedup: Baseline time / time of the recommended configuration today, or of the baseline's
            rival where that is recommended; None where it is not known.
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


def pareto_front(
    first: FloatArray, second: FloatArray, trials: Sequence[int], rules: Rules
) -> list[int]:
    """The trials that no other one dominates beyond the noise.

    One dominates another if it is shown better in one objective, and non-inferior by epsilon in the
    other, while the same does not hold the other way round: by one-sided intervals of paired
    differences, whose alpha is divided by the number of others.

    Args:
        first: The first objective, blocks x trials.
        second: The second objective, of the same blocks.
        trials: The columns to compare.
        rules: What counts as a difference, and how sure a claim must be.

    Returns:
        Columns, in the order of `trials`; never none of several.
    """
    confidence = 1 - 2 * rules.alpha / max(1, len(trials) - 1)

    behind = {
        trial: [differences_over(each, trial) for each in (first, second)] for trial in trials
    }

    def worse_by(of_one: FloatArray, other: int) -> float:
        known = of_one[~np.isnan(of_one[:, other]), other]
        reach = interval(known, confidence) if len(known) >= LEAST_FRONT_BLOCKS else None
        return math.inf if reach is None else reach.high

    def covers(one: int, other: int) -> bool:
        bounds = [worse_by(each, other) for each in behind[one]]
        return max(bounds) <= rules.log_epsilon and min(bounds) < 0

    beaten = {
        trial
        for trial in trials
        if any(covers(one, trial) and not covers(trial, one) for one in trials if one != trial)
    }
    return [trial for trial in trials if trial not in beaten] or list(trials)


def fails_more(
    failed: int, worlds: int, others_failed: int, others_worlds: int, alpha: float
) -> bool:
    """Fisher's exact test of whether a configuration fails more often than the others.

    It may be asked whenever there is another failure: the n-th one spends alpha / (n (n + 1)), and
    all of these add up to alpha. Of its `worlds` one `failed` at least; the others' stand beside.
    """
    every, failures = worlds + others_worlds, failed + others_failed
    ways = sum(
        math.comb(failures, here) * math.comb(every - failures, worlds - here)
        for here in range(failed, min(worlds, failures) + 1)
    )
    return ways / math.comb(every, worlds) <= alpha / (failed * (failed + 1))


def undominated(points: Sequence[tuple[float, float]]) -> list[bool]:
    """Of each point, whether no other one is at most as large in both numbers, and not the same."""

    def is_better(other: tuple[float, float], point: tuple[float, float]) -> bool:
        return other != point and other[0] <= point[0] and other[1] <= point[1]

    return [not any(is_better(other, point) for other in points) for point in points]
