"""How a study begins: what is refused is refused after the first run, and that one is kept."""

from pathlib import Path
from typing import Any

import pytest

import tuner
from tests.fake_program import COMMAND, FakeProgramLauncher
from tests.fakes import FakeLauncher, threads_of
from tests.searching.tuning import Tune, scaling
from tuner.errors import BudgetTooShortError, UsageError
from tuner.plan.config import Config
from tuner.present.wording import verdict_sentence
from tuner.study.answer import StudyAnswer
from tuner.world.measurement import FailureKind

LARGE = {"space": {"num_worker_threads": [*range(1, 33)], "intra_op_threads": [1, 2, 3, 4]}}


def stored(tmp_path: Path) -> StudyAnswer:
    return tuner.load_study(tmp_path / "study")


def test_what_is_too_short_is_refused_after_one_world_which_is_kept(
    tune: Tune, tmp_path: Path
) -> None:
    first = FakeLauncher(step_ms=scaling, overhead_s=2.0)
    told = (
        r"a budget of 12s is too short for one block of 5 configurations, with 11 worlds of 2s "
        r"or more each; it needs about 39s; .*; what was measured is kept, and this continues it: "
        r"python -m tuner\.search --resume --study udf .*--budget 39s$"
    )
    with pytest.raises(BudgetTooShortError, match=told):
        tune(first, budget="12s")
    assert len(first.orders) == 1
    kept = stored(tmp_path)
    assert (kept.interrupted, kept.worlds, len(kept.rows)) == (True, 1, 1)
    assert verdict_sentence(kept) == (
        "Not begun: the budget was too short, and 1 world of the baseline is kept; --resume "
        "--budget 39s continues it."
    )
    assert (tmp_path / "study" / "answer.json").exists()

    second = FakeLauncher(step_ms=scaling, overhead_s=2.0)
    answer = tune(second, budget="60s", resume=True)
    assert answer.verdict is not None
    assert len(answer.rows) == 5
    assert answer.by_trial[0].config == kept.baseline
    firsts = [threads_of(order.config) for order in second.orders if order.steps is None]
    assert sorted(firsts) == [1, 2, 4, 8]
    assert answer.elapsed_s > 2.0 + second.clock.now_s - 1000


@pytest.mark.parametrize("sampler", ["auto", "random"])
def test_a_larger_budget_may_have_a_sampler_propose(tune: Tune, sampler: str) -> None:
    with pytest.raises(BudgetTooShortError):
        tune(FakeLauncher(), **LARGE, budget="6s", sampler=sampler)
    answer = tune(FakeLauncher(), **LARGE, budget="60s", sampler=sampler, resume=True)
    assert answer.sampling is not None
    assert 10 < len(answer.rows) < 128


def test_an_earlier_study_stays_where_the_new_one_is_refused(tune: Tune, tmp_path: Path) -> None:
    before = tune(FakeLauncher())
    with pytest.raises(BudgetTooShortError, match=r"can show$"):
        tune(FakeLauncher(), budget="1s", overwrite=True)
    assert stored(tmp_path).rows == before.rows


def two_thirds(config: Config, world: int) -> FailureKind | None:
    return "crashed" if world < 2 and threads_of(config) == 16 else None


def test_a_first_world_that_fails_decides_nothing(tune: Tune) -> None:
    baseline = {"num_worker_threads": 16, "intra_op_threads": 1}
    launcher = FakeLauncher(fails=two_thirds)
    answer = tune(launcher, **LARGE, baseline=baseline, budget="60s")
    assert answer.sampling is not None
    assert answer.by_trial[0].worlds_failed == 2
    assert answer.by_trial[0].samples > 0
    assert not answer.baseline_failed


def tuned(launcher: FakeProgramLauncher, tmp_path: Path, **changes: Any) -> StudyAnswer:
    keys: dict[str, Any] = {"space": {"num_worker_threads": [4, 8]}, "out": tmp_path / "study"}
    return tuner.tune(
        program=COMMAND, launcher=launcher, clock=launcher.clock, **{**keys, **changes}
    )


@pytest.mark.parametrize(("baseline", "worlds"), [(None, 1), ({"num_worker_threads": 2}, 0)])
def test_a_program_is_refused_after_its_first_run(
    tmp_path: Path, baseline: dict[str, int] | None, worlds: int
) -> None:
    launcher = FakeProgramLauncher(lambda config: 14.0, first_runs=2)
    started_s = launcher.clock.now_s
    with pytest.raises(BudgetTooShortError, match="too short for one block of 3 config"):
        tuned(launcher, tmp_path, budget="60s", baseline=baseline)
    assert launcher.clock.now_s - started_s == pytest.approx(14.5, rel=0.05)
    assert launcher.orders == []
    assert stored(tmp_path).worlds == worlds

    again = FakeProgramLauncher(lambda config: 14.0, first_runs=2)
    started_s = again.clock.now_s
    with pytest.raises(BudgetTooShortError, match="too short for one block of 3 config"):
        tuned(again, tmp_path, budget="70s", baseline=baseline, resume=True)
    assert again.clock.now_s - started_s == pytest.approx(14.5, rel=0.05)
    answer = tuned(again, tmp_path, budget="8m", baseline=baseline, resume=True)
    assert answer.blocks > 0
    own = sum(order.config == answer.baseline for order in again.orders if order.trace is None)
    assert answer.by_trial[0].worlds_run == own + worlds


@pytest.mark.parametrize("sampler", ["tpe", "grid"])
@pytest.mark.parametrize("runs", [(5.5, 5.5), (5.5,)])
def test_the_budget_that_is_said_to_be_enough_is_refused_no_more(
    tmp_path: Path, sampler: str, runs: tuple[float, ...]
) -> None:
    def again(budget: str, **changes: Any) -> StudyAnswer:
        launcher = FakeProgramLauncher(lambda config: 5.0, first_runs=2, run_s=runs)
        space = {"num_worker_threads": [*range(2, 18)]}
        return tuned(
            launcher, tmp_path, budget=budget, sampler=sampler, space=space, max_blocks=4, **changes
        )

    with pytest.raises(BudgetTooShortError) as refused:
        again("60s")
    answer = again(f"{refused.value.needed_s}s", resume=True)
    assert answer.needed_s is None
    assert answer.worlds > 20


def test_a_check_says_nothing_of_a_study_that_is_not_kept(tune: Tune, tmp_path: Path) -> None:
    tune(FakeLauncher(step_ms=scaling), baseline={"num_worker_threads": 1})
    slow = FakeLauncher(overhead_s=9.0)
    with pytest.raises(UsageError) as caught:
        tuner.check(tmp_path / "study", launcher=slow, clock=slow.clock, budget="20s")
    assert "too short" in str(caught.value)
    assert "--resume" not in str(caught.value)
