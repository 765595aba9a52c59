"""Whole studies on the fake launcher, with limits on what a configuration may use."""

from pathlib import Path

import optuna
import pytest

from tests.fakes import FakeLauncher, threads_of
from tests.searching.tuning import Tune, row_of, scaling, study
from tuner.errors import UsageError
from tuner.plan.config import Config


def cpus(config: Config) -> float:
    """The CPUs that a configuration keeps busy: one per thread."""
    return float(threads_of(config))


def test_what_breaks_a_limit_is_never_recommended(tune: Tune, tmp_path: Path) -> None:
    launcher = FakeLauncher(step_ms=lambda config: 16.0 / threads_of(config), cpu_cores=cpus)
    result = tune(launcher, baseline={"num_worker_threads": 1}, require="cpu_cores<=5")
    assert (str(result.best), result.verdict) == ("num_worker_threads=4", "better")
    broken = row_of(result, Config.from_json({"*": {"num_worker_threads": 8}}))
    assert broken.outcome == "infeasible"
    assert broken.broken_text == "cpu_cores 8 > 5, by 60 %"
    # The row of the fastest stands below all that keep the limits, and is known not to be tied.
    assert result.rows[-1] == broken
    assert not broken.tied_with_best
    assert broken.to_json()["broken_limits"] == [
        {"limit": "cpu_cores<=5", "value": pytest.approx(8.0), "excess": pytest.approx(3.0)}
    ]
    # It is not measured for longer than it takes to know.
    assert broken.samples == 3
    trial = study(tmp_path).trials[broken.trial]
    assert trial.user_attrs["broken_limits"] == broken.broken_text
    assert trial.state == optuna.trial.TrialState.COMPLETE
    assert trial.constraints == {"cpu_cores<=5": pytest.approx(3.0)}
    assert study(tmp_path).best_trial.number != broken.trial


def test_a_baseline_that_breaks_a_limit_is_not_kept(tune: Tune) -> None:
    launcher = FakeLauncher(
        step_ms=lambda config: 4.0 / threads_of(config) ** 0.5, cpu_cores=cpus, sigma=0.02
    )
    result = tune(launcher, require=["cpu_cores<=10", "step_ms<=1.8"], budget="60s")
    assert str(result.baseline) == "num_worker_threads=16"
    assert (str(result.best), result.verdict) == ("num_worker_threads=8", "better")
    assert result.baseline_broken
    assert result.speedup is not None
    assert result.speedup.estimate == pytest.approx(0.707, rel=0.05)
    slow = row_of(result, Config.from_json({"*": {"num_worker_threads": 4}}))
    assert slow.broken_text.startswith("step_ms ")


def test_a_baseline_alone_in_breaking_no_limit_is_kept(tune: Tune) -> None:
    launcher = FakeLauncher(step_ms=scaling, cpu_cores=cpus)
    result = tune(launcher, baseline={"num_worker_threads": 1}, require=["cpu_cores<=1"])
    assert (str(result.best), result.verdict) == ("num_worker_threads=1", "keep-baseline")


def test_nothing_is_recommended_where_nothing_keeps_the_limits(tune: Tune) -> None:
    result = tune(FakeLauncher(step_ms=scaling, cpu_cores=cpus), require=["peak_rss_mb<=100"])
    assert result.best is None
    assert result.none_feasible
    assert {row.outcome for row in result.rows} == {"infeasible"}


def test_a_study_is_resumed_with_its_own_limits_only(tune: Tune) -> None:
    tune(FakeLauncher(step_ms=scaling), require=["cpu_cores<=5"])
    with pytest.raises(UsageError, match="require: cpu_cores<=5 in the study, "):
        tune(FakeLauncher(step_ms=scaling), require=["cpu_cores<=6"], resume=True)
    again = tune(FakeLauncher(step_ms=scaling), require=["cpu_cores<=5.0"], resume=True)
    assert again.verdict is not None
