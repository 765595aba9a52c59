import numpy as np
import pytest

from tuner.decide.race import Rules
from tuner.decide.statistics import FloatArray
from tuner.decide.verdict import (
    Comparison,
    compare,
    confirmation_looks,
    look_confidence,
    may_stop,
)

RULES = Rules(epsilon=0.03, confidence=0.95)


def pairs(speedup: float, count: int, spread: float = 0.01) -> tuple[FloatArray, FloatArray]:
    """log times of baseline and challenger; alternating noise, so nothing is autocorrelated."""
    noise = np.array([spread if index % 2 else -spread for index in range(count)])
    return np.log(speedup) + noise, np.zeros(count)


def kind(speedup: float, spread: float = 0.01, *, cheaper: bool = False, count: int = 20) -> str:
    baseline, challenger = pairs(speedup, count, spread)
    return compare(
        baseline, challenger, cap=count, over=True, rules=RULES, challenger_cheaper=cheaper
    ).kind


def test_clearly_faster_is_better() -> None:
    assert kind(1.5) == "better"


def test_clearly_slower_keeps_the_baseline() -> None:
    assert kind(0.7) == "keep-baseline"
    assert kind(0.7, cheaper=True) == "keep-baseline"


def test_equal_is_a_tie_only_if_the_challenger_is_cheaper() -> None:
    assert kind(1.0, cheaper=True) == "tie"
    assert kind(1.0, cheaper=False) == "keep-baseline"


def test_a_gain_below_epsilon_is_never_called_better() -> None:
    assert kind(1.02, spread=0.001) == "keep-baseline"
    assert kind(1.025, spread=0.02) == "undecided"


def test_a_wide_interval_is_undecided() -> None:
    assert kind(1.05, spread=0.3) == "undecided"
    assert kind(0.99, spread=0.3) == "undecided"


def test_one_pair_is_no_comparison() -> None:
    baseline, challenger = pairs(2.0, 1)
    found = compare(baseline, challenger, cap=1, over=True, rules=RULES, challenger_cheaper=False)
    assert (found.speedup, found.kind, found.pairs) == (None, "undecided", 1)


def test_looks_share_alpha() -> None:
    assert confirmation_looks(40) == [10, 20, 40]
    spent = [1 - look_confidence(look, 40, RULES, over=False) for look in (10, 20, 40)]
    assert sum(spent) == pytest.approx(RULES.alpha)
    assert spent == sorted(spent)


def test_a_budget_that_ends_early_spends_what_is_left() -> None:
    first = 1 - look_confidence(10, 40, RULES, over=False)
    rest = 1 - look_confidence(17, 40, RULES, over=True)
    assert first + rest == pytest.approx(RULES.alpha)


def test_stops_early_only_at_a_look_that_is_clear_and_narrow() -> None:
    def after(count: int, speedup: float, spread: float) -> Comparison:
        baseline, challenger = pairs(speedup, count, spread)
        return compare(
            baseline, challenger, cap=40, over=False, rules=RULES, challenger_cheaper=False
        )

    assert may_stop(after(10, 1.5, 0.01), 40)
    assert not may_stop(after(11, 1.5, 0.01), 40)  # no look
    assert not may_stop(after(10, 1.02, 0.05), 40)  # not clear
    assert not may_stop(after(10, 3.0, 0.3), 40)  # clear, but not known well
    assert may_stop(after(40, 1.02, 0.05), 40)  # the cap


def test_equal_configs_are_rarely_called_better() -> None:
    random = np.random.default_rng(11)
    runs, wrong = 600, 0
    for _ in range(runs):
        baseline, challenger = random.normal(0, 0.12, size=(2, 40))
        for count in confirmation_looks(40):
            found = compare(
                baseline[:count],
                challenger[:count],
                cap=40,
                over=False,
                rules=RULES,
                challenger_cheaper=True,
            )
            if may_stop(found, 40):
                break
        wrong += found.kind == "better"
    assert wrong / runs <= 0.025 + 0.015  # one side of alpha, and what 600 runs can tell
