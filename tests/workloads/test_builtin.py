from collections.abc import Callable
from typing import ClassVar

import pytest
import torch
from torch import Tensor

from tests.workloads.workload_contract import CALLER_AND_SERVER, WorkloadContract, launcher
from workloads import World
from workloads.builtin import OPERATORS, Builtin

__all__ = ["launcher"]

WORLD = World(rank=0, ranks=CALLER_AND_SERVER, seed=3)


class TestBuiltin(WorkloadContract):
    reference = "builtin"
    options: ClassVar[dict[str, object]] = {"calls": 3, "size": 2}


def answered(seed: int = 3) -> Builtin:
    """The workload after a step whose calls were made here."""
    workload = Builtin(calls=2, size=4)
    workload.setup(World(rank=0, ranks=WORLD.ranks, seed=seed))
    workload._results = [
        operator(*operands) for operands in workload._operands for operator in OPERATORS
    ]
    return workload


def test_operands_are_small_uniform_all_different_and_of_the_seed_alone() -> None:
    torch.manual_seed(1)
    first = torch.stack([tensor for pair in answered()._operands for tensor in pair])
    assert first.shape == (4, 4, 4)
    assert 0 <= first.min() < first.max() < 1
    assert len(set(first.flatten().tolist())) == first.numel()
    torch.manual_seed(2)
    assert torch.equal(first[3], answered()._operands[1][1])
    assert not torch.equal(first[3], answered(seed=4)._operands[1][1])


def test_the_server_draws_nothing() -> None:
    workload = Builtin()
    workload.setup(World(rank=1, ranks=WORLD.ranks, seed=3))
    assert not hasattr(workload, "_operands")


def test_right_results_pass_the_check() -> None:
    answered().check(WORLD)


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (lambda found: found[:-1], "4 calls gave 3 results"),
        (lambda found: [*found[:2], found[2][:1], found[3]],
         r"torch\.add of pair 1 gave the shape \(1, 4\)"),
        (lambda found: [found[0], found[0], *found[2:]],
         r"torch\.mul of pair 0 gave another result"),
        (lambda found: [*found[2:], *found[:2]], r"torch\.add of pair 0 gave another result"),
    ],
)  # fmt: skip
def test_wrong_results_are_noticed(
    spoil: Callable[[list[Tensor]], list[Tensor]], message: str
) -> None:
    workload = answered()
    workload._results = spoil(workload._results)
    with pytest.raises(AssertionError, match=message):
        workload.check(WORLD)
