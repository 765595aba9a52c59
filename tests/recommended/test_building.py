"""From an answer to its recommendation, and to `recommended.json`."""

import math
from dataclasses import replace

import pytest

from testing.results import ROWS, failed, measured, nothing_ran, study_plan, study_result
from testing.specs import threads, workload_spec
from tuner.decide.statistics import Interval
from tuner.errors import UsageError
from tuner.plan.config import Config
from tuner.present.how_to_use import exported
from tuner.recommended.building import recommendation_of
from tuner.recommended.model import Measured, Speedup


def test_the_environment_says_the_intra_op_threads_that_were_tuned() -> None:
    plan = study_plan(workload_spec(intra_op_threads=2))
    best = Config.from_json({"server": {"intra_op_threads": 4}})
    rows = (measured(0, threads(16), 3.0), measured(1, best, 2.0))
    found = recommendation_of(study_result(plan, best=best, rows=rows))
    assert found.environment.intra_op_threads == {"caller": 2, "server": 4}


@pytest.mark.parametrize(
    ("speedup", "bounds"),
    [
        (None, {}),
        (Interval(1.2, 0.0, math.inf), {}),
        (Interval(9.0, 2.5, 40.0), {"ci_low": 2.5}),
        (Interval(0.1, 0.0, 0.4), {"ci_high": 0.4}),
    ],
)
def test_what_is_not_known_of_a_speedup_is_null(
    speedup: Interval | None, bounds: dict[str, float]
) -> None:
    unknown = {"estimate": None, "ci_low": None, "ci_high": None, **bounds}
    answer = study_result(speedup=speedup, challenger_speedup=speedup, noise_floor=speedup)
    document = recommendation_of(answer).model_dump()
    assert document["speedup"] == document["challenger"]["speedup"] == unknown
    told = answer.to_json()
    assert told["speedup"] == told["challenger"]["speedup"] == told["noise_floor"] == unknown


def test_a_best_without_a_counting_world_is_still_recommended() -> None:
    row = measured(0, threads(16), math.nan)
    answer = study_result(best=threads(16), verdict="undecided", speedup=None, rows=(row,))
    assert recommendation_of(answer).measured.value is None
    assert "# measured: no world that counts\n" in exported(answer, "python")


def test_without_a_verdict_there_are_only_trials_to_export() -> None:
    with pytest.raises(UsageError, match="recommends nothing: no configuration of its search"):
        recommendation_of(nothing_ran())
    unknown = dict.fromkeys(("best", "verdict", "speedup", "challenger", "challenger_speedup"))
    answer = study_result(**unknown, interrupted=True)
    with pytest.raises(UsageError, match=r"with --resume, or choose a configuration by --trial N"):
        recommendation_of(answer)
    assert recommendation_of(answer, 1).config == threads(4)
    text = exported(answer, "python", 1).replace("\n# ", " ")
    assert "by median step time; the study has no verdict yet." in text


def test_configs_chosen_by_hand_have_no_verdict() -> None:
    found = recommendation_of(study_result(), 3)
    assert (found.config, found.trial, found.verdict) == (threads(1), 3, None)
    assert found.speedup == Speedup()
    assert found.measured == Measured(value=6.0, ci_low=5.5, ci_high=6.5, unit="ms", worlds=5)


@pytest.mark.parametrize(
    ("trial", "message"),
    [
        (4, "trial 4 (num_worker_threads=32) cannot run: crashed: server failed first"),
        (5, "trial 5 (num_worker_threads=2) was not measured"),
        (6, "trial 6 (num_worker_threads=64) fails in 1 of 4 worlds: wrong-answer: not 9"),
        (7, "the study udf has no trial 7; its trials are 0 to 6"),
    ],
)
def test_a_trial_that_did_not_run_is_refused(trial: int, message: str) -> None:
    wrong = replace(failed(6, threads(64), "not 9"), outcome="wrong-answer", worlds_failed=1)
    answer = study_result(rows=(*ROWS, measured(5, threads(2), math.nan), wrong))
    with pytest.raises(UsageError) as caught:
        recommendation_of(answer, trial)
    assert str(caught.value) == message
