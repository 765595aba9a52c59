"""Values of a knob that took turns within runs: which is faster, and whether slices have a memory.

A run is cut into slices. In each circuit of slices every value follows every value, itself too,
equally often (a serially balanced sequence, Finney and Outhwaite 1956): what a slice owes to the
value before it is then apart from what it owes to its own. Slices of one run do not tell how runs
differ, so a run is one observation.
"""

import random
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from scipy import special

from tuner.decide.statistics import FloatArray, Interval, interval

LEAST_RUNS = 4  # fewer do not tell how runs differ
LEAST_CIRCUITS = 1.0  # of slices in a run, with which its effects are told apart
FALSE_MEMORY = 0.05  # how often a knob without a memory is taken for one that has it
SMALL_MEMORY = 0.1  # of what the value gives: so little carried over changes no answer
_NO_NOISE = 1e-12
_ONE_WAY = 0.5  # of alpha: no more than one claim in forty is wrong where 95 % are asked for


class LiveRun(NamedTuple):
    """The slices of one run; the arrays are as long as there are slices."""

    circuits: npt.NDArray[np.int64]  # the number of the circuit
    turns: npt.NDArray[np.int64]  # which value the slice had, from 0
    before: npt.NDArray[np.int64]  # which one the slice before it had
    log_rates: FloatArray  # log of what was done per second


class LiveGains(NamedTuple):
    """What the values gain over the first one."""

    gains: FloatArray  # log(how many times as fast), runs x values; the first column is 0
    memory_p: float  # how probable such differences are where slices have no memory
    memory: float  # what is carried over from the value before, as a share of what values give

    @property
    def remembers(self) -> bool:
        """Whether slices are shown to depend on the value before theirs, so much that it counts."""
        return self.memory_p < FALSE_MEMORY and self.memory > SMALL_MEMORY


def circuit_of(values: int) -> int:
    """How many slices a circuit of so many values has."""
    return values**2 * _repeats(values)


def _repeats(values: int) -> int:
    # A circuit of four slices would have hardly any order to choose.
    return 2 if values == 2 else 1


def turns_of(values: int, circuits: int, seed: str) -> list[int]:
    """Which value each slice has, in random order; it may be gone through again and again."""
    draw = random.Random(seed)
    first = draw.randrange(values)
    found: list[int] = []
    for _ in range(circuits):
        left = {each: [*range(values)] * _repeats(values) for each in range(values)}
        for following in left.values():
            draw.shuffle(following)
        # Hierholzer's way to use each transition once; it ends where it began.
        going, path = [first], list[int]()
        while going:
            if left[going[-1]]:
                going.append(left[going[-1]].pop())
            else:
                path.append(going.pop())
        found += path[-2::-1]
    return found


def compare_live(runs: Sequence[LiveRun], values: int) -> LiveGains | None:
    """What so many values gain, from runs in which they took turns; None of fewer than 4 runs that
    have enough slices."""
    fits = [fit for fit in (_fit(run, values) for run in runs) if fit is not None]
    if len(fits) < LEAST_RUNS:
        return None
    gains = np.array([[0.0, *fit.given] for fit in fits])
    carried = np.array([[0.0, *fit.carried] for fit in fits])
    # In any run, or in the same way in all of them.
    squares, freedom = sum(fit.squares for fit in fits), sum(fit.freedom for fit in fits)
    more, of_memory = sum(fit.squares_without for fit in fits) - squares, len(fits) * (values - 1)
    f = max(0.0, more) / of_memory / max(squares / freedom, _NO_NOISE)
    of_any = float(special.fdtrc(of_memory, freedom, f))
    error = carried[:, 1:].std(axis=0, ddof=1) / np.sqrt(len(fits))
    t = np.abs(carried[:, 1:].mean(axis=0)) / np.maximum(error, _NO_NOISE)
    of_all = 2 * float(special.stdtr(len(fits) - 1, -t).min()) * (values - 1)
    share = np.ptp(carried.mean(axis=0)) / max(float(np.ptp(gains.mean(axis=0))), _NO_NOISE)
    return LiveGains(gains, min(1.0, 2 * of_any, 2 * of_all), float(share))


def live_gain(gains: FloatArray, value: int, confidence: float, over: int = 0) -> Interval | None:
    """The log gain of a value over another, which holds for all values at once: no more than half
    of what the confidence leaves is wrong, so one claim in forty with 95 %."""
    alpha = _ONE_WAY * (1 - confidence) / max(1, gains.shape[1] - 1)
    return interval(gains[:, value] - gains[:, over], 1 - alpha)


class _Fit(NamedTuple):
    """Least squares of one run: what each value but the first gives, and carries over."""

    given: FloatArray
    carried: FloatArray
    squares: float  # what is left of the logarithms
    squares_without: float  # and what without a memory
    freedom: int


def _fit(run: LiveRun, values: int) -> _Fit | None:
    others = np.arange(1, values)
    levels = (run.circuits[:, None] == np.unique(run.circuits)).astype(float)
    own = (run.turns[:, None] == others).astype(float)
    before = (run.before[:, None] == others).astype(float)
    freedom = len(run.turns) - levels.shape[1] - 2 * (values - 1)
    if freedom < 1 or len(run.turns) < LEAST_CIRCUITS * circuit_of(values):
        return None
    design = np.column_stack([levels, own, before])
    if np.linalg.matrix_rank(design) < design.shape[1]:
        return None
    found, squares, *_ = np.linalg.lstsq(design, run.log_rates)
    _, without, *_ = np.linalg.lstsq(np.column_stack([levels, own]), run.log_rates)
    given, carried = np.split(found[levels.shape[1] :], 2)
    return _Fit(given, carried, float(squares[0]), float(without[0]), freedom)
