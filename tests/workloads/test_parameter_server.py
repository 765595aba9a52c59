from typing import ClassVar

import pytest

from tests.fakes import order
from tests.workloads.workload_contract import WorkloadContract, launcher
from tuner.world.local.local_launcher import LocalLauncher
from tuner.world.measurement import Failure, Measurement
from workloads.parameter_server import BATCHES

__all__ = ["launcher"]

COPIES = "tests.workloads.parameter_server_copies"
TINY: dict[str, object] = {"image_size": 8, "batch_size": 2}


class TestBatch(WorkloadContract):
    reference = "parameter_server"
    options: ClassVar[dict[str, object]] = {"batch": True, **TINY}
    faulty = (f"{COPIES}:Losing", f"{COPIES}:Stale")


class TestEachAtOnce(WorkloadContract):
    reference = "parameter_server"
    options: ClassVar[dict[str, object]] = {"batch": False, "trainers": 3, **TINY}


@pytest.mark.world
@pytest.mark.thorough
@pytest.mark.parametrize(("batch", "trainers"), [(True, 1), (True, 3), (False, 3)])
def test_the_model_is_what_a_single_process_makes_of_the_same_batches(
    launcher: LocalLauncher, batch: bool, trainers: int
) -> None:
    options = {"batch": batch, "trainers": trainers, **TINY}
    spec = launcher.describe(f"{COPIES}:ComparedWithOneProcess", options)
    # Rounding may tip a ReLU over in one of the two: rare, and not twice in a row.
    for _ in range(3):
        outcome = launcher.run(order(spec, threads=4, steps=2 * BATCHES))
        if isinstance(outcome, Measurement):
            break
    assert isinstance(outcome, Measurement), outcome


@pytest.mark.world
@pytest.mark.thorough
def test_a_trainer_that_fails_ends_the_step(launcher: LocalLauncher) -> None:
    spec = launcher.describe(f"{COPIES}:WithABadLabel", TINY)
    outcome = launcher.run(order(spec, threads=1))
    assert isinstance(outcome, Failure), outcome
    assert outcome.failure == "crashed"
    assert "Target 99 is out of bounds" in outcome.message
