import random

from tests.fakes import UDF
from tests.study.test_log import log_of, took, world
from tuner.decide.interim_analysis import InterimAnalysis
from tuner.plan.draft import draft_plan
from tuner.study.evidence import gain_of, rivals_of
from tuner.study.records import CALIBRATION_BLOCK

PLAN = draft_plan({"workload": "udf", "space": {"num_worker_threads": [1, 2, 4, 8, 32]}}).finish(
    UDF
)
EXPLORED = [
    *(world("calibration", trial, CALIBRATION_BLOCK, took(1.0)) for trial in range(6)),
    *(world("exploration", trial, 0, took(1.0)) for trial in range(6)),
]


def test_an_exploration_is_no_part_of_a_claim() -> None:
    """Neither its worlds nor how many it tried: the race has worlds of its own."""
    noise = random.Random(3)
    race = [
        world("race", trial, block, took(noise.uniform(0.9, 1.1)))
        for block in range(1, 9)
        for trial in (0, 1, 2)
    ]
    after, alone = log_of(PLAN, *EXPLORED, *race), log_of(PLAN, *EXPLORED[:3], *race)
    for log in (after, alone):
        log.eliminated = dict.fromkeys((3, 4, 5), "behind")
        log.looks = (InterimAnalysis(8, 0.05, 1.0, 1.0),)
    assert rivals_of(after) == [1, 2]
    found = gain_of(after, 1)
    assert found is not None
    assert found == gain_of(alone, 1)
