"""What a trial is, and what is made anew when that changes."""

from testing.made import calibrated, failed, log_of, plan_of, took, world
from tuner.decide.interim_analysis import InterimAnalysis
from tuner.study.conclusion import comparison_of
from tuner.study.evidence import gains_of, strongest_rival
from tuner.study.log import BASELINE, StudyLog
from tuner.study.records import CALIBRATION_BLOCK
from tuner.study.trial_state import TrialState
from tuner.world.measurement import Failure

PLAN = plan_of(1, 2)
WRONG = Failure(failure="wrong-answer", message="no shard 7", world_s=1.0)


def raced(blocks: int = 6) -> StudyLog:
    """Trial 1 is faster than the others."""
    log = log_of(PLAN, *calibrated(range(3)))
    for block in range(blocks):
        for trial in range(3):
            noise = 1.0 + 0.01 * ((block * 7 + trial * 5) % 11)
            log.add(world("race", trial, block, took(noise * (0.5 if trial == 1 else 1.0))))
    return log


def test_a_record_says_whose_state_it_has_changed() -> None:
    log = log_of(PLAN)
    before = log.states[1]
    assert log.add(world("calibration", 1, CALIBRATION_BLOCK, failed())) == {1: before}
    assert (log.failures, log.states[1].outcome) == ((1,), "crashed")
    assert log.add(world("calibration", 1, CALIBRATION_BLOCK, failed())) == {}
    changed = log.add(world("calibration", 1, CALIBRATION_BLOCK, took(1.0)))
    assert [*changed] == [1]
    assert changed[1].never_ran()
    assert log.runnable == (1,)
    assert log.candidates == (0, 1, 2)


def test_a_wrong_answer_bars_no_trial_once_the_baseline_gives_one() -> None:
    log = raced()
    log.add(world("race", 1, 6, WRONG))
    assert log.states[1].why_out == WRONG
    assert (log.alive, log.candidates) == ((0, 2), (0, 2))
    changed = log.add(world("race", BASELINE, 6, WRONG))
    assert 1 in changed
    assert log.states[1].why_out is None
    assert log.alive == (0, 1, 2)


def test_one_that_is_out_is_alive_and_no_candidate() -> None:
    log = raced()
    log.eliminate(2, "behind")
    assert (log.alive, log.candidates, log.racing) == ((0, 1, 2), (0, 1), (0, 1))
    assert (log.eliminated, log.states[2].outcome) == ((2,), "eliminated")
    log.eliminate(2, None)
    assert (log.candidates, log.states[2].outcome) == ((0, 1, 2), "completed")


def test_what_follows_from_a_log_is_made_once_for_each_version() -> None:
    log, asked = raced(), list[int]()

    def is_asked(state: TrialState) -> bool:
        asked.append(1)
        return state.is_alive()

    version, gains = log.version, gains_of(log)
    assert log.those(is_asked) == log.those(is_asked) == (0, 1, 2)
    assert len(asked) == 3
    assert strongest_rival(log) == 1
    # A trial that leaves the race changes who is in it, and no gain.
    log.eliminate(1, "behind")
    assert log.version != version
    assert strongest_rival(log) == 2
    assert log.those(is_asked) == (0, 1, 2)
    assert len(asked) == 6
    assert gains_of(log) is gains
    log.add(world("race", 1, 6, took(0.5)))
    assert gains_of(log) is not gains
    log.distrust(2)
    assert strongest_rival(log) == 1


def test_what_is_shown_to_be_better_stands_before_what_looks_better_still() -> None:
    """However many blocks have both: the other one may be slower than the baseline."""
    log = log_of(PLAN, *calibrated(range(3)))
    for block in range(8):
        noise = 1.0 + 0.01 * (block * 7 % 11)
        for trial, times in enumerate((1.0, 0.8, 0.58 if block % 2 else 1.0)):
            log.add(world("race", trial, block, took(noise * times)))
    assert strongest_rival(log) == 2
    log.looks = (InterimAnalysis(8, 0.04, 60.0, 60.0),)
    assert strongest_rival(log) == 1
    assert comparison_of(log).kind == "better"
