"""Large studies of whole grids: rows, worlds and details follow from a function of the knobs."""

import itertools
import math
import random
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from testing.results import detail, failed, measured, study_result
from testing.specs import for_all
from tuner.study.answer import StudyAnswer
from tuner.study.rows import Observation, TrialRow


def gridded(
    folder: Path | None, grid: Mapping[str, Sequence[object]], step_ms: Callable[..., float],
    *, blocks: int, broken: Collection[int] = (),
) -> StudyAnswer:  # fmt: skip
    """A study of a grid, in which `step_ms` is a function of the knobs.

    The baseline is the first point of the grid with PyTorch's 16 threads. Trials in `broken`
    crashed.
    """
    points = [dict(zip(grid, values, strict=True)) for values in itertools.product(*grid.values())]
    start = next(place for place, one in enumerate(points) if one["num_worker_threads"] == 16)
    points.insert(0, points.pop(start))
    chance = random.Random(7)
    steps = [step_ms(**point) * chance.uniform(0.98, 1.02) for point in points]
    ranked = sorted(set(range(len(points))) - set(broken), key=lambda trial: steps[trial])
    observations = tuple(_observations(ranked, steps, blocks, chance))
    worlds = Counter(seen.trial for seen in observations)
    rows = [
        replace(_row(trial, points[trial], steps[trial], chance), samples=worlds[trial])
        for trial in ranked
    ]
    best = rows[0].config
    return study_result(
        folder=folder, best=best, challenger=best, blocks=blocks, worlds=len(observations),
        rows=(*rows, *(failed(trial, for_all(**points[trial])) for trial in sorted(broken))),
        observations=observations, details={trial: detail(steps[trial]) for trial in ranked},
    )  # fmt: skip


def _observations(
    ranked: Sequence[int], steps: Sequence[float], blocks: int, chance: random.Random
) -> Iterator[Observation]:
    """The first quarter of the blocks measures all trials, the second the faster half, the rest
    the best and the baseline. Two of the worlds are outliers."""
    for block in range(blocks):
        alive = (
            len(ranked) if block < blocks // 4 else len(ranked) // 2 if block < blocks // 2 else 1
        )
        for trial in sorted({*ranked[:alive], 0}):
            spike = 20.0 if (block, trial) in ((1, 0), (3, ranked[-1])) else 1.0
            value = steps[trial] * (1 + 0.002 * block) * chance.gauss(1, 0.02) * spike
            yield Observation(trial, block, "race", value)


def _row(
    trial: int, point: Mapping[str, object], step_ms: float, chance: random.Random
) -> TrialRow:
    threads = float(str(point["num_worker_threads"]))
    metrics = {
        "cpu_cores": 0.5 + 0.4 * math.sqrt(threads) * chance.uniform(0.9, 1.1),
        "parallelism_mean": min(threads, 4.0) * 0.8,
        "parallelism_max": threads,
    }
    interval = (step_ms * 0.97, step_ms * 1.03)
    return measured(trial, for_all(**point), step_ms, interval, metrics=metrics)


def big_study(folder: Path | None = None) -> StudyAnswer:
    """60 configurations over three knobs, 40 blocks; two of the configurations crashed."""
    grid: dict[str, list[object]] = {
        "num_worker_threads": [1, 2, 4, 8, 16], "transports": ["shm", "uv", "shm+uv", None],
        "intra_op_threads": [1, 2, 4],
    }  # fmt: skip

    def step_ms(num_worker_threads: int, transports: str | None, intra_op_threads: int) -> float:
        contention = 1 + 0.02 * num_worker_threads * intra_op_threads
        wire = 1.3 if transports == "uv" else 1.0
        return 8 / min(num_worker_threads, 4) * contention * wire

    return gridded(folder, grid, step_ms, blocks=40, broken=(7, 21))


def two_knobs(folder: Path | None = None) -> StudyAnswer:
    """12 configurations over two knobs, 12 blocks; trial 5 crashed."""
    grid: dict[str, list[object]] = {
        "num_worker_threads": [1, 4, 16], "transports": ["shm", "uv", "shm+uv", None],
    }  # fmt: skip

    def step_ms(num_worker_threads: int, transports: str | None) -> float:
        return (6 / min(num_worker_threads, 4) + 0.5) * (1.2 if transports == "uv" else 1.0)

    return gridded(folder, grid, step_ms, blocks=12, broken=(5,))
