"""What a few searches on the simulated machine answer: `make simulate` in small."""

import math

import pytest

from lab.simulation.__main__ import OURS
from lab.simulation.cells import TWO_KNOBS, Cell
from lab.simulation.sessions import run_session
from lab.simulation.tally import tally

pytestmark = pytest.mark.thorough

QUIET = Cell("curve", 0.07, 60.0)


def test_the_session_finds_a_large_gain_and_keeps_its_budget() -> None:
    found = [run_session(QUIET, seed) for seed in range(6)]
    assert sum(each.verdict == "better" for each in found) >= 3
    assert not any(each.wrong for each in found)
    assert all(each.spent_s <= QUIET.budget_s * 1.05 for each in found)


def test_a_limit_and_a_second_budget_give_answers_too() -> None:
    cell = QUIET._replace(budget_s=120.0)
    alone, limited, resumed = (OURS[name](cell, 1) for name in OURS)
    assert {each.verdict for each in (alone, limited, resumed)} == {"better"}
    assert limited.spent_s < cell.budget_s
    assert resumed.spent_s > cell.budget_s / 2


def test_a_session_tells_in_spite_of_failures_and_leaves_what_fails_too_often() -> None:
    often = Cell("curve, the best fails half of the time", 0.07, 120.0)
    some = Cell("curve, 1 of 5 worlds fails", 0.07, 120.0)
    found = {cell: [run_session(cell, seed) for seed in range(4)] for cell in (often, some)}
    assert not any(each.wrong for outcomes in found.values() for each in outcomes)
    assert all(each.verdict == "better" for outcomes in found.values() for each in outcomes)
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
