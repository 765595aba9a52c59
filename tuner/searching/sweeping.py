"""Measure a workload over its own options, with fixed configurations: how does it scale?"""

import itertools
import random
from collections.abc import Mapping, Sequence
from functools import partial

import pandas as pd

from tuner.errors import UsageError
from tuner.plan.config import Config
from tuner.plan.objectives import OBJECTIVES
from tuner.study.metrics import CPUS_USED, PEAK_MEMORY
from tuner.text import parse_duration_s
from tuner.world.launcher import WorkloadLauncher, WorldOrder
from tuner.world.local.local_launcher import LocalLauncher
from tuner.world.measurement import Failure, Measurement

DEFAULTS: Mapping[str, Mapping[str, object]] = {"default": {}}
MEASURED = {
    "step_ms": OBJECTIVES["step_ms"].read,
    **{metric.name: metric.read for metric in (CPUS_USED, PEAK_MEMORY)},
}
"""How the numbers of a world are read, by column."""
COLUMNS = ("config", "round", *MEASURED, "failure")


def sweep(
    workload: str,
    options: Mapping[str, Sequence[object]],
    config: Mapping[str, Config | Mapping[str, object]] = DEFAULTS,
    *,
    rounds: int = 3,
    min_time: str | float = "0.3s",
    deadline: str | float = "60s",
    seed: int = 0,
    launcher: WorkloadLauncher | None = None,
) -> pd.DataFrame:
    """Measure every combination of option values, with each of the named configurations.

    A round runs every combination once, each in a fresh world, in a random order of its own: what
    drifts affects all of them alike. Durations are seconds, or text such as `"300ms"`.

    Args:
        workload: A shipped workload's name, `package.module:Class` or `file.py:Class`.
        options: The values of each workload option, such as `{"observers": range(1, 11)}`.
        config: The configurations by any name: a `Config`, such as `tune(...).best`, or JSON by
            role, `{"agent": {"num_worker_threads": 2}}`. PyTorch's default holds for every knob
            that is not named.
        rounds: How often every combination is measured.
        min_time: How long the timed steps of a world last at least.
        deadline: A world that takes longer is ended, as a failure.
        seed: Seeds the order, and the inputs of the first round; the next number those of the
            next round.
        launcher: Runs the worlds. Default: processes on this machine.

    Returns:
        A frame with one row per world: a column per option, `config` (its name), `round` (from
        0), `step_ms` (the median step time), `cpu_cores` (CPU seconds per wall second, all ranks),
        `peak_rss_mb`, and `failure`: empty where the world was measured; the numbers are NaN where
        it was not.

    Raises:
        UsageError: there is nothing to measure, or it cannot be measured at all.
    """
    min_time_s, deadline_s = _seconds("min_time", min_time), _seconds("deadline", deadline)
    new_order = partial(WorldOrder, steps=None, min_time_s=min_time_s, deadline_s=deadline_s)
    values = {name: list(given) for name, given in options.items()}
    named = _checked(values, config, rounds)
    combinations = [
        dict(zip(values, chosen, strict=True)) for chosen in itertools.product(*values.values())
    ]
    shuffled = random.Random(seed)
    rows = []
    with launcher or LocalLauncher() as running:
        specs = [running.describe(workload, combination) for combination in combinations]
        cases = list(itertools.product(zip(combinations, specs, strict=True), named.items()))
        for number in range(rounds):
            for (combination, spec), (name, chosen) in shuffled.sample(cases, len(cases)):
                outcome = running.run(new_order(subject=spec, config=chosen, seed=seed + number))
                case = {**combination, "config": name, "round": number}
                rows.append(case | _measured(outcome))
    frame = pd.DataFrame(rows, columns=[*values, *COLUMNS])
    return frame.sort_values([*values, "config", "round"], ignore_index=True)


def _measured(outcome: Measurement | Failure) -> dict[str, object]:
    if isinstance(outcome, Failure):
        return {"failure": f"{outcome.failure}: {outcome.message}"}
    return {"failure": "", **{column: read(outcome) for column, read in MEASURED.items()}}


def _checked(
    values: Mapping[str, Sequence[object]],
    config: Mapping[str, Config | Mapping[str, object]],
    rounds: int,
) -> dict[str, Config]:
    """The configurations; UsageError with every mistake, those of the options among them."""
    empty = [name for name, given in values.items() if not given]
    problems = [f"option {name}: its list of values is empty" for name in empty]
    taken = [name for name in values if name in COLUMNS]
    problems += [f"option {name}: the frame has a column of this name" for name in taken]
    if not config:
        problems.append("config: it names no configuration; leave it out for PyTorch's defaults")
    if rounds < 1:
        problems.append(f"rounds must be at least 1, got {rounds}")
    named = {}
    for name, given in config.items():
        try:
            named[name] = given if isinstance(given, Config) else Config.from_json(given)
        except ValueError as error:
            problems.append(f"config {name!r}: {error}")
    if problems:
        raise UsageError.about("the sweep", problems)
    return named


def _seconds(name: str, raw: str | float) -> float:
    try:
        return parse_duration_s(raw)
    except ValueError as error:
        raise UsageError(f"{name} {error}") from None
