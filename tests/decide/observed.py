"""Simulated observations."""

import numpy as np
from numpy.typing import ArrayLike

from tuner.decide.statistics import FloatArray


def observed(
    times: ArrayLike, blocks: int, sigma: float = 0.0, drift: float = 0.0, seed: int = 0
) -> FloatArray:
    """log(times) in every block, with lognormal noise and a drift that a block's worlds share."""
    random = np.random.default_rng(seed)
    logs = np.log(times)
    matrix = logs + random.normal(0, sigma, size=(blocks, len(logs)))
    shared = np.cumsum(random.normal(0, drift, size=blocks))
    result: FloatArray = matrix + shared[:, None]
    return result
