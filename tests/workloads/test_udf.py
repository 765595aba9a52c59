from typing import ClassVar

import pytest
import torch

from tests.workloads.workload_contract import WorkloadContract, launcher
from workloads import Rank, WorkloadError, World
from workloads.udf import Udf, num_workers_udf_with_ops

__all__ = ["launcher"]


class TestUdf(WorkloadContract):
    reference = "udf"
    options: ClassVar[dict[str, object]] = {"calls": 2, "size": 20, "rounds": 3}
    faulty = ("tests.workloads.faults:OneCallOff",)


WORLD = World(rank=0, ranks=(Rank("worker0", "caller"), Rank("worker1", "server")), seed=3)


def results(count: int) -> Udf:
    workload = Udf(calls=2, size=4, rounds=1)
    workload._results = [num_workers_udf_with_ops(4, 1, WORLD.seed + n) for n in range(count)]
    return workload


def test_one_round_is_mul_add_relu_sigmoid() -> None:
    sample = torch.randn(5, 5, generator=torch.Generator().manual_seed(9))
    expected = torch.sigmoid(torch.relu(2 * sample**2))
    assert torch.allclose(num_workers_udf_with_ops(5, 1, 9), expected)


def test_no_round_is_the_sample() -> None:
    sample = torch.randn(5, 5, generator=torch.Generator().manual_seed(9))
    assert torch.equal(num_workers_udf_with_ops(5, 0, 9), sample)


def test_right_results_pass_the_check() -> None:
    results(2).check(WORLD)


def test_a_missing_result_is_noticed() -> None:
    with pytest.raises(AssertionError, match="2 calls gave 1 results"):
        results(1).check(WORLD)


def test_a_result_of_another_call_is_noticed() -> None:
    workload = results(2)
    workload._results.reverse()
    with pytest.raises(AssertionError, match="call 0 gave another result"):
        workload.check(WORLD)


def test_a_result_of_another_shape_is_noticed() -> None:
    workload = results(2)
    workload._results[1] = workload._results[1][:2]
    with pytest.raises(AssertionError, match=r"call 1 gave the shape \(2, 4\)"):
        workload.check(WORLD)


def test_an_empty_step_is_refused() -> None:
    with pytest.raises(WorkloadError) as raised:
        Udf(calls=0, size=-1, rounds=0)
    assert raised.value.problems == (
        "option calls must be at least 1, got 0",
        "option size must be at least 1, got -1",
    )


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
def test_a_gpu_that_is_not_there_is_refused() -> None:
    with pytest.raises(WorkloadError, match="PyTorch finds no GPU here"):
        Udf(device="cuda")
