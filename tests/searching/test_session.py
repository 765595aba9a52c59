"""Whole studies on the fake launcher: what they answer, what they leave, and limits."""

import random
from pathlib import Path
from typing import Any

import pytest

from testing.fakes import threads_of
from testing.known import known
from testing.specs import threads
from tests.searching.tuning import Tune, by_threads, cpus, failing, row_of, scaling
from tuner.study.records import ForecastChange

FROM_ONE = {"step_ms": scaling, "baseline": {"num_worker_threads": 1}}
ONE_AND_MORE = {**FROM_ONE, "space": {"num_worker_threads": [1, 2, 4]}, "sigma": 0.01}
COSTLY = {**ONE_AND_MORE, "cpu_cores": lambda config: threads_of(config) ** 2 / 4}
SQUARE_ROOT = {"step_ms": lambda config: 4 / threads_of(config) ** 0.5, "cpu_cores": cpus}


@pytest.mark.parametrize(
    ("asked", "verdict", "best"),
    [
        # Noise below epsilon: whichever is the argmin, it takes less CPU than the baseline does.
        *(({"sigma": 0.005, "noise": n, "cpu_cores": cpus, "space": {"num_worker_threads": [2]}},
           "tie", 2) for n in range(3)),
        ({"sigma": 0.1, "max_blocks": 1}, "undecided", 16),
        ({"sigma": 0.1, "max_blocks": 3}, "undecided", 16),
        ({**COSTLY, "objective": "step_ms"}, "better", 4),
        ({**COSTLY, "objective": "step_p99_ms"}, "better", 4),
        ({**COSTLY, "objective": "cpu_ms_per_step"}, "keep-baseline", 1),
        ({**FROM_ONE, "cpu_cores": cpus, "require": ["cpu_cores<=1"]}, "keep-baseline", 1),
        ({"require": ["peak_rss_mb<=100"]}, "undecided", None),
        ({"fails": failing("crashed", 1, 2, 4, 8)}, "keep-baseline", 16),
        ({"fails": failing("crashed", 16), "space": {"num_worker_threads": [2]}}, "better", 2),
        ({"fails": failing("crashed", 16), "space": {"num_worker_threads": [2]}, "max_blocks": 2},
         "undecided", 2),
        # It takes four worlds, and there is time for one at most: what takes its place has one.
        ({"fails": failing("crashed", 16), "failing_s": lambda config: 27.0}, "undecided", 1),
        ({"fails": failing("crashed", 16), "failing_s": lambda config: 29.8}, "undecided", 1),
    ],
)  # fmt: skip
def test_what_is_recommended(
    tune: Tune, asked: dict[str, Any], verdict: str | None, best: int | None
) -> None:
    result = tune(**asked)
    assert (result.verdict, result.best) == (verdict, None if best is None else threads(best))
    assert (tune.folder / "recommended.json").exists() == (best is not None)


def test_cpu_time_that_varies_from_world_to_world_makes_nothing_cheaper(tune: Tune) -> None:
    said = []
    for seed in range(6):
        cores = random.Random(seed)
        result = tune(
            sigma=0.005, noise=seed, cpu_cores=lambda _, c=cores: c.lognormvariate(0.5, 0.3),
            space={"rpc_timeout": [30, 60]}, overwrite=seed > 0,
        )  # fmt: skip
        said.append(result.verdict)
    assert said == 6 * ["keep-baseline"]


def test_the_study_is_an_optuna_study_that_says_by_how_much_the_best_is_better(tune: Tune) -> None:
    result = tune(**FROM_ONE, sigma=0.05)
    assert result.verdict == "better"
    assert 3.0 < known(result.speedup).low < 4.0 < known(result.speedup).high
    found, best = tune.study, tune.study.best_trial
    assert len(found.trials[0].intermediate_values) == result.blocks
    # One that was eliminated has the value that compares, too.
    assert {trial.state.name for trial in found.trials} == {"COMPLETE", "PRUNED"}
    for trial in found.trials:
        paired = known(result.by_trial[trial.number].against_baseline)
        assert trial.value == pytest.approx(result.by_trial[0].value / paired.ratio.estimate)
    assert (best.state.name, best.user_attrs["label"]) == ("COMPLETE", str(result.best))
    assert found.user_attrs["answer"] == f"trial {best.number}: {result.best}"
    tune(fails=lambda config, world: "crashed", overwrite=True)
    assert not (tune.folder / "recommended.json").exists()


def test_a_trace_that_cannot_be_forecast_takes_nothing_from_the_answer(
    tune: Tune, monkeypatch: pytest.MonkeyPatch
) -> None:
    def changes_by(path: Path, ranks: object, most_s: float) -> tuple[ForecastChange, ...]:
        # The answer is kept by now, and this takes little beside the budget.
        assert "answer" in tune.study.user_attrs
        assert most_s <= 0.1 * 30
        raise ValueError("an odd trace")

    monkeypatch.setattr("tuner.searching.session.changes_by", changes_by)
    result = tune(**FROM_ONE, sigma=0.01)
    assert (result.verdict, result.changes) == ("better", ())
    assert {trial.state.name for trial in tune.study.trials} <= {"COMPLETE", "PRUNED"}
    assert tune.heard.told[-1] == "no changes are forecast: ValueError: an odd trace"


def test_what_breaks_a_limit_is_never_recommended(tune: Tune) -> None:
    fast = {"step_ms": lambda config: 16.0 / threads_of(config), "cpu_cores": cpus}
    result = tune(**fast, baseline={"num_worker_threads": 1}, require="cpu_cores<=5")
    assert (str(result.best), result.verdict) == ("num_worker_threads=4", "better")
    broken = row_of(result, threads(8))
    assert (broken.outcome, broken.broken_text) == ("infeasible", "cpu_cores 8 > 5, by 60 %")
    # The row of the fastest stands below all that keep the limits, and is known not to be tied.
    assert result.rows[-1] == broken
    assert not broken.tied_with_best
    # It is not measured for longer than it takes to know.
    assert broken.samples == 3
    trial = tune.study.trials[broken.trial]
    assert trial.user_attrs["broken_limits"] == broken.broken_text
    assert trial.state.name == "COMPLETE"
    assert trial.constraints == {"cpu_cores<=5": pytest.approx(3.0)}
    assert tune.study.best_trial.number != broken.trial


def test_a_baseline_that_breaks_a_limit_is_not_kept(tune: Tune) -> None:
    limits = ["cpu_cores<=10", "step_ms<=1.8"]
    result = tune(**SQUARE_ROOT, sigma=0.02, require=limits, budget="60s")
    assert (result.baseline_broken, str(result.best)) == (True, "num_worker_threads=8")
    assert known(result.speedup).estimate == pytest.approx(0.707, rel=0.05)


def test_it_ends_as_soon_as_the_answer_is_clear(tune: Tune) -> None:
    result = tune(**FROM_ONE, sigma=0.15, space={"num_worker_threads": [2, 4]}, budget="auto")
    assert result.verdict == "better"
    assert result.elapsed_s < 120
    assert not any("would not make" in event for event in tune.heard.told)
    told = [snapshot.compared for snapshot in tune.heard.snapshots if snapshot.compared is not None]
    seen = [*dict.fromkeys(told)]
    widths = [each.speedup.high / each.speedup.low for each in seen]
    assert len(widths) >= 2
    assert widths == sorted(widths, reverse=True)
    assert seen[-1].speedup == result.challenger_speedup


def test_it_ends_where_the_limit_would_not_be_enough(tune: Tune) -> None:
    noisy: dict[str, Any] = {"step_ms": by_threads({16: 2.0, 2: 1.97}), "sigma": 0.5,
                             "space": {"num_worker_threads": [2]}}  # fmt: skip
    result = tune(**noisy, budget="auto:60s")
    assert result.verdict == "undecided"
    assert result.elapsed_s < 45
    (said,) = [event for event in tune.heard.told if "would not make the answer clear" in event]
    assert "even with luck" in said
    assert known(result.more_s) > 60 - result.elapsed_s
    # Who wants all of it to be spent says so.
    assert tune(**noisy, budget="60s", resume=True).elapsed_s > 50
