"""Simulated observations."""

import numpy as np

from tuner.decide.statistics import FloatArray


def observed(
    times: list[float], blocks: int, sigma: float = 0.0, drift: float = 0.0, seed: int = 0
) -> FloatArray:
    """log(times) in every block, with lognormal noise and a drift that a block's worlds share."""
    random = np.random.default_rng(seed)
    matrix = np.log(np.array(times)) + random.normal(0, sigma, size=(blocks, len(times)))
    shared = np.cumsum(random.normal(0, drift, size=blocks))
    result: FloatArray = matrix + shared[:, None]
    return result
