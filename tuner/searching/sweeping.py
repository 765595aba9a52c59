"""Measure a workload over its own options, at fixed settings: how does it scale?"""

import itertools
import random
from collections.abc import Mapping, Sequence

import pandas as pd

from tuner.errors import UsageError
from tuner.plan.config import Config
from tuner.plan.quantities import parse_duration_s
from tuner.plan.workload_spec import WorkloadSpec
from tuner.world.launcher import Launcher, WorldOrder
from tuner.world.local.launcher import LocalLauncher
from tuner.world.measurement import Failure, Measurement

DEFAULTS: Mapping[str, Mapping[str, object]] = {"default": {}}


def sweep(
    workload: str,
    options: Mapping[str, Sequence[object]],
    config: Mapping[str, Config | Mapping[str, object]] = DEFAULTS,
    *,
    rounds: int = 3,
    min_time: str = "0.3s",
    deadline: str = "60s",
    seed: int = 0,
    launcher: Launcher | None = None,
) -> pd.DataFrame:
    """Measure every combination of option values, with each of the named settings.

    Each round runs every combination once, in a fresh world and a random order of its own, so that
    what drifts meets all alike. `settings` are what a search gives, or JSON by role:
    `{"default": {}, "two": {"agent": {"num_worker_threads": 2}}}`; what they do not name is
    PyTorch's default.

    One row per world: a column per option, `settings`, `round`, `step_ms` (the median),
    `cpu_cores` (CPU seconds per wall second, all ranks), `peak_rss_mb`, and `failure`, which is
    empty where there are numbers. Raises UsageError for what cannot be measured at all.
    """
    min_time_s, deadline_s = _seconds("min_time", min_time), _seconds("deadline", deadline)
    named = {name: _config(name, given) for name, given in config.items()}
    combinations = [
        dict(zip(options, values, strict=True)) for values in itertools.product(*options.values())
    ]
    shuffled = random.Random(seed)
    rows = []
    with launcher or LocalLauncher() as running:
        specs = [running.describe(workload, combination) for combination in combinations]
        cases = list(itertools.product(zip(combinations, specs, strict=True), named.items()))
        for number in range(rounds):
            for (combination, spec), (name, chosen) in shuffled.sample(cases, len(cases)):
                order = _order(spec, chosen, seed + number, min_time_s, deadline_s)
                outcome = _columns(running.run(order))
                rows.append({**combination, "config": name, "round": number, **outcome})
    return pd.DataFrame(rows).sort_values([*options, "config", "round"], ignore_index=True)


def _order(
    spec: WorkloadSpec, config: Config, seed: int, min_time_s: float, deadline_s: float
) -> WorldOrder:
    return WorldOrder(
        workload=spec,
        config=config,
        seed=seed,
        steps=None,
        min_time_s=min_time_s,
        deadline_s=deadline_s,
    )


def _columns(outcome: Measurement | Failure) -> dict[str, object]:
    if isinstance(outcome, Failure):
        return {"failure": f"{outcome.failure}: {outcome.message}"}
    return {
        "step_ms": outcome.median_step_s * 1e3,
        "cpu_cores": outcome.cpu_cores,
        "peak_rss_mb": outcome.peak_rss_mb,
        "failure": "",
    }


def _config(name: str, given: Config | Mapping[str, object]) -> Config:
    try:
        return given if isinstance(given, Config) else Config.from_json(given)
    except ValueError as error:
        raise UsageError(f"config {name!r}: {error}") from None


def _seconds(name: str, raw: str) -> float:
    try:
        return parse_duration_s(raw)
    except ValueError as error:
        raise UsageError(f"{name} {error}") from None
