"""Whole studies on the fake launcher: what they answer, what they leave, and limits."""

import itertools
from pathlib import Path

import optuna
import pytest

from tests.fakes import UDF, FakeLauncher, threads_of
from tests.plan.specs import threads
from tests.searching.tuning import Listening, Tune, row_of, scaling, study
from tuner.errors import UsageError
from tuner.plan.config import Config
from tuner.searching.progress_reports import Compared


def more_with_threads(config: Config) -> float:
    """The CPUs that a configuration keeps busy."""
    return 1.0 + 0.2 * threads_of(config)


def test_finds_the_fastest_and_says_by_how_much(tune: Tune) -> None:
    launcher = FakeLauncher(step_ms=scaling, sigma=0.05)
    result = tune(launcher, baseline={"num_worker_threads": 1})
    assert result.verdict == "better"
    assert result.best is not None
    assert threads_of(result.best) >= 4
    assert result.speedup is not None
    assert result.speedup.low < 4.0 < result.speedup.high
    assert result.speedup.low > 3.0


def test_equal_configs_recommend_a_cheaper_one_whatever_the_luck(tune: Tune) -> None:
    # Noise below epsilon: whichever is the argmin, it takes less CPU than the baseline does.
    for seed in range(3):
        result = tune(
            FakeLauncher(sigma=0.005, seed=seed, cpu_cores=more_with_threads),
            space={"num_worker_threads": [2, 4, 8]},
            overwrite=True,
        )
        assert result.verdict == "tie"
        assert result.best is not None
        assert threads_of(result.best) < 16


def test_the_interval_is_that_of_the_looks_that_were_taken(tune: Tune, tmp_path: Path) -> None:
    launcher = FakeLauncher(step_ms=scaling, sigma=0.02)
    result = tune(launcher, baseline={"num_worker_threads": 1}, budget="60s",
                  space={"num_worker_threads": [4]})  # fmt: skip
    looks = study(tmp_path).user_attrs["looks"]
    assert [rows for rows, *_ in looks] == sorted({rows for rows, *_ in looks})
    # One budget spends four fifths of alpha at most.
    assert sum(alpha for _, alpha, *_ in looks) <= 0.04 * (1 + 1e-9)
    assert result.blocks == looks[-1][0]
    assert result.speedup is not None
    assert result.speedup.low < 4 < result.speedup.high


@pytest.mark.parametrize("max_blocks", [1, 3])
def test_no_pair_at_all_is_undecided(tune: Tune, max_blocks: int) -> None:
    result = tune(FakeLauncher(sigma=0.1), max_blocks=max_blocks)
    assert result.verdict == "undecided"
    assert result.best == result.baseline


@pytest.mark.parametrize("objective", ["step_ms", "step_p99_ms", "cpu_ms_per_step"])
def test_every_objective_has_its_own_best(tune: Tune, objective: str) -> None:
    # More threads are faster and cost more CPU.
    launcher = FakeLauncher(
        step_ms=scaling, cpu_cores=lambda config: threads_of(config) ** 2 / 4, sigma=0.01
    )
    result = tune(launcher, objective=objective, space={"num_worker_threads": [1, 2, 4]})
    assert result.best is not None
    assert threads_of(result.best) == (1 if objective == "cpu_ms_per_step" else 4)
    assert result.objective.name == objective


def test_the_study_is_an_optuna_study(tune: Tune, tmp_path: Path) -> None:
    result = tune(FakeLauncher(step_ms=scaling, sigma=0.05), baseline={"num_worker_threads": 1})
    found = study(tmp_path)
    assert found.user_attrs["environment"]["torch"] == result.environment.torch
    assert found.user_attrs["plan"]["workload"]["options"] == UDF.options
    assert found.trials[0].params == {"num_worker_threads": 1}
    assert found.trials[0].user_attrs["config"] == {"*": {"num_worker_threads": 1}}
    assert len(found.trials[0].intermediate_values) == result.blocks
    assert [t.state.name for t in found.trials].count("RUNNING") == 0
    states = {t.user_attrs["label"]: t.state.name for t in found.trials}
    assert states[str(result.best)] == "COMPLETE"
    assert found.best_trial.user_attrs["label"] == str(result.best)
    best = found.best_trial.number
    assert found.user_attrs["answer"] == f"trial {best}: {result.best}"


def test_an_eliminated_trial_has_the_value_that_compares(tune: Tune, tmp_path: Path) -> None:
    """On a machine that gets slower, what leaves early was measured in fast blocks alone."""
    worlds = itertools.count()
    result = tune(
        FakeLauncher(step_ms=lambda config: scaling(config) * 1.01 ** next(worlds), sigma=0.02),
        baseline={"num_worker_threads": 1},
    )
    trials = study(tmp_path).trials
    assert any(trial.state.name == "PRUNED" for trial in trials)
    rows = {row.label: row for row in result.rows}
    baseline_ms = result.by_trial[0].value
    for trial in trials:
        paired = rows[trial.user_attrs["label"]].against_baseline
        assert paired is not None
        assert trial.value == pytest.approx(baseline_ms / paired.ratio.estimate)


def test_an_answer_that_no_longer_holds_is_removed(tune: Tune, tmp_path: Path) -> None:
    tune(FakeLauncher())
    tune(FakeLauncher(fails=lambda config, world: "crashed"), overwrite=True)
    assert not (tmp_path / "study" / "recommended.json").exists()


def test_two_studies_of_one_storage_do_not_share_a_folder(tune: Tune, tmp_path: Path) -> None:
    storage = f"sqlite:///{tmp_path}/shared.db?timeout=20"
    tune(FakeLauncher(), name="one", storage=storage)
    with pytest.raises(UsageError, match="holds the study one"):
        tune(FakeLauncher(), name="two", storage=storage)
    tune(FakeLauncher(), name="two", storage=storage, out=str(tmp_path / "two"))
    again = FakeLauncher()
    tune(again, name="one", storage=storage, resume=True)
    assert again.orders == []


def cpus(config: Config) -> float:
    """The CPUs that a configuration keeps busy: one per thread."""
    return float(threads_of(config))


def test_what_breaks_a_limit_is_never_recommended(tune: Tune, tmp_path: Path) -> None:
    launcher = FakeLauncher(step_ms=lambda config: 16.0 / threads_of(config), cpu_cores=cpus)
    result = tune(launcher, baseline={"num_worker_threads": 1}, require="cpu_cores<=5")
    assert (str(result.best), result.verdict) == ("num_worker_threads=4", "better")
    broken = row_of(result, threads(8))
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
    slow = row_of(result, threads(4))
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


def compared(heard: Listening) -> list[Compared]:
    """What the race has reported of the strongest rival, each once."""
    return [*dict.fromkeys(each.compared for each in heard.snapshots if each.compared is not None)]


def test_it_ends_as_soon_as_the_answer_is_clear(tune: Tune) -> None:
    heard = Listening()
    result = tune(FakeLauncher(step_ms=scaling, sigma=0.03), baseline={"num_worker_threads": 1},
                  space={"num_worker_threads": [2, 4]}, budget="auto", observer=heard)  # fmt: skip
    assert result.verdict == "better"
    assert result.elapsed_s < 120
    assert not any("would not make" in event for event in heard.told)
    widths = [each.speedup.high / each.speedup.low for each in compared(heard)]
    assert len(widths) >= 2
    assert widths == sorted(widths, reverse=True)
    assert compared(heard)[-1].more_s is None
    assert compared(heard)[-1].speedup == result.challenger_speedup


def test_it_ends_where_the_limit_would_not_be_enough(tune: Tune) -> None:
    heard = Listening()
    noisy = FakeLauncher(
        step_ms=lambda config: 2.0 if threads_of(config) == 16 else 1.97, sigma=0.5
    )
    asked = {"space": {"num_worker_threads": [2]}, "observer": heard}
    result = tune(noisy, budget="auto:60s", **asked)
    assert result.verdict == "undecided"
    assert result.elapsed_s < 45
    (said,) = [event for event in heard.told if "would not make the answer clear" in event]
    assert "even with luck" in said
    assert result.more_s is not None
    assert result.more_s > 60 - result.elapsed_s
    # Who wants all of it to be spent says so.
    more = tune(noisy, budget="60s", resume=True, **asked)
    assert more.elapsed_s > 50
