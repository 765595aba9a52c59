from typing import ClassVar

import pytest
import torch

from tests.workloads.workload_contract import WorkloadContract, launcher
from workloads import Rank, WorkloadError, World
from workloads.builtin import OPERATORS, Builtin

__all__ = ["launcher"]

WORLD = World(rank=0, ranks=(Rank("worker0", "caller"), Rank("worker1", "server")), seed=3)


class TestBuiltin(WorkloadContract):
    reference = "builtin"
    options: ClassVar[dict[str, object]] = {"calls": 3, "size": 2}
    faulty = ("tests.workloads.faults:LastElementOff",)


def answered(world: World = WORLD) -> Builtin:
    """The workload after a step whose calls were made here."""
    workload = Builtin(calls=2, size=4)
    workload.setup(world)
    workload._results = [
        operator(*operands) for operands in workload._operands for operator in OPERATORS
    ]
    return workload


def test_right_results_pass_the_check() -> None:
    answered().check(WORLD)


def test_operands_are_small_uniform_and_all_different() -> None:
    operands = torch.stack([tensor for pair in answered()._operands for tensor in pair])
    assert operands.shape == (4, 4, 4)
    assert operands.min() >= 0
    assert operands.max() < 1
    assert len(set(operands.flatten().tolist())) == operands.numel()


def test_the_seed_decides_the_operands() -> None:
    torch.manual_seed(1)
    first = answered()
    torch.manual_seed(2)
    again = answered()
    other = answered(World(rank=0, ranks=WORLD.ranks, seed=4))
    assert torch.equal(first._operands[1][1], again._operands[1][1])
    assert not torch.equal(first._operands[1][1], other._operands[1][1])


def test_the_server_draws_nothing() -> None:
    workload = Builtin()
    workload.setup(World(rank=1, ranks=WORLD.ranks, seed=3))
    assert not hasattr(workload, "_operands")


def test_a_missing_result_is_noticed() -> None:
    workload = answered()
    workload._results.pop()
    with pytest.raises(AssertionError, match="4 calls gave 3 results"):
        workload.check(WORLD)


def test_a_result_of_another_shape_is_noticed() -> None:
    workload = answered()
    workload._results[2] = workload._results[2][:1]
    with pytest.raises(AssertionError, match=r"torch\.add of pair 1 gave the shape \(1, 4\)"):
        workload.check(WORLD)


def test_the_other_operator_is_noticed() -> None:
    workload = answered()
    workload._results[1] = workload._results[0]
    with pytest.raises(AssertionError, match=r"torch\.mul of pair 0 gave another result"):
        workload.check(WORLD)


def test_results_of_another_pair_are_noticed() -> None:
    workload = answered()
    workload._results = [*workload._results[2:], *workload._results[:2]]
    with pytest.raises(AssertionError, match=r"torch\.add of pair 0 gave another result"):
        workload.check(WORLD)


def test_an_empty_step_is_refused() -> None:
    with pytest.raises(WorkloadError) as raised:
        Builtin(calls=0, size=0)
    assert raised.value.problems == (
        "option calls must be at least 1, got 0",
        "option size must be at least 1, got 0",
    )
