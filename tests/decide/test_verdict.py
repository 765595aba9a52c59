import math

import numpy as np
import pytest
from scipy import stats

from tests.decide.observed import observed
from tuner.decide.statistics import Interval
from tuner.decide.verdict import (
    Comparison,
    Rules,
    Standing,
    compare,
    fails_more,
    pareto_front,
    standing_of,
)  # fmt: skip

RULES = Rules(epsilon=0.03, confidence=0.95)


def comparison(
    estimate: float, reach: float, *, cheaper: bool = False, others_excluded: bool = True
) -> Comparison:
    log = math.log(estimate)
    known = Interval(log, log - reach, log + reach)
    return compare(known, RULES, rival_cheaper=cheaper, others_excluded=others_excluded)


CHEAPER, NOT_ALL = {"cheaper": True}, {"others_excluded": False}


@pytest.mark.parametrize(
    ("estimate", "reach", "how", "kind"),
    [
        (1.5, 0.1, {}, "better"),
        (1.05, 0.1, {}, "undecided"),
        (1.02, 0.001, {}, "keep-baseline"),
        (1.025, 0.02, {}, "undecided"),
        (1.0, 0.02, {}, "keep-baseline"),
        (0.7, 0.1, {}, "keep-baseline"),
        (0.99, 0.2, {}, "undecided"),
        # Equal is a tie only if the rival is cheaper.
        (1.0, 0.02, CHEAPER, "tie"),
        (0.7, 0.02, CHEAPER, "keep-baseline"),
        # Keep and tie need evidence about every rival.
        (1.0, 0.02, NOT_ALL, "undecided"),
        (1.0, 0.02, CHEAPER | NOT_ALL, "undecided"),
        (1.5, 0.02, NOT_ALL, "better"),
    ],
)
def test_the_kind_of_verdict(
    estimate: float, reach: float, how: dict[str, bool], kind: str
) -> None:
    assert comparison(estimate, reach, **how).kind == kind


def test_a_cheaper_rival_that_is_near_may_still_tie_and_narrow_is_known_well_enough() -> None:
    assert comparison(0.99, 0.03, cheaper=True).may_tie
    assert not comparison(0.99, 0.03).may_tie
    assert not comparison(0.9, 0.03, cheaper=True).may_tie
    assert comparison(1.5, 0.15).is_narrow
    assert not comparison(1.5, 0.25).is_narrow
    assert comparison(10.0, 0.25).is_narrow
    assert not comparison(10.0, 0.3).is_narrow
    assert comparison(1.05, 0.035).is_narrow
    found = compare(None, RULES, rival_cheaper=True, others_excluded=True)
    assert (found.speedup, found.kind, found.is_narrow) == (None, "undecided", False)


@pytest.mark.parametrize(
    ("speedup", "of_better", "of_tie", "of_kept"),
    [
        ((1.50, 1.40, 1.60), "holds", "holds", "no-longer-holds"),
        ((1.04, 1.001, 1.08), "holds", "holds", "no-longer-holds"),
        ((1.02, 1.005, 1.06), "undecided", "holds", "undecided"),
        ((1.04, 0.99, 1.09), "undecided", "holds", "undecided"),
        ((1.01, 1.0, 1.02), "no-longer-holds", "holds", "holds"),
        ((1.00, 0.98, 1.02), "no-longer-holds", "holds", "holds"),
        ((0.96, 0.93, 0.99), "no-longer-holds", "undecided", "holds"),
        ((0.90, 0.85, 0.95), "no-longer-holds", "no-longer-holds", "holds"),
        ((1.00, 0.50, 2.00), "undecided", "undecided", "undecided"),
        ((1.00, 0.0, math.inf), "undecided", "undecided", "undecided"),
    ],
)
def test_what_an_interval_shows(
    speedup: tuple[float, float, float], of_better: Standing, of_tie: Standing, of_kept: Standing
) -> None:
    today = Interval(*speedup)
    assert standing_of("better", today, keeps_baseline=False, rules=RULES) == of_better
    for verdict in ("tie", None):
        assert standing_of(verdict, today, keeps_baseline=False, rules=RULES) == of_tie
    assert standing_of("keep-baseline", today, keeps_baseline=True, rules=RULES) == of_kept
    for keeps in (False, True):
        assert standing_of("better", None, keeps_baseline=keeps, rules=RULES) == "undecided"


def front(
    first: list[float], second: list[float], blocks: int = 12, sigma: float = 0.02, seed: int = 1
) -> list[int]:
    one = observed(first, blocks, sigma, 0.3, seed)
    other = observed(second, blocks, sigma, 0.3, seed + 1)
    return pareto_front(one, other, range(len(first)), RULES)


def test_what_another_one_beats_in_both_is_off_the_front() -> None:
    assert front([1.0, 1.5, 2.0, 2.2], [4.0, 2.0, 1.0, 2.5]) == [0, 1, 2]
    assert front([1.0, 2.0], [1.0, 1.0], sigma=0.01) == [0]
    # Equal ones stay together, and noise takes nothing off.
    assert front([1.0, 1.0, 1.0], [2.0, 2.0, 2.0]) == [0, 1, 2]
    assert front([1.0, 1.1], [1.0, 1.1], sigma=0.5) == [0, 1]
    assert front([1.0, 2.0], [1.0, 2.0], blocks=3) == [0, 1]
    # Some are always in front.
    for seed in range(10):
        random = np.random.default_rng(seed)
        first, second = random.normal(size=(6, 8)), random.normal(size=(6, 8))
        assert pareto_front(first, second, range(8), RULES)


def test_a_wrong_exclusion_is_rare() -> None:
    wrong = sum(
        front([1.0, 1.02, 1.04, 1.06], [1.06, 1.04, 1.02, 1.0], sigma=0.1, seed=2 * seed)
        != [0, 1, 2, 3]
        for seed in range(100)
    )
    assert wrong <= 10


@pytest.mark.parametrize("failed", [1, 2, 5, 12])
@pytest.mark.parametrize("others_failed", [0, 3, 40])
def test_the_chance_is_that_of_fishers_exact_test(failed: int, others_failed: int) -> None:
    table = np.array([[failed, 12 - failed], [others_failed, 60 - others_failed]])
    chance = float(stats.fisher_exact(table, alternative="greater").pvalue)
    needed = chance * failed * (failed + 1)
    assert fails_more(failed, 12, others_failed, 60, needed * 1.001)
    assert not fails_more(failed, 12, others_failed, 60, needed * 0.999)
