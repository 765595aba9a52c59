import numpy as np
import pytest

from tests.decide.observed import observed
from tuner.decide.race import (
    DOMINATED_BLOCKS,
    decide,
    dominated,
    epsilon_achieved,
    halve,
    look_alpha,
    looks,
    near_optimal,
    near_optimal_of_race,
    race,
)
from tuner.decide.ranking import incumbent
from tuner.decide.rules import Rules

pytestmark = pytest.mark.slow

RULES = Rules(epsilon=0.03, confidence=0.95)
NO_COST = np.zeros(50)


def test_dominated_needs_four_blocks_and_all_of_them() -> None:
    matrix = observed([1.0, 1.6, 1.4], blocks=4)
    assert set(dominated(matrix, [0, 1, 2])) == {1}
    assert dominated(matrix[:3], [0, 1, 2]) == {}
    matrix[2, 1] = 0.0
    assert dominated(matrix, [0, 1, 2]) == {}


def test_halving_keeps_the_better_half_as_the_budget_goes() -> None:
    matrix = observed([1.0, 1.3, 1.1, 1.2, 1.25, 1.15, 1.05, 1.22], blocks=4)
    candidates = list(range(8))
    assert halve(matrix, candidates, initial=8, fraction=0.2).dropped == {}
    assert set(halve(matrix, candidates, initial=8, fraction=0.34).dropped) == {1, 3, 4, 7}
    assert set(halve(matrix, candidates, initial=8, fraction=0.67).dropped) == {1, 2, 3, 4, 5, 7}


def test_halving_drops_nothing_on_less_than_four_blocks() -> None:
    matrix = observed([1.0, 1.3, 1.1, 1.2], blocks=3)
    assert halve(matrix, [0, 1, 2, 3], initial=4, fraction=0.9).dropped == {}


def test_halving_ends_with_its_budget() -> None:
    decision = halve(observed([1.0, 1.3], blocks=5), [0, 1], initial=2, fraction=1.0)
    assert decision.finished
    assert decision.dropped == {}


def test_looks_start_at_eight_and_end_at_the_cap() -> None:
    assert looks(30) == [8, 11, 16, 22, 30]
    assert looks(5) == [5]


def test_all_looks_together_spend_alpha() -> None:
    spent = sum(look_alpha(look, initial=5, cap=200, rules=RULES) for look in looks(200))
    assert spent == pytest.approx(RULES.alpha / 4)


def test_race_drops_what_is_shown_slower_and_keeps_what_ties() -> None:
    matrix = observed([1.0, 1.0, 1.4], blocks=80, sigma=0.05, seed=3)
    at = next(look for look in looks(200) if look >= 60)
    decision = race(matrix[:at], [0, 1, 2], NO_COST, initial=3, cap=200, rules=RULES)
    assert set(decision.dropped) == {2}


def test_what_is_cheaper_is_dropped_only_if_it_is_slower_by_epsilon() -> None:
    matrix = observed([1.0, 1.02, 1.02, 1.1], blocks=80, sigma=0.01, seed=3)
    at = next(look for look in looks(200) if look >= 60)
    cost = np.log([1.0, 0.5, 2.0, 0.5])
    decision = race(matrix[:at], [0, 1, 2, 3], cost, initial=4, cap=200, rules=RULES)
    assert set(decision.dropped) == {2, 3}


def test_race_only_tests_at_its_looks() -> None:
    matrix = observed([1.0, 1.4], blocks=9, sigma=0.01)
    assert race(matrix, [0, 1], NO_COST, initial=2, cap=200, rules=RULES).dropped == {}


def test_few_blocks_are_halved_and_many_are_raced() -> None:
    matrix = observed([1.0, 1.3, 1.1, 1.2], blocks=5)

    def dropped(cap: int) -> set[int]:
        return set(
            decide(
                matrix, [0, 1, 2, 3], NO_COST, initial=4, cap=cap, fraction=0.5, rules=RULES
            ).dropped
        )

    assert dropped(cap=149) == {1, 3}
    assert dropped(cap=150) == set()


def test_only_a_race_shows_what_is_near_optimal() -> None:
    matrix = observed([1.0, 1.01, 1.2], blocks=100, sigma=0.01, seed=5)
    assert near_optimal_of_race(matrix, [0, 1, 2], initial=3, cap=150, rules=RULES) == [0, 1]
    assert near_optimal_of_race(matrix, [0, 1, 2], initial=3, cap=149, rules=RULES) == []
    assert near_optimal_of_race(matrix, [0], initial=3, cap=150, rules=RULES) == []


def test_near_optimal_are_those_at_most_epsilon_behind_every_other() -> None:
    matrix = observed([1.0, 1.01, 1.2], blocks=40, sigma=0.01, seed=5)
    assert near_optimal(matrix, [0, 1, 2], alpha=0.01, log_epsilon=RULES.log_epsilon) == [0, 1]


def test_epsilon_achieved_shrinks_as_blocks_come() -> None:
    matrix = observed([1.0, 1.0], blocks=200, sigma=0.1, seed=2)
    few = epsilon_achieved(matrix[:8], 0, [1], RULES)
    many = epsilon_achieved(matrix, 0, [1], RULES)
    assert few is not None
    assert many is not None
    assert many < few
    assert epsilon_achieved(matrix[:1], 0, [1], RULES) is None


@pytest.mark.parametrize(
    ("times", "sigma", "cap", "least"),
    [
        ([1.0] * 3 + [1.3] * 6, 0.15, 150, 0.95),  # a plateau of three
        ([1.0] + [1.05] * 5, 0.05, 150, 0.9),  # one that is 5 % better
    ],
)
def test_race_finds_a_best_within_epsilon(
    times: list[float], sigma: float, cap: int, least: float
) -> None:
    runs, right = 25, 0
    for seed in range(runs):
        matrix = observed(times, cap, sigma=sigma, drift=0.02, seed=seed)
        candidates = list(range(len(times)))
        for blocks in (DOMINATED_BLOCKS, *looks(cap)):  # between them a race decides nothing
            decision = race(
                matrix[:blocks], candidates, NO_COST, initial=len(times), cap=cap, rules=RULES
            )
            candidates = [each for each in candidates if each not in decision.dropped]
            if decision.finished:
                break
        chosen = incumbent(matrix[:blocks], candidates)
        right += times[chosen] <= min(times) * 1.03
    assert right / runs >= least
