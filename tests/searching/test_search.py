"""Whole studies by the fake launcher: what a search does, seen from outside."""

import random
import sqlite3
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import optuna
import pytest

import tuner
from tests.fakes import UDF, FakeLauncher, threads_of
from tuner.api import SearchInterrupted
from tuner.errors import UsageError
from tuner.plan.config import Config
from tuner.plan.workload_spec import RankSpec
from tuner.study.answer import StudyAnswer
from tuner.study.folder import StudyFolder


@pytest.fixture
def tune(tmp_path: Path) -> Callable[..., StudyAnswer]:
    def run(launcher: FakeLauncher, **changes: Any) -> StudyAnswer:
        changes = {
            "space": {"num_worker_threads": [1, 2, 4, 8]},
            "out": str(tmp_path / "study"),
            "budget": "30s",
            **changes,
        }
        return tuner.tune("udf", launcher=launcher, clock=launcher.clock, **changes).answer

    return run


Tune = Callable[..., StudyAnswer]


def scaling(config: Config) -> float:
    """One thread takes 8 ms, four or more take 2 ms."""
    return 8.0 / min(4, threads_of(config))


def keys(launcher: FakeLauncher) -> Counter[tuple[str, int, bool]]:
    """How often each settings was run with each seed, calibrations apart."""
    return Counter((str(o.config), o.seed, o.steps is None) for o in launcher.orders)


def test_finds_the_fastest_and_says_by_how_much(tune: Tune) -> None:
    launcher = FakeLauncher(step_ms=scaling, sigma=0.05)
    result = tune(launcher, baseline={"num_worker_threads": 1})
    assert result.verdict == "better"
    assert result.best is not None
    assert threads_of(result.best) >= 4
    assert result.speedup is not None
    assert result.speedup.low < 4.0 < result.speedup.high
    assert result.speedup.low > 3.0


def test_the_baseline_is_measured_first_and_in_every_block(tune: Tune) -> None:
    launcher = FakeLauncher(step_ms=scaling, sigma=0.05)
    result = tune(launcher)
    assert str(launcher.orders[0].config) == "num_worker_threads=16"
    baseline = next(row for row in result.rows if row.trial == 0)
    assert baseline.label == "num_worker_threads=16"
    assert baseline.samples == result.blocks


def test_the_order_in_blocks_is_random_and_the_same_again(tune: Tune, tmp_path: Path) -> None:
    first, again, other = (FakeLauncher(step_ms=scaling) for _ in range(3))
    tune(first)
    tune(again, out=str(tmp_path / "again"))
    tune(other, out=str(tmp_path / "other"), seed=1)
    orders = [[str(order.config) for order in each.orders] for each in (first, again, other)]
    assert orders[0] == orders[1]
    assert orders[0] != orders[2]
    blocks = [tuple(orders[0][start : start + 5]) for start in range(5, 20, 5)]
    assert len(set(blocks)) > 1
    assert all(len(set(block)) == 5 for block in blocks)


def test_a_calibration_fixes_the_number_of_steps(tune: Tune) -> None:
    launcher = FakeLauncher(step_ms=scaling)
    tune(launcher, min_time="0.4s")
    steps = {str(o.config): o.steps for o in launcher.orders if o.steps is not None}
    assert steps["num_worker_threads=1"] == 60  # 1.2 x 0.4 s / 8 ms
    assert steps["num_worker_threads=8"] == 240
    calibrations = [o for o in launcher.orders if o.steps is None]
    assert len(calibrations) == 5


def test_equal_times_keep_a_baseline_that_costs_the_same(tune: Tune) -> None:
    result = tune(
        FakeLauncher(sigma=0.03, cpu_cores=lambda s: 1.0 + 0.2 * threads_of(s)),
        baseline={"num_worker_threads": 1},
        budget="5m",
    )
    assert result.verdict == "keep-baseline"
    assert result.best == result.baseline


def test_equal_times_tie_where_the_rival_is_cheaper(tune: Tune) -> None:
    result = tune(FakeLauncher(sigma=0.03), space={"num_worker_threads": [2]}, budget="10m")
    assert result.verdict == "tie"
    assert str(result.best) == "num_worker_threads=2"
    assert [str(config) for config in result.tied] == ["num_worker_threads=16"]


def test_a_better_baseline_is_kept(tune: Tune) -> None:
    result = tune(FakeLauncher(step_ms=scaling, sigma=0.05), baseline={"num_worker_threads": 8},
                  space={"num_worker_threads": [1, 2]})  # fmt: skip
    assert result.verdict == "keep-baseline"
    assert result.speedup is not None
    assert (result.speedup.low, result.speedup.high) == (1.0, 1.0)
    assert result.challenger_speedup is not None
    assert result.challenger_speedup.high < 0.6


def test_noise_that_hides_the_answer_is_undecided(tune: Tune) -> None:
    result = tune(FakeLauncher(sigma=0.4), budget="20s")
    assert result.verdict == "undecided"
    assert result.best == result.baseline


def test_the_claim_rests_on_worlds_that_did_not_choose(tune: Tune) -> None:
    # Pure noise: the race's winner looks fast by luck, the confirmation does not repeat the luck.
    better = sum(
        tune(FakeLauncher(sigma=0.2, seed=seed), budget="20s", overwrite=True).verdict == "better"
        for seed in range(6)
    )
    assert better <= 1


def test_stops_when_the_answer_is_clear(tune: Tune) -> None:
    result = tune(
        FakeLauncher(step_ms=scaling, sigma=0.02), baseline={"num_worker_threads": 1}, budget="60s"
    )
    assert result.verdict == "better"
    assert result.elapsed_s < 45


def test_the_budget_is_kept(tune: Tune) -> None:
    launcher = FakeLauncher(sigma=0.3)
    started_s = launcher.clock()
    result = tune(launcher, budget="40s")
    assert launcher.clock() - started_s <= 40
    assert result.elapsed_s > 36
    assert result.elapsed_s == pytest.approx(launcher.clock() - started_s)


def test_max_blocks_is_kept(tune: Tune) -> None:
    assert tune(FakeLauncher(sigma=0.3), max_blocks=15).blocks == 15


def test_a_large_budget_races_to_a_near_optimal_answer(tune: Tune) -> None:
    launcher = FakeLauncher(step_ms=scaling, sigma=0.05)
    result = tune(
        launcher,
        baseline={"num_worker_threads": 1},
        space={"num_worker_threads": [4, 8]},
        budget="14m",
        epsilon="5%",
    )
    assert result.verdict == "better"
    assert result.epsilon_achieved is not None
    assert result.epsilon_achieved < 0.08
    assert str(result.best) in ("num_worker_threads=4", "num_worker_threads=8")
    assert result.elapsed_s < 600


def test_the_dominated_are_eliminated_and_say_why(tune: Tune) -> None:
    result = tune(FakeLauncher(step_ms=scaling, sigma=0.05), budget="60s")
    slowest = next(row for row in result.rows if row.label == "num_worker_threads=1")
    assert slowest.outcome == "eliminated"
    assert slowest.samples == 4
    assert not slowest.tied_with_best


def test_configs_that_fail_are_out_with_their_reason(tune: Tune, tmp_path: Path) -> None:
    launcher = FakeLauncher(
        step_ms=scaling, fails=lambda s, world: "deadlocked" if threads_of(s) == 1 else None
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


def test_configs_that_fail_only_sometimes_are_out_too(tune: Tune) -> None:
    launcher = FakeLauncher(
        step_ms=scaling,
        fails=lambda s, world: "crashed" if threads_of(s) == 8 and world == 3 else None,
    )
    result = tune(launcher, baseline={"num_worker_threads": 1})
    assert str(result.best) == "num_worker_threads=4"
    crashed = next(row for row in result.rows if row.label == "num_worker_threads=8")
    assert (crashed.outcome, crashed.samples) == ("crashed", 2)


def test_a_challenger_that_fails_gives_way_to_the_next(tune: Tune) -> None:
    def fails(config: Config, world: int) -> Any:
        return "crashed" if threads_of(config) == 8 and world == 12 else None

    times = {1: 8.0, 2: 6.0, 4: 3.0, 8: 2.0, 16: 5.0}
    launcher = FakeLauncher(step_ms=lambda s: times[threads_of(s)], sigma=0.02, fails=fails)
    result = tune(launcher, budget="60s")
    assert str(result.best) == "num_worker_threads=4"
    assert result.verdict == "better"


def test_a_baseline_that_cannot_run_is_said_so(tune: Tune) -> None:
    launcher = FakeLauncher(
        step_ms=scaling,
        sigma=0.02,
        fails=lambda s, world: "init-failed" if threads_of(s) == 16 else None,
    )
    result = tune(launcher)
    assert result.baseline_failed
    assert result.verdict == "better"
    assert result.speedup is None
    assert result.best is not None
    assert threads_of(result.best) in (4, 8)


def test_nothing_that_runs_is_no_answer(tune: Tune, tmp_path: Path) -> None:
    result = tune(FakeLauncher(fails=lambda s, world: "crashed"))
    assert result.best is None
    assert result.verdict is None
    assert not (tmp_path / "study" / "recommended.json").exists()
    assert (tmp_path / "study" / "trials.csv").exists()


def test_only_the_baseline_runs(tune: Tune) -> None:
    result = tune(FakeLauncher(fails=lambda s, w: None if threads_of(s) == 16 else "crashed"))
    assert result.verdict == "keep-baseline"
    assert result.best == result.baseline


def study(tmp_path: Path) -> optuna.Study:
    return optuna.load_study(study_name="udf", storage=f"sqlite:///{tmp_path}/study/study.db")


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


SCALING_UP: dict[str, Any] = {
    "space": {"num_worker_threads": [1, 2, 4]},
    "baseline": {"num_worker_threads": 1},
    "max_blocks": 15,
    "budget": "60s",
}


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> tuple[FakeLauncher, StudyAnswer]:
    """A study that nobody interrupted."""
    launcher = FakeLauncher(step_ms=scaling)
    out = str(tmp_path_factory.mktemp("whole"))
    return launcher, tuner.tune(
        "udf", launcher=launcher, clock=launcher.clock, out=out, **SCALING_UP
    ).answer


# In the calibrations, at the first block's start and in it, in the race, in the confirmation.
@pytest.mark.parametrize("after", [2, 3, 5, 11, 20])
def test_an_interrupted_study_goes_on_and_measures_nothing_twice(
    tune: Tune, tmp_path: Path, whole: tuple[FakeLauncher, StudyAnswer], after: int
) -> None:
    launcher, expected = whole
    first = FakeLauncher(step_ms=scaling, interrupt_after=after)
    with pytest.raises(SearchInterrupted) as interrupted:
        tune(first, **SCALING_UP)
    assert interrupted.value.result.worlds == after + len(first.looks)
    assert (tmp_path / "study" / "trials.csv").exists()
    second = FakeLauncher(step_ms=scaling)
    resumed = tune(second, resume=True, **SCALING_UP)

    assert keys(first) + keys(second) == keys(launcher)
    assert len(first.looks) + len(second.looks) == len(launcher.looks)
    assert resumed.blocks == expected.blocks
    assert resumed.best == expected.best
    assert [row.samples for row in resumed.rows] == [row.samples for row in expected.rows]


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


def test_a_study_is_not_mixed_with_another_plan(tune: Tune) -> None:
    tune(FakeLauncher())
    with pytest.raises(UsageError) as raised:
        tune(FakeLauncher(), resume=True, options={"size": "400"}, epsilon="5%")
    assert "it was measured differently: 2 problems" in str(raised.value)
    assert "options: {calls: 4, size: 100, rounds: 10} then" in str(raised.value)
    assert "epsilon: 0.03 then, 0.05 now" in str(raised.value)


def test_a_study_is_not_mixed_with_another_machine(tune: Tune, tmp_path: Path) -> None:
    tune(FakeLauncher())
    found = study(tmp_path)
    found.set_user_attr("environment", {**found.user_attrs["environment"], "cpu_count": 96})
    with pytest.raises(UsageError, match="cpu_count: 96, "):
        tune(FakeLauncher(), resume=True)


def test_a_study_is_not_overwritten_unasked(tune: Tune) -> None:
    first = tune(FakeLauncher(step_ms=scaling))
    refused = FakeLauncher()
    with pytest.raises(UsageError, match="--resume goes on with it"):
        tune(refused)
    assert refused.orders == []
    second = tune(FakeLauncher(step_ms=lambda s: 1.0), overwrite=True)
    assert second.rows[0].value == pytest.approx(1.0)
    assert first.rows[0].value == pytest.approx(2.0)


def test_there_must_be_a_study_to_resume(tune: Tune, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"there is no study udf in .* to resume"):
        tune(FakeLauncher(), resume=True)
    assert not (tmp_path / "study").exists()


def test_a_budget_too_short_says_what_it_needs_and_writes_nothing(
    tune: Tune, tmp_path: Path
) -> None:
    with pytest.raises(UsageError, match=r"a budget of 3.0s is too short .* needs about 12s"):
        tune(FakeLauncher(), budget="3s")
    assert not (tmp_path / "study").exists()


def test_a_damaged_study_is_refused(tune: Tune, tmp_path: Path) -> None:
    tune(FakeLauncher())
    storage = optuna.storages.get_storage(f"sqlite:///{tmp_path}/study/study.db")
    study_id = storage.get_study_id_from_name("udf")
    storage.set_study_user_attr(study_id, "format", 99)
    with pytest.raises(UsageError, match="has format 99; this version reads format 3"):
        tune(FakeLauncher(), resume=True)


def test_roles_are_tuned_apart(tmp_path: Path) -> None:
    spec = UDF.model_copy(
        update={"ranks": (RankSpec(name="a", role="agent"), RankSpec(name="o", role="observer"))}
    )

    def step_ms(config: Config) -> float:
        agent = config.for_role("agent")["num_worker_threads"]
        observer = config.for_role("observer").get("num_worker_threads", 16)
        assert isinstance(agent, int)
        assert isinstance(observer, int)
        return 12.0 / agent + 0.5 * observer

    result = tuner.tune(
        "udf",
        launcher=(launcher := FakeLauncher(step_ms=step_ms, sigma=0.01, spec=spec)),
        clock=launcher.clock,
        out=str(tmp_path / "roles"),
        space={"agent": {"num_worker_threads": [2, 4]}, "observer.num_worker_threads": "1,8"},
        budget="120s",
    )
    assert result.best is not None
    assert result.best.to_json() == {
        "agent": {"num_worker_threads": 4},
        "observer": {"num_worker_threads": 1},
    }
    assert result.baseline.for_role("agent") == {"num_worker_threads": 16}


@pytest.mark.parametrize("objective", ["step_ms", "step_p99_ms", "cpu_ms_per_step"])
def test_every_objective_has_its_own_best(tune: Tune, objective: str) -> None:
    # More threads are faster and cost more CPU.
    launcher = FakeLauncher(step_ms=scaling, cpu_cores=lambda s: threads_of(s) ** 2 / 4, sigma=0.01)
    result = tune(launcher, objective=objective, space={"num_worker_threads": [1, 2, 4]})
    assert result.best is not None
    assert threads_of(result.best) == (1 if objective == "cpu_ms_per_step" else 4)
    assert result.objective.name == objective


def test_memory_of_a_long_random_study_stays_consistent(tune: Tune) -> None:
    # Whatever fails when, the result has every settings once, and values only where measured.
    for seed in range(3):
        dice = random.Random(seed)
        launcher = FakeLauncher(
            step_ms=scaling,
            sigma=0.2,
            seed=seed,
            fails=lambda s, world, dice=dice: "crashed" if dice.random() < 0.05 else None,  # type: ignore[misc]
        )
        result = tune(launcher, budget="20s", overwrite=True)
        assert sorted(row.trial for row in result.rows) == [0, 1, 2, 3, 4]
        for row in result.rows:
            assert (row.failure is None) == (row.outcome in ("completed", "eliminated"))
            assert (row.samples > 0) == (row.value == row.value)


@pytest.mark.parametrize("max_blocks", [1, 2, 3])
def test_no_pair_at_all_is_undecided(tune: Tune, max_blocks: int) -> None:
    result = tune(FakeLauncher(sigma=0.1), max_blocks=max_blocks)
    assert result.verdict == "undecided"
    assert result.best == result.baseline


def test_configs_that_hang_do_not_use_up_the_budget_of_the_others(tune: Tune) -> None:
    def overhead(config: Config) -> float:
        return 10.0 if threads_of(config) in (1, 2, 4) else 0.2

    launcher = FakeLauncher(
        fails=lambda s, world: "timed-out" if threads_of(s) in (1, 2, 4) else None,
        failing_s=overhead,
    )
    space = {"num_worker_threads": [1, 2, 4, 8, 32]}
    result = tune(launcher, space=space, budget="45s", deadline="60s")
    outcomes = {row.label: (row.outcome, row.samples > 0) for row in result.rows}
    assert outcomes["num_worker_threads=4"] == ("timed-out", False)
    assert outcomes["num_worker_threads=32"] in {("completed", True), ("eliminated", True)}
    assert result.challenger is not None

    result = tune(launcher, space=space, budget="25s", overwrite=True)
    outcomes = {row.label: (row.outcome, row.samples > 0) for row in result.rows}
    assert outcomes["num_worker_threads=32"] == ("eliminated", False)
    assert result.verdict == "undecided"


def test_a_world_may_not_take_much_longer_than_the_baseline(tune: Tune) -> None:
    launcher = FakeLauncher(overhead_s=1.0)
    tune(launcher, budget="90s", deadline="100s")
    assert {o.deadline_s for o in launcher.orders if threads_of(o.config) == 16} == {100.0}
    (candidates,) = {o.deadline_s for o in launcher.orders if threads_of(o.config) != 16}
    assert candidates == pytest.approx(20 * 1.3, rel=0.1)


def test_equal_configs_recommend_a_cheaper_one_whatever_the_luck(tune: Tune) -> None:
    # Noise below epsilon: whichever is the argmin, it takes less CPU than the baseline does.
    for seed in range(3):
        result = tune(
            FakeLauncher(sigma=0.005, seed=seed, cpu_cores=lambda s: 1.0 + 0.2 * threads_of(s)),
            space={"num_worker_threads": [2, 4, 8]},
            overwrite=True,
        )
        assert result.verdict == "tie"
        assert result.best is not None
        assert threads_of(result.best) < 16


def test_without_a_baseline_the_only_configs_left_is_measured(tune: Tune, tmp_path: Path) -> None:
    launcher = FakeLauncher(fails=lambda s, w: "crashed" if threads_of(s) == 16 else None)
    result = tune(launcher, space={"num_worker_threads": [2]})
    assert str(result.best) == "num_worker_threads=2"
    assert result.rows[0].samples >= 4
    assert result.epsilon_achieved is None
    assert study(tmp_path).trials[1].state == optuna.trial.TrialState.COMPLETE


def test_a_session_that_died_between_two_writes_is_mended(tune: Tune, tmp_path: Path) -> None:
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


def test_a_study_that_was_not_created_completely_is_not_resumed(tune: Tune, tmp_path: Path) -> None:
    tune(FakeLauncher())
    connection = sqlite3.connect(tmp_path / "study" / "study.db")
    with connection:
        connection.execute("DELETE FROM study_user_attributes WHERE key = 'format'")
    connection.close()
    with pytest.raises(UsageError, match="was not created completely"):
        tune(FakeLauncher(), resume=True)


def test_a_larger_budget_extends_an_interrupted_confirmation(tune: Tune) -> None:
    first = FakeLauncher(sigma=0.3, interrupt_after=40)
    with pytest.raises(SearchInterrupted):
        tune(first, budget="30s")
    result = tune(FakeLauncher(sigma=0.3, seed=1), resume=True, budget="60s")
    assert result.elapsed_s > 50


def test_two_studies_do_not_share_a_folder(tune: Tune) -> None:
    tune(FakeLauncher(), name="one")
    with pytest.raises(UsageError, match=r"holds the study one; give two another --out"):
        tune(FakeLauncher(), name="two")


def test_two_studies_of_one_storage_do_not_share_a_folder(tune: Tune, tmp_path: Path) -> None:
    storage = f"sqlite:///{tmp_path}/shared.db?timeout=20"
    tune(FakeLauncher(), name="one", storage=storage)
    with pytest.raises(UsageError, match="holds the study one"):
        tune(FakeLauncher(), name="two", storage=storage)
    tune(FakeLauncher(), name="two", storage=storage, out=str(tmp_path / "two"))
    again = FakeLauncher()
    tune(again, name="one", storage=storage, resume=True)
    assert again.orders == []


def test_an_answer_that_no_longer_holds_is_removed(tune: Tune, tmp_path: Path) -> None:
    tune(FakeLauncher())
    tune(FakeLauncher(fails=lambda s, world: "crashed"), overwrite=True)
    assert not (tmp_path / "study" / "recommended.json").exists()


def test_a_second_search_in_the_folder_is_refused(tune: Tune, tmp_path: Path) -> None:
    folder = StudyFolder(tmp_path / "study")
    with folder.locked(), pytest.raises(UsageError, match="another search is running in"):
        tune(FakeLauncher())


def test_a_study_that_is_being_measured_is_not_overwritten(tune: Tune, tmp_path: Path) -> None:
    expected = tune(FakeLauncher(step_ms=scaling, sigma=0.05))
    folder = StudyFolder(tmp_path / "study")
    with folder.locked(), pytest.raises(UsageError, match="another search is running in"):
        tune(FakeLauncher(), overwrite=True)
    assert tune(FakeLauncher(), resume=True).rows == expected.rows
    assert folder.recommended.exists()


def test_a_password_is_not_shown(tune: Tune) -> None:
    with pytest.raises(UsageError) as raised:
        tune(FakeLauncher(), storage="postgresql+nodriver://me:secret@nowhere/db")
    assert "secret" not in str(raised.value)
    assert "me:***@nowhere" in str(raised.value)
