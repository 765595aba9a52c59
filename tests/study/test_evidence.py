from testing.made import calibrated, failed, log_of, plan_of, took, world
from tuner.study.evidence import causes_of, fails_more_often, rivals_of
from tuner.study.log import StudyLog
from tuner.study.records import CALIBRATION_BLOCK
from tuner.world.measurement import Failure

PLAN = plan_of(1, 2)
WIDE = plan_of(1, 2, 4, 8, 32)


def test_who_was_out_before_the_race_is_no_rival() -> None:
    race = [world("race", trial, 0, took(1.0)) for trial in range(3)]
    log = log_of(WIDE, *calibrated(range(6)), *race)
    for trial in (2, 3, 4, 5):
        log.eliminate(trial, "behind")
    assert rivals_of(log) == [1, 2]


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
    log.distrust(1)
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
