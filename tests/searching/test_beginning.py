"""How a study begins: what is refused is refused after the first run, and that one is kept."""

from typing import Any

import pytest

import tuner
from tests.fake_program import COMMAND, FakeProgramLauncher
from tests.fakes import FakeLauncher, threads_of
from tests.searching.test_calibrating import Hanging
from tests.searching.tuning import Tune, failing, scaling
from tuner.errors import BudgetTooShortError, UsageError
from tuner.study.answer import StudyAnswer

LARGE = {"space": {"num_worker_threads": [*range(1, 33)], "intra_op_threads": [1, 2, 3, 4]}}


def test_what_is_too_short_is_refused_after_one_world_which_is_kept(tune: Tune) -> None:
    told = (
        r"a budget of 12s is too short for one block of 5 configurations, with 11 worlds of 2s "
        r"or more each; it needs about 39s; .*; what was measured is kept, and this continues it: "
        r"rpc-tuner search --resume --study udf .*--budget 39s$"
    )
    with pytest.raises(BudgetTooShortError, match=told):
        tune(step_ms=scaling, overhead_s=2.0, budget="12s")
    assert len(tune.launcher.orders) == 1
    kept = tuner.load_study(tune.folder)
    assert (kept.interrupted, kept.worlds, len(kept.rows)) == (True, 1, 1)
    assert (tune.folder / "answer.json").exists()
    answer = tune(step_ms=scaling, overhead_s=2.0, budget="60s", resume=True)
    assert answer.verdict is not None
    assert len(answer.rows) == 5
    assert answer.by_trial[0].config == kept.baseline
    firsts = [threads_of(order.config) for order in tune.launcher.orders if order.steps is None]
    assert sorted(firsts) == [1, 2, 4, 8]
    assert answer.elapsed_s > 2.0 + tune.spent_s


@pytest.mark.parametrize("sampler", ["auto", "random"])
def test_a_larger_budget_may_have_a_sampler_propose(tune: Tune, sampler: str) -> None:
    with pytest.raises(BudgetTooShortError):
        tune(**LARGE, budget="6s", sampler=sampler)
    answer = tune(**LARGE, budget="60s", sampler=sampler, resume=True)
    assert answer.sampling is not None
    assert 10 < len(answer.rows) < 128


def test_an_earlier_study_stays_where_the_new_one_is_refused(tune: Tune) -> None:
    before = tune(step_ms=scaling, baseline={"num_worker_threads": 1})
    with pytest.raises(BudgetTooShortError, match=r"can show$"):
        tune(budget="1s", overwrite=True)
    assert tuner.load_study(tune.folder).rows == before.rows
    slow = FakeLauncher(overhead_s=9.0)
    with pytest.raises(UsageError, match="too short") as caught:
        tuner.check(tune.folder, launcher=slow, clock=slow.clock, budget="20s")
    # Of a check no study is kept.
    assert "--resume" not in str(caught.value)


def test_setting_up_may_not_spend_what_the_first_world_needs(tune: Tune) -> None:
    slow = Hanging(describing_s=61.0)
    with pytest.raises(UsageError, match="20s is too short: setting up alone took 1m01s"):
        tune(slow, budget="20s")
    assert not tune.folder.exists()


def test_a_first_world_that_fails_decides_nothing(tune: Tune) -> None:
    baseline = {"num_worker_threads": 16, "intra_op_threads": 1}
    fails = failing("crashed", 16, when=lambda world: world < 2)
    answer = tune(fails=fails, **LARGE, baseline=baseline, budget="60s")
    assert answer.sampling is not None
    assert answer.by_trial[0].worlds_failed == 2
    assert answer.by_trial[0].samples > 0
    assert not answer.baseline_failed


def tuned(tune: Tune, launcher: FakeProgramLauncher, **changes: Any) -> StudyAnswer:
    keys = {"space": {"num_worker_threads": [4, 8]}, "out": tune.folder, **changes}
    return tuner.tune(program=COMMAND, launcher=launcher, clock=launcher.clock, **keys)


@pytest.mark.parametrize(("baseline", "worlds"), [(None, 1), ({"num_worker_threads": 2}, 0)])
def test_a_program_is_refused_after_its_first_run(
    tune: Tune, baseline: dict[str, int] | None, worlds: int
) -> None:
    for budget, resume in (("60s", False), ("70s", True)):
        launcher = FakeProgramLauncher(lambda config: 14.0, first_runs=2)
        started_s = launcher.clock.now_s
        with pytest.raises(BudgetTooShortError, match="too short for one block of 3 config"):
            tuned(tune, launcher, budget=budget, baseline=baseline, resume=resume)
        assert launcher.clock.now_s - started_s == pytest.approx(14.5, rel=0.05)
        assert launcher.orders == []
        assert tuner.load_study(tune.folder).worlds == worlds
    answer = tuned(tune, launcher, budget="8m", baseline=baseline, resume=True)
    assert answer.blocks > 0
    own = sum(order.config == answer.baseline for order in launcher.orders if order.trace is None)
    assert answer.by_trial[0].worlds_run == own + worlds


@pytest.mark.parametrize("sampler", ["tpe", "grid"])
@pytest.mark.parametrize("runs", [(5.5, 5.5), (5.5,)])
def test_the_budget_that_is_said_to_be_enough_is_refused_no_more(
    tune: Tune, sampler: str, runs: tuple[float, ...]
) -> None:
    def again(budget: str, **changes: Any) -> StudyAnswer:
        launcher = FakeProgramLauncher(lambda config: 5.0, first_runs=2, run_s=runs)
        changes |= {"space": {"num_worker_threads": [*range(2, 18)]}, "max_blocks": 4}
        return tuned(tune, launcher, budget=budget, sampler=sampler, **changes)

    with pytest.raises(BudgetTooShortError) as refused:
        again("60s")
    answer = again(f"{refused.value.needed_s}s", resume=True)
    assert answer.needed_s is None
    assert answer.worlds > 20
