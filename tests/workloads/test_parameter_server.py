import sys
from typing import ClassVar

import pytest
import torch

from tests.fakes import order
from tests.workloads.workload_contract import WorkloadContract, launcher
from tuner.world.local.local_launcher import LocalLauncher
from tuner.world.measurement import Failure, Measurement
from workloads import WorkloadError
from workloads.parameter_server import BATCHES, ParameterServer

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
    faulty = (f"{COPIES}:Doubling",)


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


def test_options_out_of_their_limits_are_refused() -> None:
    with pytest.raises(WorkloadError) as raised:
        ParameterServer(trainers=0, image_size=7, batch_size=0, model="large")
    assert raised.value.problems == (
        "option trainers must be at least 1 and at most 63, got 0",
        "option image_size must be at least 8 and at most 1024, got 7",
        "option batch_size must be at least 1 and at most 4096, got 0",
        "option model must be small or resnet50, got 'large'",
    )


def test_what_cannot_be_had_here_is_reported_together(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torchvision", None)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with pytest.raises(WorkloadError) as raised:
        ParameterServer(model="resnet50", device="cuda", batch_size=1)
    assert raised.value.problems == (
        "option device is cuda, and PyTorch finds no GPU here",
        "option model is resnet50, which needs torchvision, and that is not installed",
        "option batch_size must be at least 2 with model resnet50, for its BatchNorm, got 1",
    )


def test_the_server_drives() -> None:
    assert [str(rank.name) for rank in ParameterServer(trainers=3).ranks()] == [
        "ps", "trainer1", "trainer2", "trainer3",
    ]  # fmt: skip
    assert {rank.role for rank in ParameterServer().ranks()} == {"server", "trainer"}
