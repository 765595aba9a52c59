import math

import pytest

from tuner.decide.rules import Rules
from tuner.decide.statistics import Interval
from tuner.decide.verdict import Comparison, compare

RULES = Rules(epsilon=0.03, confidence=0.95)


def comparison(
    estimate: float, reach: float, *, cheaper: bool = False, others_excluded: bool = True
) -> Comparison:
    log_speedup = Interval(math.log(estimate), math.log(estimate) - reach,
                           math.log(estimate) + reach)  # fmt: skip
    return compare(log_speedup, RULES, rival_cheaper=cheaper, others_excluded=others_excluded)


@pytest.mark.parametrize(
    ("estimate", "reach", "kind"),
    [
        (1.5, 0.1, "better"),
        (1.05, 0.1, "undecided"),
        (1.02, 0.001, "keep-baseline"),
        (1.025, 0.02, "undecided"),
        (1.0, 0.02, "keep-baseline"),
        (0.7, 0.1, "keep-baseline"),
        (0.99, 0.2, "undecided"),
    ],
)
def test_the_kind_of_verdict(estimate: float, reach: float, kind: str) -> None:
    assert comparison(estimate, reach).kind == kind


def test_equal_is_a_tie_only_if_the_rival_is_cheaper() -> None:
    assert comparison(1.0, 0.02, cheaper=True).kind == "tie"
    assert comparison(0.7, 0.02, cheaper=True).kind == "keep-baseline"


def test_keep_and_tie_need_evidence_about_every_rival() -> None:
    assert comparison(1.0, 0.02, others_excluded=False).kind == "undecided"
    assert comparison(1.0, 0.02, cheaper=True, others_excluded=False).kind == "undecided"
    assert comparison(1.5, 0.02, others_excluded=False).kind == "better"


def test_a_cheaper_rival_that_is_near_may_still_tie() -> None:
    assert comparison(0.99, 0.03, cheaper=True).may_tie
    assert not comparison(0.99, 0.03).may_tie
    assert not comparison(0.9, 0.03, cheaper=True).may_tie


def test_without_an_interval_nothing_is_known() -> None:
    found = compare(None, RULES, rival_cheaper=True, others_excluded=True)
    assert (found.speedup, found.kind, found.is_narrow) == (None, "undecided", False)


def test_narrow_is_known_well_enough() -> None:
    assert comparison(1.5, 0.03).is_narrow
    assert not comparison(3.0, 0.1).is_narrow
