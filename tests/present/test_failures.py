"""What is said of configurations that fail now and then."""

from dataclasses import replace

from tests.present.results import ROWS, study_result
from tuner.plan.study_plan import StudyPlan
from tuner.present.failures import failing_sentences
from tuner.study.evidence import Cause


def test_each_cause_of_one_configuration_has_its_own_number_of_worlds(plan: StudyPlan) -> None:
    rows = (replace(ROWS[0], worlds_run=14, worlds_failed=3), *ROWS[1:])
    causes = (Cause("crashed", "no shard", {1: 2}), Cause("timed-out", "not done", {1: 1}))
    assert failing_sentences(study_result(plan, rows=rows, causes=causes)) == [
        "num_worker_threads=4 failed in 2 of 14 worlds: crashed: no shard.",
        "num_worker_threads=4 failed in 1 of 14 worlds: timed-out: not done.",
    ]
