"""What a runner makes of the outcome of a world, and of its trace."""

from pathlib import Path

import pytest

from tests.fakes import UDF, FakeLauncher
from tuner.plan.config import Config
from tuner.plan.draft import draft_plan
from tuner.searching.runner import TRACE_ATTEMPTS, Runner, TimedWorld
from tuner.study.folder import StudyFolder
from tuner.world.launcher import WorldOrder
from tuner.world.measurement import Failure, Measurement

pytestmark = pytest.mark.reads_traces


def runner_of(launcher: FakeLauncher, folder: Path) -> Runner:
    plan = draft_plan({"workload": "udf", "out": str(folder)}).finish(UDF)
    return Runner(plan, launcher, StudyFolder(folder))


def test_a_world_that_used_more_cpus_than_there_are_is_no_wrong_answer(tmp_path: Path) -> None:
    launcher = FakeLauncher(cpu_cores=lambda config: 1e6, others_cpus=lambda world: 0.0)
    outcome = runner_of(launcher, tmp_path).run(TimedWorld(0, 0, Config.of({}), 5))
    assert isinstance(outcome, Failure)
    # A wrong answer would bar the configuration for good.
    assert outcome.failure == "crashed"
    assert outcome.message.startswith("its ranks report what cannot be: ")


class LosesTraces(FakeLauncher):
    """Every trace is gone, or is no trace, when the world has ended."""

    leaves: bytes | None = None

    def run(self, order: WorldOrder) -> Measurement | Failure:
        outcome = super().run(order)
        assert order.trace is not None
        order.trace.path.unlink()
        if self.leaves is not None:
            order.trace.path.write_bytes(self.leaves)
        return outcome


def test_a_trace_is_taken_again_in_what_is_left_of_the_time(tmp_path: Path) -> None:
    launcher = FakeLauncher(trace_fails=lambda config: "trace-failed", failing_s=lambda config: 4.0)
    runner_of(launcher, tmp_path).trace(Config.of({}), step_s=0.1, deadline_s=10.0)
    assert [order.deadline_s for order in launcher.traced] == [10.0, 6.0]


@pytest.mark.parametrize("leaves", [None, b"", b"{}", b"\0"])
def test_a_trace_that_cannot_be_read_fails_the_world(tmp_path: Path, leaves: bytes | None) -> None:
    launcher = LosesTraces()
    launcher.leaves = leaves
    outcome = runner_of(launcher, tmp_path).trace(Config.of({}), step_s=0.1, deadline_s=5.0)
    assert isinstance(outcome, Failure)
    assert outcome.failure == "trace-failed"
    assert "the trace cannot be read" in outcome.message
    assert len(launcher.traced) == TRACE_ATTEMPTS
