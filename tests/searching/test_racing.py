"""Who leaves the race, and why."""

from typing import Any

import pytest

from lab.simulation.sessions import MemoryStore
from testing.fakes import FakeLauncher
from testing.known import known
from testing.made import calibrated, plan_of, took, world
from tests.searching.tuning import Tune, by_threads, scaling
from tests.steps import steps_of
from tuner.decide.interim_analysis import InterimAnalysis
from tuner.plan.config import Config
from tuner.searching.measurer import Measurer
from tuner.searching.progress_reports import Silent
from tuner.searching.racing import race
from tuner.searching.runner import Runner
from tuner.searching.wall_time import Budget
from tuner.study.conclusion import conclude
from tuner.study.records import Record

THREE: dict[str, Any] = {"space": {"num_worker_threads": [1, 2, 4]},
                         "baseline": {"num_worker_threads": 16}}  # fmt: skip


def test_the_dominated_are_eliminated_and_say_why(tune: Tune) -> None:
    result = tune(step_ms=scaling, sigma=0.05, budget="60s")
    rows = {row.label: row for row in result.rows}
    # Four times as slow in its first world; twice as slow in every one of four blocks.
    for label, samples in (("num_worker_threads=1", 0), ("num_worker_threads=2", 4)):
        assert (rows[label].outcome, rows[label].samples) == ("eliminated", samples)
        assert not rows[label].tied_with_best
    first_alone = known(rows["num_worker_threads=1"].eliminated)
    assert first_alone.endswith(" behind num_worker_threads=16 in one world")


def test_the_budget_is_kept(tune: Tune) -> None:
    result = tune(sigma=0.3, budget="40s")
    assert 36 < result.elapsed_s <= 40
    assert result.elapsed_s == pytest.approx(tune.spent_s)


def test_one_that_is_out_is_said_to_be_worse_only_where_it_is(tune: Tune) -> None:
    times = by_threads({16: 2.0, 1: 2.2, 2: 2.0, 4: 1.98})
    result = tune(step_ms=times, sigma=0.01, **THREE, epsilon=0.05, max_blocks=40, budget="2m")
    reasons = {row.label: str(row.eliminated) for row in result.rows}
    worse = reasons.pop("num_worker_threads=1")
    assert worse.startswith("shown to be worse than the baseline after ")
    assert any(reason.startswith("shown to gain at most 5 % after ") for reason in reasons.values())
    assert not any("worse" in reason for reason in reasons.values())


@pytest.mark.parametrize("exhaustive", [False, True])
def test_the_second_half_of_a_budget_is_for_two_rivals_unless_all_are_asked_for(
    tune: Tune, exhaustive: bool
) -> None:
    space = {"num_worker_threads": [1, 2, 4, 8, 16]}
    asked: dict[str, Any] = {"epsilon": 0.2, "confidence": 0.9999, "exhaustive": exhaustive}
    result = tune(step_ms=lambda _: 5.0, sigma=0.2, space=space, budget="60s", **asked)
    halved = ["when 2 of 4 go on" in str(row.eliminated) for row in result.rows]
    assert any(halved) != exhaustive


def test_one_that_comes_back_is_told(tune: Tune) -> None:
    """One is beaten by a rival that later is no longer the best."""
    launcher = FakeLauncher(sigma=0.02)

    def step_ms(config: Config) -> float:
        best = 1.0 if len(launcher.orders) < 30 else 9.0
        return by_threads({1: best, 2: 1.5, 4: 1.6, 16: 2.0})(config)

    launcher.step_ms = step_ms
    tune(launcher, **THREE, confidence=0.9999, max_blocks=30, exhaustive=True)
    about = [told for told in tune.heard.told if told.startswith("num_worker_threads=4: ")]
    assert about[0].startswith("num_worker_threads=4: eliminated, ")
    assert about[1].startswith("num_worker_threads=4: back in the race after ")


def test_a_race_that_leaves_much_of_its_budget_says_why(tune: Tune) -> None:
    space = {"num_worker_threads": [2, 8]}
    result = tune(overhead_s=3.0, sigma=0.3, budget="140s", space=space)
    assert result.verdict == "undecided"
    assert any(each.startswith("no further block: it takes ") for each in tune.heard.told)
    left = [each.remaining_s for each in tune.heard.snapshots if each.phase == "race"][-1]
    assert left >= 14


def looked_at(threads: int) -> Measurer:
    """A study of so many numbers of threads beside two of another knob, which has had two looks;
    half of them turn out to be slower, and its budget is spent."""
    space = {"num_worker_threads": [*range(1, threads + 1)], "intra_op_threads": [1, 2]}
    plan = plan_of(space=space, budget="1000s", sampler="grid")
    store, launcher = MemoryStore(plan.candidates()), FakeLauncher()
    budget = Budget(1000.0, 1000.0, launcher.clock(), launcher.clock)
    measurer = Measurer(Runner(plan, launcher, store.folder), store, Silent(), budget)
    log = measurer.log
    trials = range(len(log.configs))
    records = calibrated(trials)
    for block in range(6):
        again = took(1.0 + 0.01 * (block % 2))
        records.append(Record(trial=0, block=block, phase="race", again=True, outcome=again))
        for trial in trials:
            noise = 1.0 + 0.01 * ((block * 7 + trial * 5) % 11)
            records.append(world("race", trial, block, took(noise * (1.0 + trial % 2))))
    for record in records:
        log.add(record)
    log.looks = tuple(InterimAnalysis(rows, 0.005, 100.0 * rows, 1000.0) for rows in (4, 5))
    return measurer


def test_a_look_takes_twice_as_long_for_twice_as_many_configurations() -> None:
    def steps(threads: int) -> int:
        measurer = looked_at(threads)
        found = steps_of(lambda: race(measurer)) + steps_of(lambda: conclude(measurer.log))
        assert len(measurer.log.looks) == 3
        assert len(measurer.log.eliminated) >= threads - 1
        return found

    few, many = steps(100), steps(200)
    assert many < 2.3 * few
