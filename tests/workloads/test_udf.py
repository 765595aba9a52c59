from collections.abc import Callable
from typing import ClassVar

import pytest
import torch
from torch import Tensor

from tests.workloads.workload_contract import CALLER_AND_SERVER, WorkloadContract, launcher
from workloads import World
from workloads.udf import Udf, num_workers_udf_with_ops

__all__ = ["launcher"]

WORLD = World(rank=0, ranks=CALLER_AND_SERVER, seed=3)


class TestUdf(WorkloadContract):
    reference = "udf"
    options: ClassVar[dict[str, object]] = {"calls": 2, "size": 20, "rounds": 3}


def test_one_round_is_mul_add_relu_sigmoid_of_the_sample() -> None:
    sample = torch.randn(5, 5, generator=torch.Generator().manual_seed(9))
    assert torch.equal(num_workers_udf_with_ops(5, 0, 9), sample)
    expected = torch.sigmoid(torch.relu(2 * sample**2))
    assert torch.allclose(num_workers_udf_with_ops(5, 1, 9), expected)


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (lambda found: found, None),
        (lambda found: found[:1], "2 calls gave 1 results"),
        (lambda found: found[::-1], "call 0 gave another result"),
        (lambda found: [found[0], found[1][:2]], r"call 1 gave the shape \(2, 4\)"),
    ],
)
def test_wrong_results_are_noticed(
    spoil: Callable[[list[Tensor]], list[Tensor]], message: str | None
) -> None:
    workload = Udf(calls=2, size=4, rounds=1)
    workload._results = spoil([num_workers_udf_with_ops(4, 1, 3 + call) for call in range(2)])
    if message is None:
        workload.check(WORLD)
        return
    with pytest.raises(AssertionError, match=message):
        workload.check(WORLD)
