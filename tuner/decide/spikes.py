"""Worlds without their spikes: Tukey's biweight on what blocks and trials leave unexplained."""

import math

import numpy as np

from tuner.decide.statistics import FloatArray

# A world so many standard deviations from where its block and its trial have it tells nothing.
_CUT = 6.0
_ROUNDS = 30
# The standard deviation of normal values over the median of their absolute values.
_OF_MEDIAN = 1.4826
# Of fewer blocks nobody can tell a spike from the rest.
LEAST_BLOCKS = 5
# Noise this small is none.
_LEAST_SCALE = 1e-9
# Not even a block of spikes alone is without a level.
_LEAST_WEIGHT = 1e-3
# The estimate is not trusted to be further than this from an ordinary mean.
_LEAST_SLOPE = 0.5


def without_spikes(worlds: FloatArray) -> FloatArray:
    """The matrix with every world where its bounded residual puts it.

    A level for each trial and one for each block are fitted robustly. A world that is far from
    their sum is moved to it, one that is near stays about where it is. The ordinary means and
    variances of differences within blocks are then those of the biweight estimate. All trials are
    treated alike, so spikes that hit all as often favour none.

    Args:
        worlds: log(objective), blocks x trials, NaN where nothing was measured.

    Returns:
        An array of the same shape; the worlds as they are where there are fewer than 5 blocks.
    """
    used = ~np.isnan(worlds).all(axis=0)
    measured = worlds[:, used]
    freedom = int((~np.isnan(measured)).sum()) - sum(measured.shape)
    if len(measured) < LEAST_BLOCKS or freedom < 1:
        return worlds
    found = worlds.copy()
    found[:, used] = _bounded(measured, freedom)
    return found


def _bounded(worlds: FloatArray, freedom: int) -> FloatArray:
    """`without_spikes` where no block and no trial is without a world."""
    known = ~np.isnan(worlds)
    filled = np.where(known, worlds, 0.0)
    blocks: FloatArray = _medians(worlds.T)[:, None]
    trials: FloatArray = _medians(worlds - blocks)
    # Fitted levels make residuals smaller than the noise.
    correction = _OF_MEDIAN * math.sqrt(known.sum() / freedom)
    for _ in range(_ROUNDS):
        residuals = filled - blocks - trials
        sizes = np.where(known, np.abs(residuals), np.nan)
        common = correction * float(_medians(sizes.reshape(-1, 1))[0])
        if common < _LEAST_SCALE:
            return worlds
        # What is ordinary for a noisy trial is no spike of it, and tells less of its block.
        scale = np.maximum(common, correction * _medians(sizes))
        inside = np.square(_inside(residuals, scale))
        weights = known * np.maximum(inside, _LEAST_WEIGHT) / np.square(scale / common)
        blocks = ((weights * (filled - trials)).sum(axis=1) / weights.sum(axis=1))[:, None]
        trials = (weights * (filled - blocks)).sum(axis=0) / weights.sum(axis=0)
    residuals = filled - blocks - trials
    inside = _inside(residuals, scale)
    slope = float((inside * (5 * inside - 4))[known].mean())
    moved = blocks + trials + residuals * np.square(inside) / max(slope, _LEAST_SLOPE)
    return np.where(known, moved, np.nan)


def _medians(values: FloatArray) -> FloatArray:
    """The median of each column without its NaN; `np.nanmedian` takes ten times as long."""
    ordered = np.sort(values, axis=0)  # NaN goes to the end.
    counts = (~np.isnan(values)).sum(axis=0)
    column = np.arange(values.shape[1])
    middle: FloatArray = ordered[(counts - 1) // 2, column] + ordered[counts // 2, column]
    return middle / 2


def _inside(residuals: FloatArray, scale: FloatArray) -> FloatArray:
    """1 for a residual of 0, and 0 from the cut on; its square is the biweight."""
    return 1 - np.square(np.minimum(np.abs(residuals) / (_CUT * scale), 1.0))
