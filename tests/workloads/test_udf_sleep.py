import time
from dataclasses import replace
from typing import ClassVar

import pytest
import torch

from tests.workloads.workload_contract import WorkloadContract, launcher
from workloads import Rank, WorkloadError, World
from workloads.udf_sleep import UdfSleep, udf_with_ops

__all__ = ["launcher"]

WORLD = World(rank=0, ranks=(Rank("worker0", "caller"), Rank("worker1", "server")), seed=3)


class TestUdfSleep(WorkloadContract):
    reference = "udf_sleep"
    options: ClassVar[dict[str, object]] = {"sleep_ms": 20, "calls": 3}
    faulty = ("tests.workloads.faults:SharedGenerator", "tests.workloads.faults:NoSleep")


def answered(**options: object) -> UdfSleep:
    """The workload after a step whose calls were made here."""
    workload = UdfSleep(**{"sleep_ms": 2, "calls": 2, **options})
    workload._results = [udf_with_ops(0, "cpu", WORLD.seed + call) for call in range(2)]
    workload._shortest_step_s = 0.002
    return workload


def test_a_call_sleeps_then_adds_and_multiplies() -> None:
    start_s = time.monotonic()
    total, product = udf_with_ops(30, "cpu", 9)
    assert time.monotonic() - start_s >= 0.03
    generator = torch.Generator().manual_seed(9)
    first, second = (torch.rand(3, 3, generator=generator) for _ in range(2))
    assert torch.equal(total, first + second)
    assert torch.equal(product, first * second)


def test_the_seed_alone_decides_the_result() -> None:
    torch.manual_seed(1)
    first = udf_with_ops(0, "cpu", 9)
    torch.manual_seed(2)
    again = udf_with_ops(0, "cpu", 9)
    assert torch.equal(first[0], again[0])
    assert not torch.equal(first[0], udf_with_ops(0, "cpu", 10)[0])


def test_the_default_is_the_sleep_of_the_recipe() -> None:
    assert UdfSleep().sleep_ms == 1000


def test_right_results_pass_the_check() -> None:
    answered().check(WORLD)


def test_the_check_does_not_sleep() -> None:
    workload = answered(sleep_ms=2000)
    workload._shortest_step_s = 2.0
    start_s = time.monotonic()
    workload.check(WORLD)
    assert time.monotonic() - start_s < 1


def test_a_missing_result_is_noticed() -> None:
    workload = answered()
    workload._results.pop()
    with pytest.raises(AssertionError, match="2 calls gave 1 results"):
        workload.check(WORLD)


def test_a_result_of_another_call_is_noticed() -> None:
    with pytest.raises(AssertionError, match="call 0 gave another sum"):
        answered().check(replace(WORLD, seed=4))


def test_a_sum_in_place_of_the_product_is_noticed() -> None:
    workload = answered()
    total, product = workload._results[-1]
    workload._results[-1] = product, total
    with pytest.raises(AssertionError, match="call 1 gave another sum"):
        workload.check(WORLD)


def test_a_result_of_another_shape_is_noticed() -> None:
    workload = answered()
    workload._results[1] = (workload._results[1][0], torch.zeros(2, 3))
    with pytest.raises(AssertionError, match=r"call 1 gave a product of the shape \(2, 3\)"):
        workload.check(WORLD)


def test_a_step_without_its_sleep_is_noticed() -> None:
    workload = answered(sleep_ms=20)
    with pytest.raises(AssertionError, match="a step of 2 ms cannot hold a sleep of 20 ms"):
        workload.check(WORLD)


def test_bad_options_are_refused_together() -> None:
    with pytest.raises(WorkloadError) as raised:
        UdfSleep(sleep_ms=-1, calls=0, device="tpu")
    assert raised.value.problems == (
        "option sleep_ms must be at least 0, got -1",
        "option calls must be at least 1, got 0",
        "option device must be cpu or cuda, got 'tpu'",
    )


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
def test_a_gpu_that_is_not_there_is_reported() -> None:
    with pytest.raises(WorkloadError, match="option device is cuda, and PyTorch finds no GPU"):
        UdfSleep(device="cuda")
