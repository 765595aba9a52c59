"""What each trial takes where no block has all trials: trials and blocks add up."""

import numpy as np

from tuner.decide.statistics import FloatArray

_MOST_ROUNDS = 50
_NEAR = 1e-14


def trial_levels(matrix: FloatArray) -> FloatArray:
    """log(objective) of each trial, as if all had been in the same blocks.

    A block that was slow as a whole is slow for all of its trials: the trials that several blocks
    share (the baseline, the best so far) tell by how much. It is the least-squares fit of a level
    for each trial and one for each block.

    Args:
        matrix: log(objective), blocks x trials; NaN where nothing was measured.

    Returns:
        A level per trial, up to a constant that all share; NaN where a trial was never measured.
    """
    levels = np.full(matrix.shape[1], np.nan)
    measured = ~np.isnan(matrix).all(axis=0)
    if not measured.any():
        return levels
    known = matrix[:, measured]
    there = ~np.isnan(known)
    filled = np.where(there, known, 0.0)
    trials, blocks = np.zeros(known.shape[1]), np.zeros(known.shape[0])
    for _ in range(_MOST_ROUNDS):
        before = trials
        blocks = ((filled - trials) * there).sum(axis=1) / np.maximum(1, there.sum(axis=1))
        trials = ((filled - blocks[:, None]) * there).sum(axis=0) / there.sum(axis=0)
        if np.abs(trials - before).max() < _NEAR:
            break
    levels[measured] = trials
    return levels
