"""Whole studies on the fake launcher, with two objectives."""

from dataclasses import replace
from pathlib import Path

import pytest

from tests.fakes import FakeLauncher, threads_of
from tests.searching.tuning import Tune, study
from tuner.errors import UsageError
from tuner.plan.config import Config
from tuner.present.tables import front_of_answer, trials_of
from tuner.study.answer import StudyAnswer

BOTH = "step_ms,cpu_ms_per_step"


def busier(sigma: float = 0.02, seed: int = 0) -> FakeLauncher:
    """Faster with more threads, for more CPU time; 16 threads are slower, and cost the most."""
    took = {1: 8.0, 2: 5.0, 4: 3.0, 8: 2.0, 16: 2.5}
    cpu_ms = {1: 4.0, 2: 5.0, 4: 6.0, 8: 9.0, 16: 12.0}

    def cpus(config: Config) -> float:
        threads = threads_of(config)
        return cpu_ms[threads] / took[threads]

    return FakeLauncher(
        step_ms=lambda config: took[threads_of(config)], cpu_cores=cpus, sigma=sigma, seed=seed
    )


@pytest.fixture
def answer(tune: Tune) -> StudyAnswer:
    return tune(busier(), objective=BOTH, budget="90s")


def test_the_front_is_told_and_the_first_objective_decides(answer: StudyAnswer) -> None:
    assert answer.front is not None
    assert [str(point.config) for point in answer.front.points if point.in_front] == [
        f"num_worker_threads={threads}" for threads in (8, 4, 2, 1)
    ]
    assert (str(answer.best), answer.verdict) == ("num_worker_threads=8", "better")


def test_the_order_of_the_objectives_decides(tune: Tune) -> None:
    result = tune(busier(), objective=["cpu_ms_per_step", "step_ms"], budget="90s")
    assert str(result.best) == "num_worker_threads=1"
    assert result.front is not None
    assert len(result.front.trials) == 4


def test_ratios_point_the_same_way_as_in_the_table_of_all_configurations(
    answer: StudyAnswer,
) -> None:
    table, front = front_of_answer(answer), answer.front
    assert table is not None
    assert front is not None
    assert table.headings[3] == table.headings[6] == "against the baseline"
    assert table.headings[3] in [column.heading for column in trials_of(answer).columns]
    best = answer.by_trial[front.trials[0]].against_baseline
    assert best is not None
    for cell, ratio in ((table.rows[0][3], best.ratio.estimate), (table.rows[0][6], 12 / 9)):
        assert float(cell.split()[0]) == pytest.approx(ratio, rel=0.05)
    second = replace(front.second, maximize=True)
    more = front_of_answer(replace(answer, front=replace(front, second=second)))
    assert more is not None
    assert more.rows[0][3] == table.rows[0][3]
    assert float(more.rows[0][6].split()[0]) == pytest.approx(0.75, rel=0.05)


def test_a_study_with_two_objectives_is_read_again(
    tune: Tune, answer: StudyAnswer, tmp_path: Path
) -> None:
    plan = study(tmp_path).user_attrs["plan"]["measuring"]
    assert plan["second_objective_name"] == "cpu_ms_per_step"
    again = tune(busier(), objective=BOTH, budget="90s", resume=True)
    assert again.front == answer.front
    with pytest.raises(UsageError, match="second_objective_name"):
        tune(busier(), budget="90s", resume=True)


def test_a_sampler_looks_for_both_ends_of_the_front(tune: Tune) -> None:
    space = {
        "num_worker_threads": [1, 2, 4, 8],
        "transports": ["shm", "uv", "shm+uv", "uv+shm"],
        "channels": ["cma", "mpt_uv", "basic", "cma+basic", "basic+cma"],
    }
    baseline = {"num_worker_threads": 8, "transports": "shm", "channels": "cma"}
    result = tune(busier(), space=space, baseline=baseline, objective=BOTH, budget="90s",
                  sampler="tpe")  # fmt: skip
    assert result.sampling is not None
    assert result.sampling.went_on is not None
    compared = [threads_of(result.by_trial[trial].config) for trial in result.sampling.went_on]
    # The fastest has 8 threads, and takes the most CPU time of these; the cheapest has 1.
    assert {1, 8} <= set(compared)
    assert result.front is not None
    shown = [threads_of(point.config) for point in result.front.points if point.in_front]
    assert {1, 8} <= set(shown)
    assert not any("dropped" in lesson for lesson in result.sampling.lessons)
