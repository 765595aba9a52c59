"""Planted limits: each alone, two at once, none; and that noise names none that does not hold."""

import numpy as np

from tuner.trace.analyze.critical_path import SURE, Share
from tuner.trace.analyze.path_limits import COMPARABLE, LARGE, MOST_LIMITS, Limit, limits_of
from tuner.trace.analyze.path_limits import said as told


def test_only_what_is_known_is_said() -> None:
    sure = drawn_share("queue", 0.5, 0.3, 0.7)
    beside = drawn_share("caller", 0.21, 0.0, 0.52)
    assert "21 %" not in told("a", 100, [sure, beside], limits_of([sure, beside]))
    known, unknown = drawn_share("queue", 0.19, 0.15, 0.23), drawn_share("caller", 0.18, 0.0, 0.9)
    assert told("a", 100, [known, unknown], []) == (
        "No clear limit of a. For 19 % (15-23 %) of the time it waited while calls of f queued for "
        "a thread of b."
    )


def drawn_share(kind: str, middle: float, low: float, high: float) -> Limit:
    return Limit(kind=kind, processes=("b",), functions=("f",), share=Share(middle, low, high))


def test_a_limit_is_a_large_share_whose_interval_holds() -> None:
    def share(middle: float, reach: float) -> Limit:
        return drawn_share("served", middle, middle - reach, middle + reach)

    sure, unsure = share(LARGE + 0.01, LARGE - SURE), share(LARGE + 0.01, LARGE - SURE + 0.02)
    assert limits_of([sure]) == [sure]
    assert limits_of([unsure]) == []
    assert limits_of([share(LARGE - 0.01, 0.0)]) == []
    assert limits_of([sure, unsure, share(0.1, 0.01)]) == [sure]
    largest = share(0.7, 0.01)
    assert limits_of([largest, share(0.7 * COMPARABLE - 0.01, 0.01)]) == [largest]
    assert len(limits_of([largest, share(0.7 * COMPARABLE + 0.01, 0.01)])) == 2
    assert limits_of([sure] * MOST_LIMITS) == [sure] * MOST_LIMITS
    assert limits_of([sure] * (MOST_LIMITS + 1)) == []
    assert limits_of([drawn_share("caller", 0.9, np.nan, np.nan)]) == []
    assert limits_of([]) == []
