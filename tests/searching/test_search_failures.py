"""Whole studies on the fake launcher: configurations that fail, the baseline among them."""

import random
from pathlib import Path
from typing import Any

import optuna
import pytest

import tuner
from tests.fakes import FakeLauncher, threads_of
from tests.plan.specs import threads
from tests.searching.tuning import Listening, Tune, failing, row_of, scaling, study
from tuner.api import SearchInterrupted
from tuner.plan.config import Config
from tuner.present.wording import failing_sentences, verdict_sentence


def test_configs_that_fail_are_out_with_their_reason(tune: Tune, tmp_path: Path) -> None:
    launcher = FakeLauncher(
        step_ms=scaling,
        fails=lambda config, world: "deadlocked" if threads_of(config) == 1 else None,
    )
    result = tune(launcher)
    failed = result.rows[-1]
    assert (failed.label, failed.outcome) == ("num_worker_threads=1", "deadlocked")
    assert failed.failure == "worker1 failed first"
    assert failed.samples == 0
    assert sum(threads_of(o.config) == 1 for o in launcher.orders) == 1
    trial = study(tmp_path).trials[1]
    assert trial.state == optuna.trial.TrialState.FAIL
    assert trial.user_attrs["failure"] == "deadlocked"
    assert trial.user_attrs["failure_reason"] == "worker1 failed first"


def test_what_has_run_is_measured_again_after_a_failure(tune: Tune, tmp_path: Path) -> None:
    launcher = FakeLauncher(
        step_ms=scaling,
        fails=lambda config, world: "crashed" if threads_of(config) == 8 and world == 3 else None,
    )
    result = tune(launcher, baseline={"num_worker_threads": 1})
    row = row_of(result, threads(8))
    assert (row.failure, row.worlds_failed, row.worlds_run) == (None, 1, row.samples + 2)
    # The block has a world of it all the same.
    assert row.samples == result.blocks
    assert study(tmp_path).trials[3].user_attrs["worlds_failed"] == 1


def test_each_failed_world_has_a_folder_of_its_own(tune: Tune) -> None:
    dice = random.Random(7)
    launcher = FakeLauncher(
        sigma=0.02, fails=lambda config, world: "crashed" if dice.random() < 0.3 else None
    )
    tune(launcher, space={"num_worker_threads": [4]}, max_blocks=6)
    folders = [order.failure_folder for order in launcher.orders]
    assert len(folders) > 6 * 3 + 2
    assert len({*folders}) == len(folders)


def test_a_config_that_fails_more_often_gives_way_to_the_next(tune: Tune, tmp_path: Path) -> None:
    def fails(config: Config, world: int) -> Any:
        return "crashed" if threads_of(config) == 8 and world >= 3 and world % 4 else None

    times = {1: 8.0, 2: 6.0, 4: 3.0, 8: 2.0, 16: 5.0}
    launcher = FakeLauncher(
        step_ms=lambda config: times[threads_of(config)], sigma=0.02, fails=fails
    )
    heard = Listening()
    result = tune(launcher, budget="60s", observer=heard)
    assert str(result.best) == "num_worker_threads=4"
    assert result.verdict == "better"
    row = row_of(result, threads(8))
    assert (row.outcome, row.unreliable, row.samples > 0) == ("crashed", True, True)
    rate = f"num_worker_threads=8 failed in {row.worlds_failed} of {row.worlds_run} worlds"
    assert failing_sentences(result)[0].startswith(f"{rate}, which is more often than the others (")
    assert any("more often than the others" in each for each in heard.told)
    assert study(tmp_path).trials[4].state == optuna.trial.TrialState.FAIL
    assert tuner.load_study(tmp_path / "study").rows == result.rows


@pytest.mark.parametrize("first", [0, 3])
def test_one_wrong_answer_bars_a_configuration(tune: Tune, tmp_path: Path, first: int) -> None:
    launcher = FakeLauncher(
        step_ms=scaling,
        sigma=0.02,
        fails=lambda config, world: (
            "wrong-answer" if threads_of(config) == 8 and world == first else None
        ),
    )
    result = tune(
        launcher, space={"num_worker_threads": [1, 8]}, baseline={"num_worker_threads": 1}
    )
    assert str(result.best) == "num_worker_threads=1"
    row = row_of(result, threads(8))
    assert (row.outcome, row.worlds_failed, row.worlds_run) == ("wrong-answer", 1, first + 1)
    assert not row.is_measured
    assert sum(threads_of(order.config) == 8 for order in launcher.orders) == first + 1
    assert failing_sentences(result) == []
    assert study(tmp_path).trials[1].state == optuna.trial.TrialState.FAIL
    assert tuner.load_study(tmp_path / "study").rows == result.rows


def test_wrong_answers_of_the_baseline_too_are_not_for_the_options(tune: Tune) -> None:
    launcher = FakeLauncher(
        step_ms=scaling,
        sigma=0.02,
        fails=lambda config, world: (
            "wrong-answer" if threads_of(config) in (1, 8) and world == 3 else None
        ),
    )
    result = tune(launcher, baseline={"num_worker_threads": 1})
    assert result.verdict == "better"
    assert not any(row.failure for row in result.rows)
    (told,) = failing_sentences(result)
    assert "whatever its options: wrong-answer: " in told


def test_a_baseline_that_fails_more_often_is_not_kept_and_never_said_not_to_run(tune: Tune) -> None:
    launcher = FakeLauncher(
        sigma=0.02,
        fails=lambda config, world: "crashed" if threads_of(config) == 16 and world % 2 else None,
    )
    result = tune(launcher, space={"num_worker_threads": [4, 8]}, budget="60s")
    baseline = result.by_trial[0]
    assert result.verdict == "better"
    assert (baseline.failure, baseline.unreliable) == (None, True)
    said = verdict_sentence(result)
    rate = f"{baseline.worlds_failed} of {baseline.worlds_run}"
    assert f"num_worker_threads=16 failed in {rate} worlds, which is more often than" in said
    assert "cannot run" not in said
    assert result.challenger_speedup is not None


def test_what_hits_several_configurations_is_not_for_their_options(tune: Tune) -> None:
    dice = random.Random(4)
    launcher = FakeLauncher(
        step_ms=scaling,
        sigma=0.02,
        fails=lambda config, world: "crashed" if dice.random() < 0.2 else None,
    )
    result = tune(launcher, budget="60s")
    failed = sum(row.worlds_failed for row in result.rows)
    worlds = sum(row.worlds_run for row in result.rows)
    assert not any(row.unreliable or row.failure for row in result.rows)
    assert failing_sentences(result) == [
        f"The workload fails in {failed} of {worlds} worlds, whatever its options: crashed: "
        "worker1 failed first."
    ]


def test_without_a_baseline_the_only_config_left_is_measured(tune: Tune, tmp_path: Path) -> None:
    launcher = FakeLauncher(fails=failing("crashed", 16))
    result = tune(launcher, space={"num_worker_threads": [2]})
    assert str(result.best) == "num_worker_threads=2"
    assert result.rows[0].samples >= 4
    assert result.epsilon_achieved is None
    assert study(tmp_path).trials[1].state == optuna.trial.TrialState.COMPLETE
    result = tune(launcher, space={"num_worker_threads": [2]}, max_blocks=2, overwrite=True)
    assert (result.verdict, result.blocks) == ("undecided", 2)


@pytest.mark.parametrize(("failing_s", "samples"), [(29.8, 0), (27.0, 1)])
def test_without_a_baseline_better_takes_four_worlds(
    tune: Tune, tmp_path: Path, failing_s: float, samples: int
) -> None:
    launcher = FakeLauncher(fails=failing("crashed", 16), failing_s=lambda config: failing_s)
    result = tune(launcher)
    assert result.baseline_failed
    assert result.verdict == "undecided"
    assert max(row.samples for row in result.rows) == samples
    recommended = tmp_path / "study" / "recommended.json"
    if samples:
        assert result.best is not None
        assert row_of(result, result.best).samples == samples
        assert recommended.exists()
    else:
        assert result.best is None
        assert not recommended.exists()


@pytest.mark.parametrize("interrupted", [False, True])
def test_a_rival_that_never_ran_is_not_confirmed(tune: Tune, interrupted: bool) -> None:
    # Three hang, and leave no time to calibrate the fourth, but time for another world.
    def launcher(**changes: Any) -> FakeLauncher:
        return FakeLauncher(
            fails=failing("timed-out", 1, 2, 4), failing_s=lambda config: 10.0, **changes
        )

    if interrupted:
        with pytest.raises(SearchInterrupted):
            tune(launcher(interrupt_after=3), budget="31s")
    result = tune(launcher(), budget="31s", resume=interrupted)
    assert result.verdict == "undecided"
    assert result.best == result.baseline
    assert result.challenger is None
    rival = next(row for row in result.rows if row.label == "num_worker_threads=8")
    assert (rival.outcome, rival.samples) == ("not-measured", 0)


def test_what_was_never_measured_in_a_block_is_called_so_everywhere(
    tune: Tune, tmp_path: Path
) -> None:
    # Both are slow: the budget goes to their first worlds, and leaves none for a pair.
    launcher = FakeLauncher(step_ms=lambda config: 2.0 if threads_of(config) == 16 else 3000.0)
    result = tune(launcher, space={"num_worker_threads": [1]}, budget="6s")
    outcomes = {row.trial: row.outcome for row in result.rows}
    assert outcomes == {0: "not-measured", 1: "not-measured"}
    trials = study(tmp_path).trials
    assert {trial.number: trial.user_attrs["outcome"] for trial in trials} == outcomes
    assert {trial.state.name for trial in trials} == {"PRUNED"}


def test_only_the_baseline_runs(tune: Tune) -> None:
    result = tune(
        FakeLauncher(fails=lambda config, world: None if threads_of(config) == 16 else "crashed")
    )
    assert result.verdict == "keep-baseline"
    assert result.best == result.baseline


def test_configs_that_hang_do_not_use_up_the_budget_of_the_others(tune: Tune) -> None:
    def overhead(config: Config) -> float:
        return 10.0 if threads_of(config) in (1, 2, 4) else 0.2

    launcher = FakeLauncher(fails=failing("timed-out", 1, 2, 4), failing_s=overhead)
    space = {"num_worker_threads": [1, 2, 4, 8, 32]}
    result = tune(launcher, space=space, budget="45s", deadline="60s")
    outcomes = {row.label: (row.outcome, row.samples > 0) for row in result.rows}
    assert outcomes["num_worker_threads=4"] == ("timed-out", False)
    assert outcomes["num_worker_threads=32"] in {("completed", True), ("eliminated", True)}
    assert result.challenger is not None

    result = tune(launcher, space=space, budget="25s", overwrite=True)
    outcomes = {row.label: (row.outcome, row.samples > 0) for row in result.rows}
    assert outcomes["num_worker_threads=32"] == ("not-measured", False)
    assert result.verdict == "undecided"


def test_memory_of_a_long_random_study_stays_consistent(tune: Tune) -> None:
    # Whatever fails when, the result has every configuration once, and values only where measured.
    for seed in range(3):
        dice = random.Random(seed)
        launcher = FakeLauncher(
            step_ms=scaling,
            sigma=0.2,
            seed=seed,
            fails=lambda config, world, dice=dice: "crashed" if dice.random() < 0.05 else None,  # type: ignore[misc]
        )
        result = tune(launcher, budget="20s", overwrite=True)
        assert sorted(row.trial for row in result.rows) == [0, 1, 2, 3, 4]
        for row in result.rows:
            ran = row.outcome in ("completed", "eliminated", "not-measured")
            assert (row.failure is None) == ran
            assert (row.samples > 0) == (row.value == row.value)
