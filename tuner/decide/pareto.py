"""The Pareto front of two objectives under noise: what no other trial is shown to beat.

Matrices hold log(objective), blocks x trials, NaN where nothing was measured; less is better.
"""

from collections.abc import Sequence

from tuner.decide.rules import Rules
from tuner.decide.statistics import FloatArray, differences, interval

# Trials that share fewer blocks with any other one cannot be told apart from it.
LEAST_BLOCKS = 4


def pareto_front(
    first: FloatArray, second: FloatArray, trials: Sequence[int], rules: Rules
) -> list[int]:
    """The trials that no other one beats beyond the noise.

    One beats another if it is shown better in one objective, and shown at most epsilon worse in the
    other, while the same does not hold the other way round. What is shown is by intervals of paired
    differences within blocks, one-sided; the comparisons with all others share alpha.

    Args:
        first: The first objective, blocks x trials.
        second: The second objective, of the same blocks.
        trials: The columns to compare.
        rules: What counts as a difference, and how sure a claim must be.

    Returns:
        Columns, in the order of `trials`; never none of several.
    """
    confidence = 1 - 2 * rules.alpha / max(1, len(trials) - 1)

    def bounds(one: int, other: int) -> tuple[float, float] | None:
        """How much worse one is at most than the other, in each objective."""
        found = []
        for matrix in (first, second):
            behind = differences(matrix[:, one], matrix[:, other])
            reach = interval(behind, confidence) if len(behind) >= LEAST_BLOCKS else None
            if reach is None:
                return None
            found.append(reach.high)
        return found[0], found[1]

    def covers(one: int, other: int) -> bool:
        reached = bounds(one, other)
        if reached is None:
            return False
        return max(reached) <= rules.log_epsilon and min(reached) < 0

    beaten = {
        trial
        for trial in trials
        if any(covers(one, trial) and not covers(trial, one) for one in trials if one != trial)
    }
    return [trial for trial in trials if trial not in beaten] or list(trials)
