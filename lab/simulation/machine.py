"""A simulated machine: worlds of it cost time on its clock, and yield noisy step times."""

import math

import numpy as np

from lab.simulation.cells import Cell

FIXED_S = 0.25
"""What a world costs beside its steps, in seconds."""
STEP_S = 0.02
"""The step time that the times of a cell are multiples of."""
WITHIN = 0.0011
"""Variance of log(median step time) within a world, times the seconds of its steps."""
SPIKES = 0.05
"""The share of worlds that take twice as long."""
DRIFT = 0.10
"""Standard deviation of the machine's drift: an AR(1) process that all worlds share."""
DRIFT_S = 20.0
"""In this time the drift's autocorrelation falls by a factor of e."""
# A median's variance is this many times that of a mean.
_OF_A_MEDIAN = math.pi / 2


class Machine:
    """A machine with a clock and a drift of its own.

    Args:
        cell: What its worlds take, and how noisy they are.
        seed: Of all its noise.
    """

    def __init__(self, cell: Cell, seed: int) -> None:
        self.now_s = 0.0
        self._times_s = STEP_S * np.exp(cell.log_times)
        self._failing = cell.failing
        self._sigmas = [cell.sigma_of(trial) for trial in range(len(self._times_s))]
        self._random = np.random.default_rng(seed)
        self._drift = DRIFT * self._random.standard_normal()

    def __call__(self) -> float:
        return self.now_s

    def steps(self, trial: int, steps: int | None, least_s: float) -> list[float]:
        """Run a world; its step times in seconds, as many as last `least_s` where not told."""
        normal = self._random.standard_normal
        level = self._times_s[trial] * math.exp(self._drift + self._sigmas[trial] * normal())
        if self._random.random() < SPIKES:
            level *= 2
        count = steps or max(1, math.ceil(least_s / level))
        spread = math.sqrt(WITHIN / (STEP_S * _OF_A_MEDIAN))
        found: list[float] = (level * np.exp(spread * normal(count))).tolist()
        self.spend(FIXED_S + sum(found))
        return found

    def fails(self, trial: int) -> bool:
        """Whether the next world of a configuration fails, which takes as long as its start."""
        chance = self._failing[trial]
        if not chance or self._random.random() >= chance:
            return False
        self.spend(FIXED_S)
        return True

    def log_time(self, trial: int, least_s: float) -> float:
        """Run a world, of as many steps as should last `least_s`; log of its median step time."""
        steps = math.ceil(least_s / self._times_s[trial])
        return math.log(float(np.median(self.steps(trial, steps, least_s))))

    def spend(self, seconds: float) -> None:
        self.now_s += seconds
        kept = math.exp(-seconds / DRIFT_S)
        fresh = DRIFT * math.sqrt(1 - kept**2) * self._random.standard_normal()
        self._drift = kept * self._drift + fresh
