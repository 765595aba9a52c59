"""What a log says of each configuration: made-up studies in which blocks differ from each other."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from testing.known import known
from testing.made import calibrated, failed, log_of, plan_of, took, world
from testing.results import ENVIRONMENT
from testing.specs import threads
from tuner.decide.interim_analysis import InterimAnalysis
from tuner.decide.verdict import VerdictKind
from tuner.plan.objectives import Limit
from tuner.present.figures.step_time import scaling_curve
from tuner.present.notes import study_note
from tuner.present.tables import trials_of
from tuner.recommended.building import recommendation_of
from tuner.study import stored
from tuner.study.answer import MachineUse, StudyAnswer
from tuner.study.conclusion import Conclusion, conclude
from tuner.study.evidence import gains_of
from tuner.study.folder import StudyFolder
from tuner.study.log import BASELINE, StudyLog
from tuner.study.metrics import metrics_of
from tuner.study.records import Record
from tuner.world.environment import MachineState
from tuner.world.measurement import Measurement

PLAN = plan_of(1, 2, 4, 8, baseline={"num_worker_threads": 1})


def raced(
    *blocks: tuple[Mapping[int, float], Sequence[float]], records: Sequence[Record] = ()
) -> StudyLog:
    """A log with a block for each number of each `blocks`, in which all steps take so many times as
    long, after the calibrations."""
    log = log_of(PLAN, *(records or calibrated(range(4))))
    first = 0
    for step_s, drift in blocks:
        for place, slower in enumerate(drift):
            for trial, took_s in step_s.items():
                wobble = 1 + 0.01 * (-1) ** (place // (1 + trial))
                log.add(world("race", trial, first + place, took(took_s * slower * wobble)))
        first += len(drift)
    return log


def looked(log: StudyLog, blocks: int, alpha: float = 0.04) -> StudyLog:
    log.looks = (InterimAnalysis(blocks, alpha, 60.0, 60.0),)
    return log


def answer_of(log: StudyLog, conclusion: Conclusion | None = None) -> StudyAnswer:
    store: Any = SimpleNamespace(
        folder=StudyFolder(Path("studies/made-up")), storage_elsewhere=None, elapsed_s=60.0,
        environment=ENVIRONMENT, measured_at=datetime(2026, 11, 21, tzinfo=UTC), noted={}.get,
    )  # fmt: skip
    return stored.answer_of(store, log, conclusion or conclude(log))


def test_ratios_and_the_order_of_the_table_come_from_common_blocks() -> None:
    # Trial 2 is twice as fast as the baseline, but most of its blocks were slow ones. Trial 1 is as
    # fast as the baseline, and was measured only while the machine was fast.
    first, slow = ({BASELINE: 1.0, 1: 1.0, 2: 0.5}, [1.0] * 4), ({BASELINE: 1.0, 2: 0.5}, [4.0] * 8)
    drifting = answer_of(raced(first, slow, ({BASELINE: 1.0, 3: 0.9}, [1.0])))
    medians = sorted(drifting.rows, key=lambda row: row.value)
    assert [row.trial for row in medians] == [3, 1, 2, 0]
    assert [row.trial for row in drifting.rows] == [2, 3, 0, 1]
    two, one = (known(drifting.paired.alone(trial, BASELINE)) for trial in (2, 3))
    assert two.blocks == 12
    assert two.ratio.low < 2.0 < two.ratio.high < 1.1 * two.ratio.low
    assert (one.blocks, one.ratio.low) == (1, 0.0)
    found = known(drifting.paired.alone(1, 2))
    assert found.blocks == 4
    assert found.ratio.estimate == pytest.approx(0.5, rel=0.03)
    assert drifting.paired.compare(3, 2) is None


def test_a_pair_that_no_look_has_compared_has_no_interval() -> None:
    step_s = {BASELINE: 1.0, 1: 0.5, 2: 0.4}
    log = raced((step_s, [1.0] * 4))
    answer = answer_of(log)
    seen = known(answer.paired.compare(1, BASELINE)).ratio
    assert seen.is_alone
    assert seen.estimate == pytest.approx(2.0, rel=0.03)
    assert known(answer.paired.alone(1, BASELINE)).ratio.is_told
    cell = answer.by_trial[1].to_json()
    assert (cell["speedup"], cell["speedup_ci_low"]) == (seen.estimate, None)
    # After a look all pairs have one, that of the rivals too.
    answer = answer_of(looked(log, 4))
    for trial, other in ((1, BASELINE), (2, BASELINE), (1, 2), (2, 1), (BASELINE, 1)):
        found = known(answer.paired.compare(trial, other)).ratio
        tested = known(gains_of(log).gain(trial, other)).exp()
        alone = known(answer.paired.alone(trial, other)).ratio
        assert (found.low, found.high) == (tested.low, tested.high)
        assert (found.low, found.high) != (alone.low, alone.high)


@pytest.mark.parametrize("unreliable", [(), (BASELINE,)])
def test_a_baseline_that_ran_is_compared_whatever_fails(unreliable: tuple[int, ...]) -> None:
    log = raced(({BASELINE: 1.0, 1: 2.0, 2: 1.1}, [1.0] * 4))
    log.add(world("race", BASELINE, 4, failed()))
    log.distrust(*unreliable)
    answer = answer_of(log)
    assert not answer.baseline_failed
    assert all(row.against_baseline for row in answer.rows if row.is_measured)
    assert answer.by_trial[BASELINE].worlds_failed == 1
    # What fails too often is not kept, even where it is the fastest.
    expected = ("better", 2) if unreliable else ("undecided", BASELINE)
    assert (answer.verdict, answer.best_trial) == expected
    assert [each.reason for each in answer.passed_over] == ["unreliable"] * len(unreliable)
    assert [cause.worlds for cause in answer.causes] == [{BASELINE: 1}]


def test_who_is_not_shown_to_be_worse_than_the_best_is_not_told_apart() -> None:
    # Trial 1 is as good as trial 2, and trial 3 is 10 % behind.
    step_s = {BASELINE: 1.0, 1: 0.501, 2: 0.5, 3: 0.55}
    answer = answer_of(looked(raced((step_s, [1.0] * 16)), 16))
    assert (answer.best_trial, answer.verdict) == (2, "better")
    assert (answer.not_excluded, answer.not_told_apart) == ((), (1,))
    early = answer_of(looked(raced((step_s, [1.0] * 4)), 4, 0.001))
    # Who may be more than epsilon better may be as good, too.
    assert early.best_trial == 1
    assert (early.not_excluded, early.not_told_apart) == ((2,), (2,))


def reasons(answer: StudyAnswer) -> dict[int, tuple[str, str | None]]:
    return {each.trial: (each.reason, each.preference) for each in answer.passed_over}


def recommended(log: StudyLog, best: int, kind: VerdictKind = "better") -> StudyAnswer:
    """The answer of a log that recommends this trial, whatever its medians say."""
    gain = gains_of(log).gain(best, BASELINE)
    found = replace(
        conclude(log), best_trial=best, verdict=kind, challenger_trial=best or 1,
        challenger_speedup=None if gain is None else gain.exp(),
    )  # fmt: skip
    return answer_of(log, found)


def test_what_stands_above_the_best_and_why_it_is_not_recommended() -> None:
    # Trial 1 has 2 threads, trial 2 has 4, and trial 3 has 8.
    log = raced(
        ({BASELINE: 1.0, 1: 0.502, 2: 0.498, 3: 0.6}, [1.0, 2.0] * 4),
        ({BASELINE: 1.0, 3: 0.2}, [1.0]),
    )
    looked(log, 9)
    assert reasons(recommended(log, 1)) == {2: ("not-told-apart", "fewer-threads")}
    assert reasons(recommended(log, 2)) == {}
    # Every place tells the same best, whatever the medians say.
    answer = recommended(log, 1)
    assert min(answer.rows, key=lambda row: row.value).trial != 1
    assert [line.row.trial for line in trials_of(answer).lines if line.is_best] == [1]
    assert scaling_curve(answer).answer.best_trial == 1
    assert answer.contenders == {"baseline": 0, "best": 1}
    assert recommendation_of(answer).config == threads(2)
    assert "The dashboard marks trial " in study_note(answer)
    shown = reasons(recommended(log, BASELINE, "undecided"))
    assert shown == dict.fromkeys((2, 1, 3), ("not-shown", None))


def test_few_blocks_a_small_gain_and_a_limit_are_reasons() -> None:
    log = raced(({BASELINE: 1.0, 1: 0.98}, [1.0] * 12), ({BASELINE: 1.0, 2: 0.5}, [1.0]))
    looked(log, 13)
    assert reasons(recommended(log, BASELINE, "keep-baseline")) == {
        2: ("few-blocks", None), 1: ("within-epsilon", "baseline")
    }  # fmt: skip
    limits = {"require": (Limit.read("peak_rss_mb<=50"),)}
    measuring = PLAN.measuring.model_copy(update=limits)
    limited = log_of(PLAN.model_copy(update={"measuring": measuring}), *log.records)
    # All break it, the baseline too: those that are slower than it need no sentence.
    answer = recommended(limited, BASELINE, "undecided")
    assert reasons(answer) == dict.fromkeys((2, 1), ("limit", None))


def beside(others_cpus: float | None, **known: float) -> Measurement:
    state = {"stolen_cpus": 0.0, **known}
    machine = MachineState(seconds=1.0, cpus=2, others_cpus=others_cpus, **state)
    return took(0.1).model_copy(update={"machine": machine})


def use_of(*worlds: Measurement) -> MachineUse:
    return known(MachineUse.of(worlds))


def test_a_tenth_of_the_worlds_makes_a_busy_machine_and_what_is_not_known_does_not_count() -> None:
    quiet = [beside(0.0)] * 9
    assert not use_of(*quiet, beside(1.0)).is_busy
    assert use_of(*quiet, beside(1.0), beside(1.0)).is_busy
    assert MachineUse.of([took(0.1), beside(None)]) is None
    use = use_of(took(0.1), beside(None), beside(1.0, mhz=2000.0), beside(0.5))
    assert (use.worlds, use.disturbed_worlds, use.others_cpus, use.mhz) == (2, 2, 0.75, 2000.0)
    assert (use.load, use.pressure_some) == (None, None)
    found = metrics_of([beside(0.0), beside(1.0), beside(0.5)], None)
    assert (found["others_cpus"], found["disturbed_worlds"]) == (0.5, 2)
    assert "others_cpus" not in metrics_of([took(0.1), beside(None)], None)
