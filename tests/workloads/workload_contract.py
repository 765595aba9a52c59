"""What every shipped workload must do; subclassed per workload."""

from collections.abc import Iterator
from typing import ClassVar

import pytest

from tests.fakes import order
from tests.world.local.launching import impatient_launcher
from tuner.world.local.local_launcher import LocalLauncher
from tuner.world.measurement import Failure, Measurement
from workloads import Rank

CALLER_AND_SERVER = (Rank("worker0", "caller"), Rank("worker1", "server"))


@pytest.fixture(scope="module")
def launcher() -> Iterator[LocalLauncher]:
    """One launcher for all worlds of a module."""
    with impatient_launcher(grace_s=0.0) as running:
        yield running


@pytest.mark.world
@pytest.mark.thorough
class WorkloadContract:
    """Subclasses name the workload and its quick options."""

    reference: ClassVar[str]
    options: ClassVar[dict[str, object]]
    faulty: ClassVar[tuple[str, ...]] = ()
    """`module:Class`: the workload with a wrong answer, where `check` asks several functions."""
    deadlocks_with_one_thread: ClassVar[bool] = False
    """By nature: a served function waits for a call of its own."""

    @pytest.mark.parametrize("threads", [1, 16])
    def test_gives_a_right_answer(self, launcher: LocalLauncher, threads: int) -> None:
        spec = launcher.describe(self.reference, self.options)
        outcome = launcher.run(order(spec, threads=threads))
        if threads == 1 and self.deadlocks_with_one_thread:
            assert isinstance(outcome, Failure), outcome
            assert outcome.failure == "deadlocked"
            return
        assert isinstance(outcome, Measurement), outcome
        assert len(outcome.step_s) == 5

    def test_describes_itself(self, launcher: LocalLauncher) -> None:
        spec = launcher.describe(self.reference, self.options)
        assert spec.summary.endswith(".")
        assert {name: spec.options[name] for name in self.options} == self.options

    def test_its_check_notices_a_fault(self, launcher: LocalLauncher) -> None:
        for faulty in self.faulty:
            outcome = launcher.run(order(launcher.describe(faulty, self.options)))
            assert isinstance(outcome, Failure), (faulty, outcome)
            assert outcome.failure == "wrong-answer", (faulty, outcome)
