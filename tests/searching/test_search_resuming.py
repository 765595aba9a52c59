"""Whole studies on the fake launcher: interrupted, and resumed."""

import sqlite3
from pathlib import Path
from typing import Any

import optuna
import pytest

import tuner
from tests.cheap_studies import cheaply
from tests.fakes import FakeLauncher, threads_of
from tests.searching.tuning import Listening, Tune, keys, scaling, study, tuning_in
from tuner.api import SearchInterrupted
from tuner.errors import UsageError
from tuner.plan.config import Config
from tuner.present.wording import verdict_sentence
from tuner.study.answer import StudyAnswer

pytestmark = pytest.mark.slow

SCALING_UP: dict[str, Any] = {
    "space": {"num_worker_threads": [1, 2, 4]},
    "baseline": {"num_worker_threads": 1},
    "max_blocks": 15,
    "budget": "60s",
}


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> tuple[FakeLauncher, StudyAnswer]:
    """What a search runs that nobody interrupts, and its answer."""
    launcher = FakeLauncher(step_ms=scaling)
    with cheaply():
        return launcher, tuning_in(tmp_path_factory.mktemp("whole"))(launcher, **SCALING_UP)


# In the calibrations, at the first block's start and in it, in the race.
@pytest.mark.parametrize("after", [2, 3, 5, 11])
def test_an_interrupted_study_goes_on_and_measures_nothing_twice(
    tune: Tune, whole: tuple[FakeLauncher, StudyAnswer], tmp_path: Path, after: int
) -> None:
    launcher, expected = whole
    first = FakeLauncher(step_ms=scaling, interrupt_after=after)
    with pytest.raises(SearchInterrupted) as interrupted:
        tune(first, **SCALING_UP)
    assert interrupted.value.result.worlds == after + len(first.traced)
    assert (tmp_path / "study" / "trials.csv").exists()
    second = FakeLauncher(step_ms=scaling)
    resumed = tune(second, resume=True, **SCALING_UP)

    assert keys(first) + keys(second) == keys(launcher)
    assert len(first.traced) + len(second.traced) == len(launcher.traced)
    assert resumed.blocks == expected.blocks
    assert resumed.best == expected.best
    assert [row.samples for row in resumed.rows] == [row.samples for row in expected.rows]


@pytest.mark.usefixtures("on_disk")
def test_a_study_is_resumed_by_its_name_alone(
    whole: tuple[FakeLauncher, StudyAnswer], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    first = FakeLauncher(step_ms=scaling, interrupt_after=8)
    with pytest.raises(SearchInterrupted, match=r"search --resume --study mine$"):
        tuner.tune("udf", launcher=first, clock=first.clock, name="mine", **SCALING_UP)
    second = FakeLauncher(step_ms=scaling)
    resumed = tuner.tune(name="mine", resume=True, launcher=second, clock=second.clock)
    launcher, expected = whole
    assert keys(first) + keys(second) == keys(launcher)
    assert resumed.verdict == expected.verdict
    with pytest.raises(UsageError, match=r"space: .*1, 2, 4.* in the study, .*1, 8.* now"):
        tuner.tune(name="mine", resume=True, space={"num_worker_threads": [1, 8]}, launcher=second)


@pytest.mark.usefixtures("on_disk")
def test_resuming_a_finished_study_measures_nothing(tune: Tune) -> None:
    expected = tune(FakeLauncher(step_ms=scaling, sigma=0.05))
    idle = FakeLauncher()
    again = tune(idle, resume=True)
    assert idle.orders == []
    assert again.rows == expected.rows
    assert again.speedup == expected.speedup
    assert again.elapsed_s == expected.elapsed_s


def test_resuming_counts_the_time_already_spent(tune: Tune) -> None:
    first = FakeLauncher(sigma=0.3, interrupt_after=30)
    with pytest.raises(SearchInterrupted):
        tune(first, budget="40s")
    second = FakeLauncher(sigma=0.3)
    started_s = second.clock()
    result = tune(second, budget="40s", resume=True)
    assert second.clock() - started_s < 30
    assert 36 < result.elapsed_s <= 40


def test_a_larger_budget_does_not_raise_the_most_blocks(tune: Tune) -> None:
    first = FakeLauncher(sigma=0.3, interrupt_after=40)
    with pytest.raises(SearchInterrupted):
        tune(first, budget="30s", max_blocks=20)
    result = tune(FakeLauncher(sigma=0.3, seed=1), resume=True, budget="60s", max_blocks=20)
    assert result.blocks == 20


def test_a_larger_budget_spends_only_what_the_looks_before_left(tune: Tune, tmp_path: Path) -> None:
    first = FakeLauncher(sigma=0.3, interrupt_after=80)
    with pytest.raises(SearchInterrupted):
        tune(first, budget="30s")
    before = study(tmp_path).user_attrs["looks"]
    assert before
    result = tune(FakeLauncher(sigma=0.3, seed=1), resume=True, budget="60s")
    after = study(tmp_path).user_attrs["looks"]
    assert after[: len(before)] == before
    assert len(after) > len(before)
    assert sum(alpha for _, alpha, *_ in after) < 0.05
    assert result.elapsed_s > 50
    assert result.challenger_speedup is not None
    assert result.challenger_speedup.low < 1 < result.challenger_speedup.high


def test_a_race_that_has_spent_the_alpha_of_its_budget_is_over(tune: Tune, tmp_path: Path) -> None:
    tune(FakeLauncher(sigma=0.3))
    # As if the session had died after its last look, before it closed the study.
    stored = optuna.storages.get_storage(f"sqlite:///{tmp_path}/study/study.db")
    for trial in stored.get_all_trials(stored.get_study_id_from_name("udf"), deepcopy=False):
        trial.state = optuna.trial.TrialState.RUNNING
    idle = FakeLauncher()
    result = tune(idle, resume=True)
    assert idle.orders == []
    assert result.verdict == "undecided"


@pytest.mark.usefixtures("on_disk")
def test_a_session_that_died_between_two_writes_is_repaired(tune: Tune, tmp_path: Path) -> None:
    def fails(config: Config, world: int) -> Any:
        return "crashed" if threads_of(config) == 8 else None

    first = FakeLauncher(step_ms=scaling, fails=fails, interrupt_after=20)
    with pytest.raises(SearchInterrupted):
        tune(first)
    # As if the session had died before it showed the failure, and a value, to Optuna.
    connection = sqlite3.connect(tmp_path / "study" / "study.db")
    with connection:
        connection.execute("UPDATE trials SET state = 'RUNNING'")
        connection.execute("DELETE FROM trial_intermediate_values WHERE step = 0")
    connection.close()
    tune(FakeLauncher(step_ms=scaling, fails=fails), resume=True)
    states = {trial.params["num_worker_threads"]: trial for trial in study(tmp_path).trials}
    assert states[8].state == optuna.trial.TrialState.FAIL
    assert 0 in states[16].intermediate_values


def unlucky(config: Config, world: int) -> Any:
    return "crashed" if threads_of(config) == 4 and world in (2, 3) else None


@pytest.mark.usefixtures("on_disk")
@pytest.mark.parametrize("attempts", [1, 2])
def test_a_world_that_failed_is_run_again_in_its_block_by_the_next_session(
    tune: Tune, attempts: int
) -> None:
    asked: dict[str, Any] = {"space": {"num_worker_threads": [4]}, "max_blocks": 6}
    heard = Listening(lambda each: each.worlds == 2 + 3 + 2 + attempts)
    first = FakeLauncher(sigma=0.3, fails=unlucky)
    with pytest.raises(SearchInterrupted) as stopped:
        tune(first, **asked, observer=heard)
    before = next(row for row in stopped.value.result.rows if row.trial == 1)
    assert before.worlds_failed == attempts
    rest = FakeLauncher(
        sigma=0.3, seed=1, fails=lambda config, world: unlucky(config, world + 2 + attempts)
    )
    result = tune(rest, **asked, resume=True)
    row = result.by_trial[1]
    assert (row.worlds_failed, row.samples, result.blocks) == (2, 6, 6)
    assert row.against_baseline is not None
    assert row.against_baseline.blocks == 6
    blocks = {seen.block for seen in result.observations if seen.trial == 1}
    assert blocks == {*range(6)}


def test_what_failed_at_first_is_tried_again_with_a_larger_budget(tune: Tune) -> None:
    """It had failed too slowly for the first budget to try it twice."""

    def launcher(fails: bool) -> FakeLauncher:
        return FakeLauncher(
            fails=lambda config, world: "timed-out" if fails and threads_of(config) == 4 else None,
            failing_s=lambda config: 9.0,
        )

    first = tune(launcher(True), budget="30s")
    (out,) = (row for row in first.rows if row.failure)
    assert (out.worlds_run, out.outcome) == (1, "timed-out")
    result = tune(launcher(False), budget="3m", resume=True)
    again = result.by_trial[out.trial]
    assert (again.failure, again.worlds_failed) == (None, 1)
    assert again.samples > 0


def test_there_must_be_a_study_to_resume(tune: Tune, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"there is no study udf in .* to resume"):
        tune(FakeLauncher(), resume=True)
    assert not (tmp_path / "study").exists()


def test_a_study_is_not_mixed_with_another_plan(tune: Tune) -> None:
    tune(FakeLauncher())
    with pytest.raises(UsageError) as raised:
        tune(FakeLauncher(), resume=True, options={"size": "400"}, epsilon="5%")
    assert "it was measured differently: 2 problems" in str(raised.value)
    assert "options: {calls: 4, size: 100, rounds: 10} in the study" in str(raised.value)
    assert "epsilon: 0.03 in the study, 0.05 now" in str(raised.value)


def test_a_study_is_not_mixed_with_another_machine(tune: Tune, tmp_path: Path) -> None:
    tune(FakeLauncher())
    found = study(tmp_path)
    found.set_user_attr("environment", {**found.user_attrs["environment"], "cpu_count": 96})
    with pytest.raises(UsageError, match="logical CPUs: 96, "):
        tune(FakeLauncher(), resume=True)


def test_a_damaged_study_is_refused(tune: Tune, tmp_path: Path) -> None:
    tune(FakeLauncher())
    storage = optuna.storages.get_storage(f"sqlite:///{tmp_path}/study/study.db")
    study_id = storage.get_study_id_from_name("udf")
    storage.set_study_user_attr(study_id, "format", 99)
    with pytest.raises(UsageError, match="has format 99; this version reads format 5"):
        tune(FakeLauncher(), resume=True)


def test_a_finished_study_is_continued_by_a_larger_budget(tune: Tune, tmp_path: Path) -> None:
    first = tune(FakeLauncher(sigma=0.3))
    assert first.verdict == "undecided"
    assert first.challenger_speedup is not None
    launcher = FakeLauncher(sigma=0.3, seed=1)
    result = tune(launcher, resume=True, budget="6m")
    assert not any(order.steps is None for order in launcher.orders)
    assert result.worlds > 4 * first.worlds
    assert 300 < result.elapsed_s <= 360
    assert result.challenger_speedup is not None
    width, before = (
        each.high - each.low for each in (result.challenger_speedup, first.challenger_speedup)
    )
    assert width < before / 2
    # To Optuna the first trials have ended; others go on with their configurations.
    trials = study(tmp_path).trials
    assert [trial.user_attrs.get("continues") for trial in trials] == [None] * 5 + [*range(5)]
    assert all(trial.state.is_finished() for trial in trials)
    assert tune(FakeLauncher(), resume=True, budget="6m").rows == result.rows


@pytest.mark.thorough
def test_what_time_would_decide_is_about_enough(tmp_path: Path) -> None:
    """Said of 16 studies by the intervals; without them it is too little for nearly all."""
    decided = []
    for seed in range(16):
        launcher = FakeLauncher(
            step_ms=lambda config: 2.0 if threads_of(config) == 16 else 1.8, sigma=0.12, seed=seed
        )
        asked = {"space": {"num_worker_threads": [2, 4, 8, 32]}}
        tune = tuning_in(tmp_path / str(seed))
        first = tune(launcher, budget="15s", **asked)
        if first.verdict != "undecided" or first.more_s is None:
            continue
        budget = f"{first.elapsed_s + 1.1 * first.more_s:.0f}s"
        decided.append(tune(launcher, budget=budget, resume=True, **asked).verdict != "undecided")
    assert len(decided) >= 8
    assert sum(decided) > len(decided) / 2


def test_a_resumed_search_counts_first_worlds_by_configuration(tune: Tune) -> None:
    space = {"num_worker_threads": [1, 2, 3, 4, 6, 8, 12, 32]}
    some = tune(FakeLauncher(overhead_s=1.0), space=space, budget="25s")
    assert "not-measured" in {row.outcome for row in some.rows}
    heard = Listening()
    tune(FakeLauncher(overhead_s=1.0), space=space, budget="3m", resume=True, observer=heard)
    counted = [each for each in heard.snapshots if each.phase == "calibration"]
    assert counted
    assert counted[-1].worlds > counted[-1].configs
    assert all(each.calibrated <= each.configs for each in counted)
    traced = [each for each in heard.snapshots if each.phase == "trace"]
    assert all(each.traced <= each.survivors for each in traced)


def test_the_budget_that_is_named_measures_something_more(tune: Tune) -> None:
    first = tune(FakeLauncher(overhead_s=3.0, sigma=0.3), budget="45s")
    assert first.verdict == "undecided"
    assert f"--resume --budget {first.resume_budget_s}s" in verdict_sentence(first)
    named = f"{first.resume_budget_s}s"
    more = tune(FakeLauncher(overhead_s=3.0, sigma=0.3, seed=1), budget=named, resume=True)
    assert more.blocks > first.blocks


def test_a_race_that_leaves_much_of_its_budget_says_why(tune: Tune) -> None:
    heard = Listening()
    slow = FakeLauncher(overhead_s=3.0, sigma=0.3)
    result = tune(slow, budget="70s", observer=heard, space={"num_worker_threads": [2, 8]})
    said = [each for each in heard.told if each.startswith("no further block: it takes ")]
    left = [each.remaining_s for each in heard.snapshots if each.phase == "race"][-1]
    assert result.verdict == "undecided"
    assert bool(said) == (left >= 7)
    assert said
