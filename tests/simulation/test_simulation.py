"""The simulation itself, and what a few of its studies answer."""

import math

import numpy as np
import pytest
from optuna import create_study
from optuna.pruners import WilcoxonPruner

from tests.simulation.__main__ import OURS, simulate
from tests.simulation.cells import CELLS, LANDSCAPES, TWO_KNOBS, Cell
from tests.simulation.machine import FIXED_S, STEP_S, Machine
from tests.simulation.peers import PEERS, _is_slower
from tests.simulation.sessions import run_session
from tests.simulation.tally import tally

pytestmark = pytest.mark.slow

QUIET = Cell("curve", 0.07, 60.0)


def test_a_machine_has_the_noise_that_it_is_asked_for() -> None:
    logs = [Machine(QUIET, seed).log_time(0, 0.36) for seed in range(400)]
    expected = math.log(STEP_S * LANDSCAPES["curve"][0])
    assert np.median(logs) == pytest.approx(expected, abs=0.03)
    # Worlds, drift and steps together; without the spikes.
    quartiles = np.quantile(logs, [0.25, 0.75])
    assert 0.09 < (quartiles[1] - quartiles[0]) / 1.349 < 0.19


def test_worlds_close_in_time_share_the_drift() -> None:
    machine = Machine(QUIET._replace(sigma=1e-6), 0)
    logs = [machine.log_time(0, 1.0) for _ in range(100)]
    near = np.median(np.abs(np.diff(logs)))
    far = np.median(np.abs(np.array(logs[50:]) - np.array(logs[:50])))
    assert near < far
    assert machine() > 100 * FIXED_S


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


def test_worlds_fail_as_often_as_they_are_to() -> None:
    cell = Cell("plateau, some fail more often", 0.07, 60.0)
    machine = Machine(cell, 0)
    shares = [sum(machine.fails(trial) for _ in range(2000)) / 2000 for trial in range(6)]
    assert shares == pytest.approx(cell.failing, abs=0.04)
    assert [*map(cell.fails_more, range(6))] == [False, False, False, True, False, True]
    quiet = Machine(QUIET, 0)
    assert not any(quiet.fails(trial) for trial in range(6))
    assert quiet() == 0.0


def test_a_session_tells_in_spite_of_failures_and_leaves_what_fails_too_often() -> None:
    often = Cell("curve, the best fails half of the time", 0.07, 120.0)
    some = Cell("curve, 1 of 5 worlds fails", 0.07, 120.0)
    found = {cell: [run_session(cell, seed) for seed in range(4)] for cell in (often, some)}
    assert not any(each.wrong for outcomes in found.values() for each in outcomes)
    assert all(each.verdict == "better" for outcomes in found.values() for each in outcomes)
    assert all(each.recommended != 4 for each in found[often])
    assert all(cell.behind_best(4) == (math.inf if cell is often else 0.0) for cell in found)


def test_a_session_is_the_same_again() -> None:
    assert run_session(QUIET, 3) == run_session(QUIET, 3)


@pytest.mark.parametrize("name", sorted(PEERS))
def test_a_peer_chooses_within_its_budget(name: str) -> None:
    found = PEERS[name](QUIET, 1)
    assert 0 <= found.recommended < 6
    assert 6 <= found.worlds <= 110


@pytest.mark.filterwarnings("ignore:WilcoxonPruner is experimental")
def test_the_pruner_tests_as_optuna_does() -> None:
    random = np.random.default_rng(5)
    for count in (4, 8, 30):
        best = random.normal(0, 0.1, count)
        for shift in (-0.1, 0.0, 0.08, 0.3):
            logs = best + shift + random.normal(0, 0.1, count)
            study = create_study(pruner=WilcoxonPruner(p_threshold=0.1))
            for values in (best, logs):
                trial = study.ask()
                for step, value in enumerate(values):
                    trial.report(float(value), step)
                if values is best:
                    study.tell(trial, float(best.mean()))
            if count != 30:
                assert trial.should_prune() == _is_slower(logs, best)
            elif shift in (-0.1, 0.3):  # the normal approximation, where it is clear
                assert trial.should_prune() == _is_slower(logs, best) == (shift > 0)


@pytest.mark.parametrize("landscape", sorted(TWO_KNOBS))
def test_nothing_that_is_said_of_two_knobs_is_wrong(landscape: str) -> None:
    cell = Cell(landscape, 0.07, 60.0)
    found = tally(cell, [run_session(cell, seed) for seed in range(12)])
    assert not found.missed()
    assert found.wrong_knobs <= 1 / 12
    if landscape == "two knobs add up":
        assert found.favourite >= 0.6
        assert found.verdicts["better"] >= 9


def test_a_tally_tells_every_method_in_every_cell() -> None:
    cells = [cell for cell in CELLS if cell.budget_s == 60][:2]
    found = list(simulate(cells, ["tuner", "KN"], sessions=2, processes=2))
    assert [(cell, method) for cell, method, _ in found] == [
        (cell, method) for cell in cells for method in ("tuner", "KN")
    ]
    assert all(sum(each.verdicts.values()) == 2 for _, _, each in found)
    assert not any(each.missed() for _, method, each in found if method == "tuner")
