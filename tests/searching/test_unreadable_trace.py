"""A traced world whose trace cannot be read fails; the search goes on."""

from pathlib import Path

import pytest

from tests.fakes import UDF, FakeLauncher
from tuner.plan.config import Config
from tuner.plan.draft import draft_plan
from tuner.searching.runner import TRACE_ATTEMPTS, Runner
from tuner.study.folder import StudyFolder
from tuner.world.launcher import WorldOrder
from tuner.world.measurement import Failure, Measurement

pytestmark = pytest.mark.reads_traces


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
    plan = draft_plan({"workload": "udf", "out": str(tmp_path)}).finish(UDF)
    runner = Runner(plan, launcher, StudyFolder(tmp_path))
    runner.trace(Config.of({}), step_s=0.1, deadline_s=10.0)
    assert [order.deadline_s for order in launcher.traced] == [10.0, 6.0]


@pytest.mark.parametrize("leaves", [None, b"", b"{}", b"\0"])
def test_a_trace_that_cannot_be_read_fails_the_world(tmp_path: Path, leaves: bytes | None) -> None:
    launcher = LosesTraces()
    launcher.leaves = leaves
    plan = draft_plan({"workload": "udf", "out": str(tmp_path)}).finish(UDF)
    runner = Runner(plan, launcher, StudyFolder(tmp_path))
    outcome = runner.trace(Config.of({}), step_s=0.1, deadline_s=5.0)
    assert isinstance(outcome, Failure)
    assert outcome.failure == "trace-failed"
    assert "the trace cannot be read" in outcome.message
    assert len(launcher.traced) == TRACE_ATTEMPTS
