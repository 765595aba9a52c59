"""What the noise allows: how long a world should be, and how many blocks a difference takes."""

import math
from collections.abc import Sequence

import numpy as np

from tuner.decide.statistics import TRIM, FloatArray, trimmed_mean

_MEDIAN = math.pi / 2  # the variance of a median over that of a mean, for normal values
LEAST_BLOCKS, _LEAST_STEPS = 4, 3  # of fewer, a spread is a guess
_WINSORIZED = 1 / 0.4129  # the variance of normal values over that of them winsorized
REACH = 2.2  # two standard errors and a little: an interval's reach at the last look


def variance_between(matrix: FloatArray) -> float | None:
    """Variance of log(objective) between worlds of one configuration, without block effects.

    By the columns without NaN of blocks x trials, winsorized; None for fewer than 2, or 4 blocks.
    """
    whole: FloatArray = matrix[:, ~np.isnan(matrix).any(axis=0)]
    blocks, count = len(whole), int(whole.shape[1])
    if blocks < LEAST_BLOCKS or count < 2:
        return None
    ordered = np.sort(whole - trimmed_mean(whole.T)[:, None], axis=0)
    cut = math.floor(TRIM * blocks)
    clipped = np.clip(ordered, ordered[cut], ordered[blocks - cut - 1])
    scale = _WINSORIZED if cut else 1.0
    variance = float(scale * clipped.var(axis=0, ddof=1).mean())
    return variance * count / (count - 1)


def variance_within(step_s: Sequence[float]) -> float | None:
    """Variance of log(median step time) within a world, times the seconds that its steps last; None
    for fewer than 3 steps."""
    if len(step_s) < _LEAST_STEPS:
        return None
    logs = [math.log(max(each, 1e-12)) for each in step_s]
    count, mean = len(logs), math.fsum(logs) / len(logs)
    variance = math.fsum((each - mean) ** 2 for each in logs) / (count - 1)
    return _MEDIAN * variance * math.fsum(step_s) / count


def best_measured_s(fixed_s: float, within: float, between: float, used_s: float) -> float:
    """The seconds that a world's steps should last, so that an interval costs the least wall time.

    That is the optimal allocation of two-stage sampling: sqrt(fixed_s x within / `between` alone).

    Args:
        fixed_s: What a world costs beside its steps, in seconds.
        within: `variance_within`.
        between: Variance between worlds whose steps last `used_s` seconds.
        used_s: The measured time that `between` is of.
    """
    # Never less than a part of what was seen: the difference of two estimates can be anything.
    alone = max(between - within / used_s, between / 4, 1e-12)
    return math.sqrt(fixed_s * within / alone)


def blocks_needed(between: float, log_difference: float) -> float:
    """The sample size, in blocks, that resolves a log effect size, by the variance of one world."""
    # A block has one world of the rival, and two of the baseline.
    return max(2.0, 1.5 * between * (REACH / max(1e-9, log_difference)) ** 2)
