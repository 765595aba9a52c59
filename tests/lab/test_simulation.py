"""What a few searches on the simulated machine answer: `make simulate` in small."""

import math
from dataclasses import replace

import numpy as np
import pytest

from lab.simulation.__main__ import OF_LONG, SOONER, worse_picks
from lab.simulation.cells import LONG_CELLS, TWO_KNOBS, Cell
from lab.simulation.peers import _friedman_survivors
from lab.simulation.sessions import run_session
from lab.simulation.tally import tally

pytestmark = pytest.mark.thorough


def test_a_session_tells_in_spite_of_failures_and_leaves_what_fails_too_often() -> None:
    often = Cell("curve, the best fails half of the time", 0.07, 120.0)
    some = Cell("curve, 1 of 5 worlds fails", 0.07, 120.0)
    found = {cell: [run_session(cell, seed) for seed in range(4)] for cell in (often, some)}
    assert not any(outcome.wrong for outcomes in found.values() for outcome in outcomes)
    assert all(outcome.verdict == "better" for outcomes in found.values() for outcome in outcomes)
    assert all(each.recommended != 4 for each in found[often])
    assert all(cell.behind_best(4) == (math.inf if cell is often else 0.0) for cell in found)


@pytest.mark.parametrize("landscape", sorted(TWO_KNOBS))
def test_nothing_that_is_said_of_two_knobs_is_wrong(landscape: str) -> None:
    cell = Cell(landscape, 0.07, 60.0)
    found = tally(cell, [run_session(cell, seed) for seed in range(12)])
    assert not found.missed()
    assert found.wrong_knobs <= 1 / 12
    if landscape == "two knobs add up":
        assert found.favourite >= 0.6
        assert found.verdicts["better"] >= 9


def test_forecasts_choose_what_few_long_worlds_are_spent_on() -> None:
    cell = next(each for each in LONG_CELLS if each.landscape == "curve")
    some = {
        method: tally(cell, [OF_LONG[method](cell, seed) for seed in range(40)])
        for method in ("tuner", SOONER)
    }
    assert 0 < some["tuner"].favourite < some[SOONER].favourite

    def missed(method: str, often: float) -> list[str]:
        pair = [("tuner", replace(some["tuner"], favourite=0.5, sessions=100)),
                (method, replace(some["tuner"], favourite=often, sessions=100))]  # fmt: skip
        return worse_picks([(cell, of, each) for of, each in pair])

    assert missed(SOONER, 0.51) == missed("wrong forecasts", 0.3) == []
    assert len(missed(SOONER, 0.49)) == len(missed("wrong forecasts", 0.28)) == 1


def test_a_friedman_race_leaves_what_is_always_slower() -> None:
    """Six blocks with one order, and six with every order once."""
    orders = np.array([[1, 2, 3], [1, 3, 2], [2, 1, 3], [2, 3, 1], [3, 1, 2], [3, 2, 1]])
    assert _friedman_survivors(np.tile(orders[0] / 10, (6, 1)), [4, 5, 7]) == [4]
    assert _friedman_survivors(orders / 10, [4, 5, 7]) == [4, 5, 7]
