import math

import pytest

from tuner.decide.rules import Rules
from tuner.decide.standing import Standing, standing_of
from tuner.decide.statistics import Interval
from tuner.decide.verdict_kind import VerdictKind

RULES = Rules(epsilon=0.03, confidence=0.95)


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


@pytest.mark.parametrize("verdict", ["better", "tie", "keep-baseline", "undecided", None])
def test_without_a_comparison_nothing_is_shown(verdict: VerdictKind | None) -> None:
    assert standing_of(verdict, None, keeps_baseline=False, rules=RULES) == "undecided"
    assert standing_of(verdict, None, keeps_baseline=True, rules=RULES) == "undecided"
