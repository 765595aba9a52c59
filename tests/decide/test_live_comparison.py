"""Values that took turns within runs: what they gain, and whether slices remember."""

import math
from collections import Counter
from itertools import pairwise

import numpy as np
import pytest

from tests.known import known
from tuner.decide.live_comparison import (
    LiveRun,
    circuit_of,
    compare_live,
    live_gain,
    turns_of,
)


@pytest.mark.parametrize("values", [2, 3, 4])
def test_every_value_follows_every_value_equally_often(values: int) -> None:
    circuits = 5
    turns = turns_of(values, circuits, "seed")
    size = circuit_of(values)
    assert len(turns) == circuits * size
    # It may be gone through again.
    transitions = Counter(pairwise([turns[-1], *turns]))
    assert {*transitions.values()} == {circuits * size // values**2}
    assert len(transitions) == values**2
    assert turns != turns_of(values, circuits, "another")
    assert turns == turns_of(values, circuits, "seed")


def run_of(
    gains: list[float], seed: int, *, memory: float = 0.0, slices: int = 30, noise: float = 0.05
) -> LiveRun:
    """A run in which each slice has so much of its speed from the value before it."""
    draw = np.random.default_rng(seed)
    size, levels = circuit_of(len(gains)), np.log(gains)
    turns = np.array(turns_of(len(gains), math.ceil((slices + 1) / size), str(seed)))
    before, own = turns[:slices], turns[1 : slices + 1]
    log_rates = (1 - memory) * levels[own] + memory * levels[before]
    log_rates += draw.normal(0, noise, slices) + draw.normal(0, 1)
    return LiveRun(np.arange(1, slices + 1) // size, own, before, log_rates)


def test_what_values_give_is_found_although_runs_differ_widely() -> None:
    runs = [run_of([1.0, 1.5, 2.0], seed) for seed in range(4)]
    found = known(compare_live(runs, 3))
    assert not found.remembers
    first, second = (known(live_gain(found.gains, value, 0.95)).exp() for value in (1, 2))
    assert first.low < 1.5 < first.high
    assert second.low < 2.0 < second.high
    assert first.high - first.low < 0.5
    between = known(live_gain(found.gains, 2, 0.95, over=1)).exp()
    assert between.estimate == pytest.approx(second.estimate / first.estimate)


@pytest.mark.parametrize("memory", [0.5, 1.0])
@pytest.mark.parametrize("gains", [[1.0, 1.3], [1.0, 1.3, 1.6]])
def test_a_memory_of_the_slice_before_is_recognised(memory: float, gains: list[float]) -> None:
    runs = [run_of(gains, seed, memory=memory) for seed in range(4)]
    assert known(compare_live(runs, len(gains))).remembers


def test_a_memory_that_changes_no_answer_is_none() -> None:
    runs = [run_of([1.0, 8.0], seed, memory=0.02, noise=0.001) for seed in range(4)]
    found = known(compare_live(runs, 2))
    assert found.memory_p < 0.001
    assert not found.remembers


def test_too_few_runs_or_slices_tell_nothing() -> None:
    few_runs = [run_of([1.0, 2.0], seed) for seed in range(3)]
    assert compare_live(few_runs, 2) is None
    assert compare_live([*few_runs, run_of([1.0, 2.0], 3, slices=7)], 2) is None
    assert compare_live([*few_runs, run_of([1.0, 2.0], 3)], 2) is not None
    # One value in all slices.
    lost = run_of([1.0, 2.0], 3)._replace(turns=np.zeros(30, dtype=np.int64))
    assert compare_live([*few_runs, lost], 2) is None


def test_slices_without_any_noise_are_no_division_by_zero() -> None:
    found = known(compare_live([run_of([1.0, 2.0], seed, noise=0.0) for seed in range(4)], 2))
    assert found.gains[:, 1] == pytest.approx([math.log(2)] * 4)
    assert not found.remembers
