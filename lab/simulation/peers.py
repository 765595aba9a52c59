"""What others would do on the same machine with the same budget."""

import math
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np
from scipy import stats

from lab.simulation.cells import EPSILON, FIXED_S, STEP_S, Cell, Machine, Outcome
from tuner.decide.statistics import FloatArray

MEASURED_S = 0.36  # the seconds of steps in each of their worlds
ALPHA = 0.05
Peer = Callable[[Cell, int], Outcome]


class _Bench:
    """A simulated machine, used by a method that has no better idea of a world's length."""

    def __init__(self, cell: Cell, seed: int) -> None:
        self.worlds, self.count = 0, cell.size
        self._machine, self._budget_s = Machine(cell, seed), cell.budget_s
        self._world_s = FIXED_S + MEASURED_S + STEP_S

    def has_time(self, worlds: int = 1) -> bool:
        return self._budget_s - self._machine() >= worlds * self._world_s

    def run(self, trial: int) -> float:
        self.worlds += 1
        return self._machine.log_time(trial, MEASURED_S)

    def block(self, trials: list[int]) -> FloatArray:
        """log(step time) by configuration; NaN for those that are not among `trials`."""
        row = np.full(self.count, np.nan)
        for trial in trials:
            row[trial] = self.run(trial)
        return row


def _argmin(bench: _Bench, values: Mapping[int, float]) -> Outcome:
    chosen = min(values, key=values.__getitem__, default=0)
    return Outcome(recommended=chosen, favourite=chosen, worlds=bench.worlds, verdict="argmin")


def in_a_row(runs: int, typical: Callable[[list[float]], Any]) -> Peer:
    """Each configuration so many times in a row, and the smallest typical time."""

    def method(cell: Cell, seed: int) -> Outcome:
        bench = _Bench(cell, seed)
        logs = {trial: [bench.run(trial) for _ in range(runs)] for trial in range(bench.count)}
        return _argmin(bench, {trial: float(typical(log)) for trial, log in logs.items()})

    return method


def friedman_race(cell: Cell, seed: int) -> Outcome:
    """As irace does: after five blocks, Friedman's test on ranks and Conover's post-hoc test."""
    bench, left, rows = _Bench(cell, seed), list(range(cell.size)), list[FloatArray]()
    while len(left) > 1 and bench.has_time(len(left)):
        rows.append(bench.block(left))
        if len(rows) >= 5:
            left = _friedman_survivors(np.array(rows)[:, left], left)
    matrix = np.array(rows)
    return _argmin(bench, {trial: float(matrix[:, trial].mean()) for trial in left})


def _friedman_survivors(matrix: FloatArray, left: list[int]) -> list[int]:
    """Those whose rank sums Conover's test cannot tell from the best one's."""
    blocks, count = matrix.shape
    if count == 2:
        found = stats.wilcoxon(matrix[:, 0] - matrix[:, 1]).pvalue
        sums = (matrix[:, 0] > matrix[:, 1]).sum(), (matrix[:, 1] > matrix[:, 0]).sum()
        return [left[int(np.argmin(sums))]] if found < ALPHA else left
    if stats.friedmanchisquare(*matrix.T).pvalue >= ALPHA:
        return left
    ranks = stats.rankdata(matrix, axis=1)
    sums, squares = ranks.sum(axis=0), float((ranks**2).sum())
    freedom = (blocks - 1) * (count - 1)
    error = math.sqrt(2 * (blocks * squares - float((sums**2).sum())) / freedom)
    reach = float(stats.t.ppf(1 - ALPHA / 2, freedom)) * error
    return [trial for trial, total in zip(left, sums, strict=True) if total - sums.min() <= reach]


def wilcoxon_pruner(cell: Cell, seed: int) -> Outcome:
    """As Optuna's GridSampler with its WilcoxonPruner (p = 0.1): trial after trial, each with an
    equal share of the budget, and pruned when its worlds are slower than those of the best."""
    bench = _Bench(cell, seed)
    most = max(1, int(cell.budget_s / (bench.count * (FIXED_S + MEASURED_S + STEP_S))))
    best: tuple[int, FloatArray] | None = None
    for trial in np.random.default_rng(seed).permutation(bench.count).tolist():
        logs: list[float] = []
        while len(logs) < most and bench.has_time():
            logs.append(bench.run(trial))
            if best is not None and len(logs) >= 2 and _is_slower(np.array(logs), best[1]):
                break
        found = np.array(logs)
        complete = len(logs) >= most or not bench.has_time()
        if complete and len(logs) and (best is None or found.mean() < best[1].mean()):
            best = trial, found
    return _argmin(bench, {} if best is None else {best[0]: 0.0})


def _is_slower(logs: FloatArray, best: FloatArray) -> bool:
    """The test of Optuna's pruner."""
    behind = logs[: len(best)] - best[: len(logs)]
    if behind.mean() <= 0:
        return False  # as the pruner: never one whose average is better
    return bool(stats.wilcoxon(behind, alternative="greater").pvalue < 0.1)


def kim_nelson(cell: Cell, seed: int) -> Outcome:
    """KN of Kim and Nelson (2001) with paired differences: ten blocks, then one by one."""
    bench, left = _Bench(cell, seed), list(range(cell.size))
    first, delta = 10, math.log1p(EPSILON)
    rows = [bench.block(left) for _ in range(first) if bench.has_time(len(left))]
    start = np.array(rows)
    eta = ((2 * ALPHA / (bench.count - 1)) ** (-2 / (first - 1)) - 1) / 2
    variance = np.var(start[:, :, None] - start[:, None, :], axis=0, ddof=1)
    sums = start.sum(axis=0)
    while True:
        blocks = len(rows)
        slack = np.maximum(0, (eta * (first - 1) * variance / delta - delta * blocks) / 2)
        left = [i for i in left if all(sums[i] <= sums[j] + slack[i, j] for j in left if j != i)]
        if len(left) == 1 or not bench.has_time(len(left)):
            break
        rows.append(bench.block(left))
        sums = sums + np.nan_to_num(rows[-1])
    found = _argmin(bench, {trial: float(sums[trial]) for trial in left})
    if len(left) > 1:
        return found
    is_wrong = cell.behind_best(found.recommended) > EPSILON + 1e-12
    return replace(found, verdict="certified", wrong=is_wrong)


PEERS: Mapping[str, Peer] = {
    "one shot": in_a_row(1, np.median),
    "five in a row": in_a_row(5, np.median),
    "three-run means": in_a_row(3, lambda logs: np.exp(logs).mean()),  # as AIPerf does
    "Friedman race": friedman_race,
    "WilcoxonPruner": wilcoxon_pruner,
    "KN": kim_nelson,
}
