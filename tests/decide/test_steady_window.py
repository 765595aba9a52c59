import numpy as np
import pytest

from testing.known import known
from tuner.decide.statistics import FloatArray
from tuner.decide.steady_window import LEAST_S, MOST_END, changes, steady_window

STEP_S = 0.2


def counted(*rates: float, seed: int | None = None, sigma: float = 0.1) -> FloatArray:
    """The calls of a run by step, at these rates; with a seed and noise."""
    logs = np.random.default_rng(seed).normal(0, 0.0 if seed is None else sigma, len(rates))
    made = np.concatenate([[0.0], np.cumsum(np.array(rates) * STEP_S * np.exp(logs))])
    return np.column_stack([np.arange(len(made)) * STEP_S, made])


def test_steady_calls_need_a_short_window() -> None:
    window = known(steady_window(counted(*[500.0] * 50), fixed_s=2.0))
    assert window.start_s < 0.5
    assert window.end_s - window.start_s == pytest.approx(LEAST_S, abs=STEP_S)
    assert changes([counted(*[500.0] * 50)], window) is None


def test_what_comes_before_calls_settle_is_left_out() -> None:
    window = known(steady_window(counted(*[50.0] * 4, *[500.0] * 46, seed=1), fixed_s=2.0))
    assert 4 * STEP_S <= window.start_s < 8 * STEP_S


def test_bursts_make_a_window_longer() -> None:
    bursts = counted(*([900.0] * 5 + [100.0] * 5) * 15, seed=2)
    window = known(steady_window(bursts, fixed_s=2.0))
    assert window.end_s - window.start_s > 10 * STEP_S * 0.9
    assert window.end_s <= MOST_END * bursts[-1, 0] + STEP_S


@pytest.mark.parametrize("rates", [(500.0,) * 8, (0.0,) * 50, (0.0,) * 40 + (500.0,), ()])
def test_a_run_that_is_too_short_or_too_irregular_has_none(rates: tuple[float, ...]) -> None:
    assert steady_window(counted(*rates), fixed_s=2.0) is None


def test_a_phase_that_all_runs_have_is_told() -> None:
    runs = [counted(*[500.0] * 35, *[280.0] * 65, seed=seed, sigma=0.02) for seed in (1, 2)]
    window = known(steady_window(runs[-1], fixed_s=2.0))
    inside, later = known(changes(runs, window))
    assert inside / later == pytest.approx(1.7, rel=0.15)


def test_what_differs_in_one_of_two_runs_is_no_phase() -> None:
    slower_later = counted(*[500.0] * 20, *[250.0] * 80)
    window = known(steady_window(counted(*[500.0] * 50), fixed_s=2.0))
    assert changes([slower_later, counted(*[500.0] * 50)], window) is None
    assert changes([slower_later], window) is not None
