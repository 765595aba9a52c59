import numpy as np
import pytest

from tuner.decide.rules import Rules
from tuner.decide.statistics import FloatArray, interval
from tuner.decide.verdict import Comparison, compare

RULES = Rules(epsilon=0.03, confidence=0.95)


def pairs(speedup: float, count: int, spread: float = 0.01) -> tuple[FloatArray, FloatArray]:
    """log times of baseline and challenger; alternating noise, so nothing is autocorrelated."""
    noise = np.array([spread if index % 2 else -spread for index in range(count)])
    return np.log(speedup) + noise, np.zeros(count)


def comparison(
    speedup: float, spread: float = 0.01, *, cheaper: bool = False, count: int = 20
) -> Comparison:
    baseline, challenger = pairs(speedup, count, spread)
    return compare(baseline, challenger, alpha=RULES.alpha, rules=RULES, challenger_cheaper=cheaper)


def kind(speedup: float, spread: float = 0.01, *, cheaper: bool = False) -> str:
    return comparison(speedup, spread, cheaper=cheaper).kind


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
    found = comparison(2.0, count=1)
    assert (found.speedup, found.kind, found.pairs) == (None, "undecided", 1)


def test_the_interval_has_the_level_of_the_look() -> None:
    baseline, challenger = pairs(1.2, 20)
    found = compare(baseline, challenger, alpha=0.01, rules=RULES, challenger_cheaper=False)
    assert found.log_speedup == interval(baseline - challenger, 0.99)


@pytest.mark.parametrize(
    ("speedup", "spread", "clear"),
    [
        (1.5, 0.01, True),
        (1.02, 0.05, False),  # no verdict
        (3.0, 0.3, False),  # a verdict, but the speed-up is not known well
    ],
)
def test_clear_is_a_verdict_with_a_narrow_interval(
    speedup: float, spread: float, clear: bool
) -> None:
    assert comparison(speedup, spread, count=10).is_clear == clear


def test_equal_configs_are_rarely_called_better() -> None:
    random = np.random.default_rng(11)
    runs, wrong = 600, 0
    for _ in range(runs):
        baseline, challenger = random.normal(0, 0.12, size=(2, 40))
        for count, alpha in ((10, 0.05 / 16), (20, 0.05 * 3 / 16), (40, 0.05 * 12 / 16)):
            found = compare(
                baseline[:count],
                challenger[:count],
                alpha=alpha,
                rules=RULES,
                challenger_cheaper=True,
            )
            if found.is_clear:
                break
        wrong += found.kind == "better"
    assert wrong / runs <= 0.025 + 0.015  # one side of alpha, and what 600 runs can tell
