"""Whole studies on the fake launcher: interrupted, and resumed."""

from pathlib import Path
from typing import Any

import optuna
import pytest

from testing.fakes import FakeLauncher, threads_of
from testing.known import known
from tests.searching.tuning import Tune, check_days, failing, keys, row_of, scaling, slower
from tuner.errors import UsageError
from tuner.plan.config import Config
from tuner.searching import session
from tuner.study.search_commands import resume_command

pytestmark = pytest.mark.slow

SCALING_UP: dict[str, Any] = {
    "space": {"num_worker_threads": [1, 2, 4]}, "baseline": {"num_worker_threads": 1},
    "max_blocks": 15, "budget": "60s",
}  # fmt: skip


# In the calibrations, at the first block's start and in it, in the race.
@pytest.mark.parametrize(("after", "lost"), [(2, 0), (3, 0), (5, 2), (8, 1)])
def test_an_interrupted_study_goes_on_and_measures_one_block_again(
    tune: Tune, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, after: int, lost: int
) -> None:
    # A resumed session measures what is far ahead first, beside the baseline alone.
    monkeypatch.setattr(session, "measure_far_ahead", lambda measurer, is_resumed: None)
    # One that nobody interrupts; beside it, it would decide what comes first.
    whole = Tune(tmp_path / "apart" / "study")
    expected = whole(step_ms=scaling, **SCALING_UP)
    before = tune.interrupted(step_ms=scaling, interrupt_after=after, **SCALING_UP)
    first = tune.launcher
    assert before.worlds == after + len(first.traced)
    assert (tune.folder / "trials.csv").exists()
    resumed = tune(step_ms=scaling, resume=True, **SCALING_UP)
    # An open block gives its place to another one, with another seed.
    assert (keys(first) + keys(tune.launcher)).total() == keys(whole.launcher).total() + lost
    assert len(first.traced) + len(tune.launcher.traced) == len(whole.launcher.traced)
    assert (resumed.blocks, resumed.best) == (expected.blocks, expected.best)
    assert [row.samples for row in resumed.rows] == [row.samples for row in expected.rows]


@pytest.mark.parametrize("after", [9, 10, 13])
def test_a_block_is_of_one_day(tune: Tune, after: int) -> None:
    tune.interrupted(step_ms=scaling, interrupt_after=after, **SCALING_UP)
    check_days(tune(step_ms=slower(scaling), resume=True, **SCALING_UP), scaling)


def test_who_is_measured_again_with_a_larger_budget_is_compared_with_that_day(tune: Tune) -> None:
    def alike(config: Config) -> float:
        return 2.0 + 0.01 * threads_of(config)

    asked: dict[str, Any] = {"space": {"num_worker_threads": [*range(1, 13)]}, "sampler": "grid"}
    first = tune(step_ms=alike, budget="40s", sigma=0.05, **asked)
    dropped = [row for row in first.rows if row.eliminated and row.samples]
    answer = tune(step_ms=slower(alike), budget="200s", sigma=0.05, noise=1, resume=True, **asked)
    check_days(answer, alike)
    assert any(answer.by_trial[row.trial].samples > row.samples for row in dropped)


def test_a_first_world_is_compared_with_none_of_another_day(tune: Tune) -> None:
    def step_ms(config: Config) -> float:
        return {1: 1.6, 8: 3.9, 16: 2.0}.get(threads_of(config), 1.9)

    asked: dict[str, Any] = {"space": {"num_worker_threads": [1, 2, 4, 8]}, "overhead_s": 2.0}
    first = tune(step_ms=step_ms, budget="13s", **asked)
    late = [candidate for candidate in first.plan.candidates() if candidate in first.not_reached]
    answer = tune(step_ms=slower(step_ms, 3.0), budget="4m", resume=True, **asked)
    rows = [row_of(answer, config) for config in late]
    assert len(rows) >= 2
    assert all(row.samples and not (row.eliminated or "").endswith("one world") for row in rows)


def test_a_race_that_has_spent_the_alpha_of_its_budget_is_over(tune: Tune) -> None:
    tune(sigma=0.3)
    # As if the session had died after its last look, before it closed the study.
    for trial in tune.study.get_trials(deepcopy=False):
        trial.state = optuna.trial.TrialState.RUNNING
    assert tune(resume=True).verdict == "undecided"
    assert tune.launcher.orders == []


def test_a_session_that_died_between_two_writes_is_repaired(tune: Tune) -> None:
    tune.interrupted(step_ms=scaling, fails=failing("crashed", 8), interrupt_after=20)
    # As if the session had died before it showed the failure, and a value, to Optuna.
    for trial in tune.study.get_trials(deepcopy=False):
        trial.state = optuna.trial.TrialState.RUNNING
        trial.intermediate_values.pop(0, None)
    tune(step_ms=scaling, fails=failing("crashed", 8), resume=True)
    states = {trial.params["num_worker_threads"]: trial for trial in tune.study.trials}
    assert states[8].state == optuna.trial.TrialState.FAIL
    assert 0 in states[16].intermediate_values


@pytest.mark.parametrize("attempts", [1, 2])
def test_what_failed_in_a_block_that_was_interrupted_has_failed(tune: Tune, attempts: int) -> None:
    asked: dict[str, Any] = {"space": {"num_worker_threads": [4]}, "max_blocks": 6, "sigma": 0.3}
    before = tune.interrupted(
        **asked, fails=failing("crashed", 4, when=lambda world: world in (2, 3)),
        stops=lambda each: each.worlds == 2 + 1 + 3 + 2 + attempts,
    )  # fmt: skip
    assert before.by_trial[1].worlds_failed == attempts
    rest = failing("crashed", 4, when=lambda world: world + 2 + attempts in (2, 3))
    result = tune(**asked, noise=1, fails=rest, resume=True)
    rival = result.by_trial[1]
    assert (rival.worlds_failed, rival.samples, result.blocks) == (2, 6, 6)
    assert known(rival.against_baseline).blocks == 6
    assert {seen.block for seen in result.observations if seen.trial == 1} == {0, *range(2, 7)}


def test_what_failed_at_first_is_tried_again_with_a_larger_budget(tune: Tune) -> None:
    first = tune(fails=failing("timed-out", 4), failing_s=lambda config: 9.0)
    (out,) = (row for row in first.rows if row.failure)
    assert (out.worlds_run, out.outcome) == (1, "timed-out")
    again = tune(budget="3m", resume=True).by_trial[out.trial]
    assert (again.failure, again.worlds_failed) == (None, 1)
    assert again.samples > 0


def test_only_the_same_study_is_resumed(tune: Tune) -> None:
    with pytest.raises(UsageError, match=r"there is no study udf in .* to resume"):
        tune(resume=True)
    assert not tune.folder.exists()
    tune(require="cpu_cores<=5")
    with pytest.raises(UsageError) as raised:
        tune(resume=True, options={"size": "400"}, epsilon="5%", space={"num_worker_threads": [1]})
    for told in (
        "it was measured differently: 4 problems",
        "options: {calls: 4, size: 100, rounds: 10} in the study",
        "epsilon: 0.03 in the study, 0.05 now",
        "space: ",
        "require: cpu_cores<=5 in the study, ",
    ):
        assert told in str(raised.value)
    same = {"require": ["cpu_cores<=5.0"], "resume": True}
    assert tune(**same).verdict is not None
    found = tune.study
    found.set_user_attr("environment", {**found.user_attrs["environment"], "cpu_count": 96})
    with pytest.raises(UsageError, match="logical CPUs: 96, "):
        tune(**same)
    found.set_user_attr("format", 99)
    with pytest.raises(UsageError, match="has format 99; this version reads format 5"):
        tune(**same)


def test_a_finished_study_is_continued_by_a_larger_budget(tune: Tune) -> None:
    first = tune(sigma=0.3)
    assert first.verdict == "undecided"
    before = tune.study.user_attrs["looks"]
    result = tune(sigma=0.3, noise=1, resume=True, budget="6m")
    # It spends of alpha what the looks before have left.
    after = tune.study.user_attrs["looks"]
    assert after[: len(before)] == before
    assert len(after) > len(before) > 0
    assert sum(alpha for _, alpha, *_ in after) < 0.05
    assert not any(order.steps is None for order in tune.launcher.orders)
    assert result.worlds > 4 * first.worlds
    assert 300 < result.elapsed_s <= 360
    found = (known(each.challenger_speedup) for each in (result, first))
    width, first_width = (each.high - each.low for each in found)
    assert width < first_width / 2
    # To Optuna the first trials have ended; others go on with their configurations.
    trials = tune.study.trials
    assert [trial.user_attrs.get("continues") for trial in trials] == [None] * 5 + [*range(5)]
    assert all(trial.state.is_finished() for trial in trials)


@pytest.mark.thorough
def test_what_time_would_decide_is_about_enough(tune: Tune) -> None:
    """Said of 16 studies by the intervals; without them it is too little for nearly all."""
    decided = []
    for seed in range(16):
        launcher = FakeLauncher(
            step_ms=lambda config: 2.0 if threads_of(config) == 16 else 1.8, sigma=0.12, seed=seed
        )
        asked = {"space": {"num_worker_threads": [2, 4, 8, 32]}, "out": tune.folder / str(seed)}
        first = tune(launcher, budget="15s", **asked)
        if first.verdict != "undecided" or first.more_s is None:
            continue
        budget = f"{first.elapsed_s + 1.1 * first.more_s:.0f}s"
        decided.append(tune(launcher, budget=budget, resume=True, **asked).verdict != "undecided")
    assert len(decided) >= 8
    assert sum(decided) > len(decided) / 2


def test_a_resumed_search_counts_first_worlds_by_configuration(tune: Tune) -> None:
    space = {"num_worker_threads": [1, 2, 3, 4, 6, 8, 12, 32]}
    asked: dict[str, Any] = {"space": space, "overhead_s": 1.0}
    some = tune(**asked, budget="25s")
    assert some.not_reached
    tune(**asked, budget="3m", resume=True)
    counted = [snapshot for snapshot in tune.heard.snapshots if snapshot.phase == "calibration"]
    assert counted[-1].worlds > counted[-1].configs
    assert all(each.calibrated <= each.configs for each in counted)
    traced = [snapshot for snapshot in tune.heard.snapshots if snapshot.phase == "trace"]
    assert all(each.traced <= each.survivors for each in traced)


def test_the_budget_that_is_named_measures_something_more(tune: Tune) -> None:
    first = tune(overhead_s=3.0, sigma=0.3, budget="100s")
    assert first.verdict == "undecided"
    assert resume_command(first).endswith(f" --budget {first.resume_budget_s}s")
    named = f"{first.resume_budget_s}s"
    assert tune(overhead_s=3.0, sigma=0.3, noise=1, budget=named, resume=True).blocks > first.blocks
