"""What is simulated: configurations, how noisy their worlds are, budgets, and a machine."""

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

EPSILON = 0.03
THREADS = (16, 1, 2, 4, 8, 32)  # of the configurations; the first is the baseline
BINDINGS = ("none", "equal")  # of two knobs: every number of threads unbound, then every one bound
_FEW_SLOW = (1.0, 2.4, 1.9, 1.7, 0.95, 1.0)
_UNBOUND = (1.0, 1.05, 1.02, 0.98, 0.96, 1.09)
TWO_KNOBS: Mapping[str, tuple[float, ...]] = {
    "two knobs, all equal": (1.0,) * 12,
    "two knobs add up": (*_UNBOUND, *(time / 1.25 for time in _UNBOUND)),
    "two knobs, one of them matters": (*_UNBOUND, *_UNBOUND),
    "bound, all alike": (1.0, 0.85, 0.88, 0.92, 0.96, 1.02, *(0.8,) * 6),
    "two knobs, few threads are slow": (*_FEW_SLOW, *(time / 1.1 for time in _FEW_SLOW)),
    "only unbound is 1 thread better": (1.0, 0.8, 0.95, 1.0, 1.0, 1.0, *(0.9,) * 6),
}
LANDSCAPES: Mapping[str, tuple[float, ...]] = {
    "one 5 % faster": (1.0, 1.0, 1.0, 1 / 1.05, 1.0, 1.0),
    "plateau": (1.0, 2.6, 1.4, 1.01, 1.0, 1.0),
    "curve": (1.15, 1.6, 1.25, 1.06, 1.0, 1.03),
    "all rivals 3.01 % faster": (1.0, *[1 / 1.0301] * 5),
    "all rivals 3.01 % slower": (1.0, *[1.0301] * 5),
    "all equal": (1.0,) * 6,
    "one noisy rival": (1.0,) * 6,
    "noisy rivals": (1.15, 1.6, 1.25, 1.06, 1.0, 1.03),
    "all equal, 1 of 5 worlds fails": (1.0,) * 6,
    "curve, 1 of 5 worlds fails": (1.15, 1.6, 1.25, 1.06, 1.0, 1.03),
    "plateau, some fail more often": (1.0, 2.6, 1.4, 1.01, 1.0, 1.0),
    "curve, the best fails half of the time": (1.15, 1.6, 1.25, 1.06, 1.0, 1.03),
    **TWO_KNOBS,
}
"""The true step time of each configuration, as a multiple of one time."""
NOISIER = {"one noisy rival": (1.0, 1.0, 1.0, 1.0, 1.0, 5.0), "noisy rivals": (1.0, *[5.0] * 5)}
"""How many times as noisy as the others each configuration is, where they differ."""
FAILING = {
    "all equal, 1 of 5 worlds fails": (0.2,) * 6,
    "curve, 1 of 5 worlds fails": (0.2,) * 6,
    "plateau, some fail more often": (0.1, 0.1, 0.1, 0.3, 0.1, 0.5),
    "curve, the best fails half of the time": (0.0, 0.0, 0.0, 0.0, 0.5, 0.0),
}
"""How often a world of each configuration fails, where any does."""
SIGMAS = (0.07, 0.15)
BUDGETS_S = (60.0, 300.0)
FIXED_S, LONG_S = 0.25, 2.4  # what a world costs beside its steps, and a long one, in seconds
STEP_S = 0.02  # the step time that the times of a cell are multiples of
WITHIN = 0.0011  # variance of log(median step time) within a world, times the seconds of its steps
SPIKES = 0.05  # the share of worlds that take twice as long
DRIFT = 0.10  # standard deviation of the machine's drift: an AR(1) process that all worlds share
DRIFT_S = 20.0  # in this time the drift's autocorrelation falls by a factor of e
_OF_A_MEDIAN = math.pi / 2  # a median's variance is this many times that of a mean


class Cell(NamedTuple):
    """One kind of study."""

    landscape: str
    sigma: float  # standard deviation of log(step time) between worlds of one configuration
    budget_s: float
    fixed_s: float = FIXED_S  # what a world costs beside its steps

    @property
    def is_long(self) -> bool:
        """Whether its worlds are long, as runs of programs are: a budget has few of them."""
        return self.fixed_s > FIXED_S

    @property
    def size(self) -> int:
        return len(LANDSCAPES[self.landscape])

    def sigma_of(self, trial: int) -> float:
        """The standard deviation of log(step time) between worlds of this configuration."""
        return self.sigma * NOISIER.get(self.landscape, (1.0,) * self.size)[trial]

    @property
    def failing(self) -> tuple[float, ...]:
        return FAILING.get(self.landscape, (0.0,) * self.size)

    def fails_more(self, trial: int) -> bool:
        """Whether a configuration truly fails more often than the others do on average."""
        mean = sum(self.failing) / self.size
        return self.failing[trial] > mean + 1e-9

    @property
    def log_times(self) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
        return np.log(LANDSCAPES[self.landscape])

    def behind_best(self, chosen: int) -> float:
        """How much slower a configuration truly is, as a fraction, than the best of those that fail
        no more often than others; what does is never near it."""
        times, often = LANDSCAPES[self.landscape], [*map(self.fails_more, range(self.size))]
        best = min(time for time, fails in zip(times, often, strict=True) if not fails)
        return math.inf if often[chosen] else times[chosen] / best - 1

    def gain(self, chosen: int, over: int = 0) -> float:
        """The true log(speed-up) of one configuration over another, by default the baseline."""
        times = LANDSCAPES[self.landscape]
        return math.log(times[over] / times[chosen])


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """What a method answered. Configurations are known by their numbers; 0 is the baseline."""

    recommended: int
    favourite: int  # the one most likely to be the best
    worlds: int
    verdict: str = "none"
    wrong: bool = False  # whether it claimed something that is not true
    wrong_knobs: bool = False  # or named a best number of threads, or an interaction, that is none
    knobs_covered: Sequence[bool] = ()  # whether each interval of a knob's gain holds the truth
    covered: bool | None = None  # whether its interval holds the true speed-up, if it has one
    width: float = math.nan  # half of that interval's, of log(speed-up)


class Machine:
    """A machine with a clock and a drift of its own, on which the worlds of a cell run."""

    def __init__(self, cell: Cell, seed: int) -> None:
        self.now_s = 0.0
        self._times_s = STEP_S * np.exp(cell.log_times)
        self._failing, self._fixed_s = cell.failing, cell.fixed_s
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
        self.spend(self._fixed_s + sum(found))
        return found

    def fails(self, trial: int) -> bool:
        """Whether the next world of a configuration fails, which takes as long as its start."""
        chance = self._failing[trial]
        if not chance or self._random.random() >= chance:
            return False
        self.spend(self._fixed_s)
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


CELLS = [Cell(*each) for each in itertools.product(LANDSCAPES, SIGMAS, BUDGETS_S)]
LONG_CELLS = [
    Cell(landscape, sigma, 60.0, LONG_S)
    for landscape, sigma in itertools.product(LANDSCAPES, SIGMAS)
    if landscape not in FAILING
]
