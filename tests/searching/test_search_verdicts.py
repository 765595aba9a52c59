"""Whole studies on the fake launcher: what they answer."""

from pathlib import Path

import pytest

import tuner
from tests.fakes import UDF, FakeLauncher, threads_of
from tests.searching.tuning import Tune, scaling, study
from tuner.plan.config import Config
from tuner.plan.workload_spec import RankSpec


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


def test_equal_times_keep_a_baseline_that_costs_the_same(tune: Tune) -> None:
    result = tune(
        FakeLauncher(sigma=0.03, cpu_cores=more_with_threads),
        baseline={"num_worker_threads": 1},
        budget="5m",
    )
    assert result.verdict == "keep-baseline"
    assert result.best == result.baseline


def test_equal_times_tie_where_the_rival_is_cheaper(tune: Tune) -> None:
    result = tune(FakeLauncher(sigma=0.03), space={"num_worker_threads": [2]}, budget="10m")
    assert result.verdict == "tie"
    assert str(result.best) == "num_worker_threads=2"
    assert result.tied == [result.baseline]


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


def test_the_best_of_pure_noise_is_seldom_called_better(tune: Tune) -> None:
    better = sum(
        tune(FakeLauncher(sigma=0.2, seed=seed), budget="20s", overwrite=True).verdict == "better"
        for seed in range(6)
    )
    assert better <= 1


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


def test_the_baseline_is_compared_with_itself(tune: Tune) -> None:
    result = tune(FakeLauncher(step_ms=scaling, sigma=0.1))
    assert result.noise_floor is not None
    assert result.noise_floor.low < 1 < result.noise_floor.high
    assert result.least_gain is not None
    assert 0 < result.least_gain < 1
    document = result.to_json()
    assert document["least_gain"] == result.least_gain
    assert document["noise_floor"]["ci_low"] == result.noise_floor.low


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


@pytest.mark.parametrize("max_blocks", [1, 2, 3])
def test_no_pair_at_all_is_undecided(tune: Tune, max_blocks: int) -> None:
    result = tune(FakeLauncher(sigma=0.1), max_blocks=max_blocks)
    assert result.verdict == "undecided"
    assert result.best == result.baseline


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
    launcher = FakeLauncher(
        step_ms=scaling, cpu_cores=lambda config: threads_of(config) ** 2 / 4, sigma=0.01
    )
    result = tune(launcher, objective=objective, space={"num_worker_threads": [1, 2, 4]})
    assert result.best is not None
    assert threads_of(result.best) == (1 if objective == "cpu_ms_per_step" else 4)
    assert result.objective.name == objective
