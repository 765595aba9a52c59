"""What a runner makes of the outcome of a world."""

from pathlib import Path

from tests.fakes import UDF, FakeLauncher
from tuner.plan.config import Config
from tuner.plan.draft import draft_plan
from tuner.searching.runner import Runner
from tuner.study.folder import StudyFolder
from tuner.world.measurement import Failure


def test_a_world_that_used_more_cpus_than_there_are_is_no_wrong_answer(tmp_path: Path) -> None:
    launcher = FakeLauncher(cpu_cores=lambda config: 1e6, others_cpus=lambda world: 0.0)
    plan = draft_plan({"workload": "udf", "out": str(tmp_path)}).finish(UDF)
    outcome = Runner(plan, launcher, StudyFolder(tmp_path)).run(Config.of({}), 0, 5)
    assert isinstance(outcome, Failure)
    # A wrong answer would bar the configuration for good.
    assert outcome.failure == "crashed"
    assert outcome.message.startswith("its ranks report what cannot be: ")
