"""Live comparisons of a simulated knob, whose slices may remember the values before them."""

import itertools
import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from lab.simulation.tally import missed_bars
from tests.known import known
from tuner.decide.live_comparison import LiveRun, circuit_of, compare_live, live_gain, turns_of

CONFIDENCE = 0.95
WRONG_CLAIMS = 0.025  # one in forty
FALSE_ALARMS, MISSED_MEMORY = 0.05, 0.2  # of the test of slices for a memory
RUN_SIGMA = 0.03  # standard deviation of a log gain from run to run
SLICE_SIGMA = 0.10  # of log(rate) from slice to slice
DRIFT, DRIFT_SLICES = 0.15, 40.0  # an AR(1) process within a run, and how long it lasts
SPIKES = 0.03  # the share of slices in which half as much is done


class LiveCell(NamedTuple):
    """One kind of live comparison."""

    gains: tuple[float, ...]  # the true gain of each value over the first, as a ratio
    runs: int
    slices: int  # of a run
    memory: float  # the share of a slice's speed that the value before it has made
    kept: float = 0.0  # the share of that memory that outlives a slice

    def __str__(self) -> str:
        ratios = " ".join(f"{gain:g}" for gain in self.gains)
        return f"gains {ratios}, {self.runs} runs of {self.slices} slices, memory {self.memory:g}"


class LiveTally(NamedTuple):
    """Shares of the comparisons of one cell."""

    believed: float
    wrong: float  # claims a gain, or a loss, where that is not true
    shown: float  # of values that differ: whose difference is shown and believed
    remembered: float


CELLS = [
    *(
        LiveCell(gains, runs, slices, 0.0)
        for gains, (runs, slices) in itertools.product(
            ((1.0, 1.0), (1.0, 1.0, 1.0), (1.0, 1.1), (1.0, 1.25, 2.0)), ((4, 14), (4, 30), (6, 30))
        )
    ),
    *(LiveCell((1.0, 1.5), 4, 30, memory) for memory in (0.3, 0.6, 1.0)),
    LiveCell((1.0, 1.5, 2.0), 4, 30, 0.5),
    LiveCell((1.0, 1.5), 4, 30, 0.6, 0.5),
]


def simulated_run(cell: LiveCell, draw: np.random.Generator, seed: str) -> LiveRun:
    """The slices of a run."""
    values = len(cell.gains)
    circuits = math.ceil((cell.slices + 1) / circuit_of(values))
    turns = np.array(turns_of(values, circuits, seed))
    levels = np.log(cell.gains) + RUN_SIGMA * draw.standard_normal(values)
    levels[0] = 0.0
    noise, state, log_rates = DRIFT * draw.standard_normal(), levels[turns[0]], np.zeros(len(turns))
    keeps = math.exp(-1 / DRIFT_SLICES)
    for place, turn in enumerate(turns):
        noise = keeps * noise + DRIFT * math.sqrt(1 - keeps**2) * draw.standard_normal()
        log_rates[place] = cell.memory * state + (1 - cell.memory) * levels[turn] + noise
        state = cell.kept * state + (1 - cell.kept) * levels[turn]
    log_rates += SLICE_SIGMA * draw.standard_normal(len(turns))
    log_rates -= math.log(2) * (draw.random(len(turns)) < SPIKES)
    chosen = np.arange(1, cell.slices + 1)
    return LiveRun(
        chosen // circuit_of(values), turns[chosen], turns[chosen - 1], log_rates[chosen]
    )


def live_tally(cell: LiveCell, comparisons: int) -> LiveTally:
    """What many comparisons of one kind come to."""
    shares = np.zeros((comparisons, len(LiveTally._fields)))
    truth = np.log(cell.gains)
    for seed, row in enumerate(shares):
        draw = np.random.default_rng(seed)
        runs = [simulated_run(cell, draw, f"{seed}/{run}") for run in range(cell.runs)]
        found = known(compare_live(runs, len(cell.gains)))
        told = []
        for value in range(1, len(cell.gains)):
            claim = live_gain(found.gains, value, CONFIDENCE)
            if claim is not None and not claim.low <= 0 <= claim.high:
                told.append(claim.estimate * truth[value] > 0)
        believed = not found.remembers
        row[:] = believed, believed and not all(told), believed and any(told), found.remembers
    return LiveTally(*shares.mean(axis=0))


def simulate_live(cells: Sequence[LiveCell], comparisons: int) -> list[str]:
    """Print a line per cell; returns the bars that are missed."""
    print(f"{'':<58}" + "".join(f"{each:>10}" for each in ("believed", "wrong", "shown", "memory")))
    missed = []
    for cell in cells:
        found = live_tally(cell, comparisons)
        print(f"{cell!s:<58}" + "".join(f"{each:>10.3f}" for each in found), flush=True)
        of_memory = ("memory where there is none", (found.remembered, FALSE_ALARMS))
        if cell.memory:
            of_memory = ("missed memory", (1 - found.remembered, MISSED_MEMORY))
        bars = dict([("wrong claims", (found.wrong, WRONG_CLAIMS)), of_memory])
        missed += [f"live, {cell}: {bar}" for bar in missed_bars(bars, comparisons)]
    return missed
