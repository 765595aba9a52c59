import random

from tests.known import known
from tests.study.made import calibrated, failed, log_of, plan_of, took, world
from tuner.decide.interim_analysis import InterimAnalysis
from tuner.study.evidence import causes_of, fails_more_often, gain_of, rivals_of
from tuner.study.log import StudyLog
from tuner.study.records import CALIBRATION_BLOCK
from tuner.world.measurement import Failure

PLAN = plan_of(1, 2)
WIDE = plan_of(1, 2, 4, 8, 32)
EXPLORED = [*calibrated(range(6)), *(world("exploration", t, 0, took(1.0)) for t in range(6))]


def test_an_exploration_is_no_part_of_a_claim() -> None:
    noise = random.Random(3)
    race = [
        world("race", trial, block, took(noise.uniform(0.9, 1.1)))
        for block in range(1, 9)
        for trial in (0, 1, 2)
    ]
    after, alone = log_of(WIDE, *EXPLORED, *race), log_of(WIDE, *EXPLORED[:3], *race)
    for log in (after, alone):
        log.eliminated = dict.fromkeys((3, 4, 5), "behind")
        log.looks = (InterimAnalysis(8, 0.05, 1.0, 1.0),)
    assert rivals_of(after) == [1, 2]
    found = known(gain_of(after, 1))
    assert found == gain_of(alone, 1)


def raced(often: int, blocks: int = 30) -> StudyLog:
    """Trial 1 fails in its first so many blocks, trial 2 in none, the baseline in one."""
    log = log_of(PLAN, *calibrated(range(3)))
    for block in range(blocks):
        for trial in range(3):
            fails = (trial == 1 and block < often) or (trial == 0 and block == 3)
            log.add(world("race", trial, block, failed() if fails else took(1.0)))
    return log


def test_who_fails_much_more_often_than_the_others_is_found() -> None:
    log = raced(12)
    assert [fails_more_often(log, trial) for trial in range(3)] == [False, True, False]
    assert not fails_more_often(raced(2), 1)
    alone = log_of(PLAN, *calibrated([0]), *(world("race", 0, n, failed()) for n in range(20)))
    assert not fails_more_often(alone, 0)
    # Who is out for it is no measure for the others.
    log = raced(30)
    for block in range(30, 100):
        log.add(world("race", 0, block, took(1.0)))
        log.add(world("race", 2, block, took(1.0) if block % 3 else failed()))
    assert not fails_more_often(log, 2)
    log.unreliable = (1,)
    assert fails_more_often(log, 2)


def test_causes_are_those_of_what_has_run_the_most_frequent_first() -> None:
    log = raced(2)
    for block, message in enumerate(("no shard 7", "no shard 12", "no shard 7", "no shard 8")):
        failure = Failure(failure="wrong-answer", message=message, world_s=1.0)
        log.add(world("race", 2, 100 + block, failure))
    never = log_of(PLAN, world("calibration", 2, CALIBRATION_BLOCK, failed()))
    assert causes_of(never) == ()
    first, second = causes_of(log)
    assert (first.failure, first.message, first.worlds) == ("wrong-answer", "no shard 7", {2: 4})
    assert (second.failure, second.worlds) == ("crashed", {0: 1, 1: 2})
