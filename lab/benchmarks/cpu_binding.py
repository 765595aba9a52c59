"""What binding each rank to logical CPUs of its own gains, and what noise it takes away.

Worlds of two numbers of threads, bound and unbound, in random order.
"""

import time

import pandas as pd

from lab.benchmarks.report import Bar, Comparison, log_ratio
from tuner.decide.statistics import Interval
from tuner.searching.sweeping import sweep

CONFIGS = {
    f"{threads} {binding}": {"*": {"num_worker_threads": threads, "cpu_binding": binding}}
    for threads in (1, 16)
    for binding in ("none", "equal")
}
EACH_S = 40.0
"""For the bound worlds, and for the unbound ones."""


def run() -> list[Comparison]:
    """The width of the interval of 1 against 16 threads, and what binding gains with 16."""
    _rounds(1, seed=0)  # the first worlds pay for the forkserver
    began_s = time.monotonic()
    first = _rounds(2, seed=1)
    rounds = round(2 * EACH_S * 2 / (time.monotonic() - began_s))
    steps = pd.concat([first, _rounds(rounds, seed=3)])
    unbound, bound = (
        _ratio(steps, f"16 {binding}", f"1 {binding}") for binding in ("none", "equal")
    )
    gain = _ratio(steps, "16 none", "16 equal")
    bound_ms, unbound_ms = (float(steps[f"16 {binding}"].median()) for binding in ("equal", "none"))
    return [
        Comparison(
            "95 % interval of udf, 1 against 16 threads, each 40 s of worlds",
            f"bound, {bound.exp().estimate:.2f} times",
            f"unbound, {unbound.exp().estimate:.2f} times",
            bound.high - bound.low, unbound.high - unbound.low, "wide (log)", Bar(least_ratio=2.0),
        ),
        Comparison(
            "step of udf, 16 threads", "cpu_binding=equal", "cpu_binding=none",
            bound_ms, unbound_ms, "ms", Bar(least_ratio=1.1), gain.exp(),
        ),
    ]  # fmt: skip


def _rounds(rounds: int, seed: int) -> pd.DataFrame:
    """Median step times in ms: a row per round, a column per configuration."""
    worlds = sweep("udf", {}, CONFIGS, rounds=rounds, seed=seed, min_time="0.1s")
    return worlds.pivot(index="round", columns="config", values="step_ms")


def _ratio(steps: pd.DataFrame, slow: str, fast: str) -> Interval:
    """log(time of one / time of the other), paired within rounds."""
    pairs = steps[[slow, fast]].dropna()
    return log_ratio(pairs[slow].to_numpy(), pairs[fast].to_numpy())
