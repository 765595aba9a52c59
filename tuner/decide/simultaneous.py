"""All rivals against one reference at once: intervals that hold together, whenever looked at.

The looks share alpha (`tuner.decide.looks`), and what one has shown stays shown: an interval is
what the intervals of all looks have in common.

A matrix holds log(objective), blocks x trials, NaN where nothing was measured, without spikes.
"""

import math
from collections.abc import Sequence
from typing import NamedTuple

from scipy import special

from tuner.decide.boundaries import levels
from tuner.decide.statistics import FloatArray, Interval, differences

# Of alpha, for the lower ends, which the rivals share: the best of several looks better than it is.
LOW_SHARE = 0.3
# Fewer blocks give no interval.
LEAST_BLOCKS = 3


class LookAt(NamedTuple):
    """The blocks of a look, and what it spends."""

    matrix: FloatArray
    alpha: float


def gain_over(
    tests: Sequence[LookAt], reference: int, rival: int, *, rivals: int, high_shared_by: int = 1
) -> Interval | None:
    """The logarithm of how many times as good a rival is as a reference.

    Its lower end holds for all rivals at once. Its upper end holds for each of them: "none gains
    more" is wrong only if one that does was missed, and the rival that looks best is no exception,
    for then one that is better still was missed by as much.

    Args:
        tests: The looks taken, in order.
        reference: A column.
        rival: A column.
        rivals: Among how many the data may choose one.
        high_shared_by: By how many the upper end's alpha is divided, where the data has chosen
            the reference too.

    Returns:
        What all looks leave, around the estimate of the last one; None where no look had blocks
        of both.
    """
    known = [(differences(m[:, reference], m[:, rival]), alpha) for m, alpha in tests]
    # Without another block there is nothing to look at.
    looks = [
        (gains, alpha)
        for place, (gains, alpha) in enumerate(known)
        if alpha and len(gains) > max([LEAST_BLOCKS - 1, *(len(g) for g, _ in known[:place])])
    ]
    counts = tuple(len(gains) for gains, _ in looks)
    low = levels(counts, tuple(LOW_SHARE * alpha / max(1, rivals) for _, alpha in looks))
    high = levels(
        counts, tuple((1 - LOW_SHARE) * alpha / max(1, high_shared_by) for _, alpha in looks)
    )
    found = None
    for (gains, _), lower, upper in zip(looks, low, high, strict=True):
        each = one_sided(gains, lower, upper)
        found = each if found is None or each is None else _common(found, each)
    return found


def _common(before: Interval, now: Interval) -> Interval:
    """What two intervals leave, around the estimate of the second one."""
    low, high = max(before.low, now.low), min(before.high, now.high)
    # Intervals that contradict each other leave nothing; the later one knows more.
    return Interval(min(max(now.estimate, low), high), low, high) if low <= high else now


def one_sided(values: FloatArray, low: float, high: float) -> Interval | None:
    """A mean with an end that is too high with the chance `low`, and one too low with `high`."""
    count = len(values)
    if count < LEAST_BLOCKS or not low or not high:
        return None
    mean = float(values.mean())
    # Two fewer: the levels of spikes were fitted too.
    error = float(values.std(ddof=1)) / math.sqrt(count)
    freedom = count - 2
    return Interval(
        mean,
        mean - float(special.stdtrit(freedom, 1 - low)) * error,
        mean + float(special.stdtrit(freedom, 1 - high)) * error,
    )
