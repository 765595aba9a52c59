"""What Optuna's samplers propose next, from what is known of the configurations tried so far.

A configuration is a point: the index of its value on each axis of the search space. A process of
its own can answer: `GPSampler` needs torch, which the process of a command never imports.
"""

import json
import os
import subprocess
import sys
import warnings
from collections.abc import Sequence
from typing import NamedTuple, Self

import optuna
from optuna.distributions import BaseDistribution, CategoricalDistribution, IntDistribution
from optuna.trial import create_trial

from tuner.study.records import OptunaSampler

Point = tuple[int, ...]


class Axis(NamedTuple):
    """An axis of the search space: how many values it has, and whether these have an order."""

    size: int
    ordered: bool


def proposals(
    sampler: OptunaSampler,
    axes: Sequence[Axis],
    tried: Sequence[tuple[Point, float]],
    count: int,
    seed: int,
) -> list[Point]:
    """Points to try next, `count` of them; they may repeat each other, or what has been `tried`,
    each with its value; less is better. Proposed points count as running (`constant_liar`)."""
    distributions: dict[str, BaseDistribution] = {
        str(number): IntDistribution(0, axis.size - 1)
        if axis.ordered
        else CategoricalDistribution(range(axis.size))
        for number, axis in enumerate(axes)
    }
    study = optuna.create_study(sampler=_sampler(sampler, seed))
    for point, value in tried:
        params = dict(zip(distributions, point, strict=True))
        study.add_trial(create_trial(params=params, distributions=distributions, value=value))
    asked = [study.ask(distributions).params for _ in range(count)]
    return [tuple(int(params[name]) for name in distributions) for params in asked]


def _sampler(name: OptunaSampler, seed: int) -> optuna.samplers.BaseSampler:
    if name == "random":
        return optuna.samplers.RandomSampler(seed=seed)
    if name == "tpe":
        return optuna.samplers.TPESampler(seed=seed, n_startup_trials=0, constant_liar=True)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", optuna.exceptions.ExperimentalWarning)
        return optuna.samplers.GPSampler(
            seed=seed, n_startup_trials=0, warn_independent_sampling=False
        )


class SamplingProcess:
    """Calls `proposals` in a process of its own, which lives as long as this context."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[str] | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *ending: object) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.communicate()

    def proposals(
        self,
        sampler: OptunaSampler,
        axes: Sequence[Axis],
        tried: Sequence[tuple[Point, float]],
        count: int,
        seed: int,
    ) -> list[Point]:
        """What the function of this name returns."""
        if self._process is None:
            self._process = subprocess.Popen(
                [sys.executable, "-m", __name__],
                stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
                # The threads of OpenBLAS and of torch would wait for each other, many times longer.
                env={**os.environ, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"},
            )  # fmt: skip
        assert self._process.stdin and self._process.stdout  # noqa: PT018 - they are pipes
        print(json.dumps([sampler, axes, tried, count, seed]), file=self._process.stdin, flush=True)
        if not (answer := self._process.stdout.readline()):
            raise RuntimeError(f"the {sampler} sampler ended with code {self._process.wait()}")
        return [tuple(point) for point in json.loads(answer)]


def main() -> None:
    """Answer requests, one a line, until there are no more."""
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    for line in sys.stdin:
        sampler, axes, tried, count, seed = json.loads(line)
        found = proposals(sampler, [Axis(*axis) for axis in axes], tried, count, seed)
        sys.stdout.write(json.dumps(found) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
