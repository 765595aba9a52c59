import time
from collections.abc import Callable
from typing import ClassVar

import pytest
import torch

from tests.workloads.workload_contract import CALLER_AND_SERVER, WorkloadContract, launcher
from workloads import World
from workloads.udf_sleep import UdfSleep, udf_with_ops

__all__ = ["launcher"]

WORLD = World(rank=0, ranks=CALLER_AND_SERVER, seed=3)


class TestUdfSleep(WorkloadContract):
    reference = "udf_sleep"
    options: ClassVar[dict[str, object]] = {"sleep_ms": 20, "calls": 3}


def answered(**options: object) -> UdfSleep:
    """The workload after a step of 2 ms whose calls were made here."""
    workload = UdfSleep(**{"sleep_ms": 2, "calls": 2, **options})
    workload._results = [udf_with_ops(0, "cpu", WORLD.seed + call) for call in range(2)]
    workload._shortest_step_s = 0.002
    return workload


def test_a_call_sleeps_then_adds_and_multiplies_what_the_seed_alone_decides() -> None:
    torch.manual_seed(1)
    start_s = time.monotonic()
    total, product = udf_with_ops(30, "cpu", 9)
    assert time.monotonic() - start_s >= 0.03
    generator = torch.Generator().manual_seed(9)
    first, second = (torch.rand(3, 3, generator=generator) for _ in range(2))
    assert torch.equal(total, first + second)
    assert torch.equal(product, first * second)
    assert not torch.equal(total, udf_with_ops(0, "cpu", 10)[0])
    assert UdfSleep().sleep_ms == 1000  # that of the recipe


def test_the_check_does_not_sleep() -> None:
    workload = answered(sleep_ms=2000)
    workload._shortest_step_s = 2.0
    start_s = time.monotonic()
    workload.check(WORLD)
    assert time.monotonic() - start_s < 1


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (lambda found: found[:1], "2 calls gave 1 results"),
        (lambda found: found[::-1], "call 0 gave another sum"),
        (lambda found: [found[0], found[1][::-1]], "call 1 gave another sum"),
        (lambda found: [found[0], (found[1][0], torch.zeros(2, 3))],
         r"call 1 gave a product of the shape \(2, 3\)"),
    ],
)  # fmt: skip
def test_wrong_results_are_noticed(
    spoil: Callable[[list[object]], list[object]], message: str
) -> None:
    workload = answered()
    workload.check(WORLD)
    workload._results = spoil([*workload._results])  # type: ignore[assignment]
    with pytest.raises(AssertionError, match=message):
        workload.check(WORLD)


def test_a_step_without_its_sleep_is_noticed() -> None:
    with pytest.raises(AssertionError, match="a step of 2 ms cannot hold a sleep of 20 ms"):
        answered(sleep_ms=20).check(WORLD)
