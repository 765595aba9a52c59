from collections.abc import Callable
from typing import ClassVar

import pytest
import torch

from tests.workloads.workload_contract import CALLER_AND_SERVER, WorkloadContract, launcher
from workloads import World
from workloads.payload import Payload, echo

__all__ = ["launcher"]

WORLD = World(rank=0, ranks=CALLER_AND_SERVER, seed=3)


class TestPayload(WorkloadContract):
    reference = "payload"
    options: ClassVar[dict[str, object]] = {"megabytes": 0.2, "calls": 3, "tensors": 2}


def answered(seed: int = 3) -> Payload:
    """The workload after a step whose calls were made here."""
    workload = Payload(megabytes=0.002, calls=3, tensors=2)
    workload.setup(World(rank=0, ranks=WORLD.ranks, seed=seed))
    workload._echoes = [[t.clone() for t in echo(payload)] for payload in workload._payloads]
    return workload


@pytest.mark.parametrize("tensors", [1, 4])
def test_a_payload_is_split_into_tensors(tensors: int) -> None:
    workload = Payload(megabytes=4, calls=1, tensors=tensors)
    workload.setup(WORLD)
    (payload,) = workload._payloads
    assert len(payload) == tensors
    assert sum(tensor.nbytes for tensor in payload) == 4_000_000
    assert {tensor.untyped_storage().nbytes() for tensor in payload} == {4_000_000 // tensors}
    assert {tensor.dtype for tensor in payload} == {torch.float32}


def test_payloads_are_all_different_of_the_seed_alone_and_the_callers() -> None:
    workload = Payload(megabytes=4e-6, calls=4096)
    workload.setup(WORLD)
    assert len({float(payload[0]) for (payload,) in workload._payloads}) == 4096
    torch.manual_seed(1)
    first = answered()._payloads[1][1]
    torch.manual_seed(2)
    assert torch.equal(first, answered()._payloads[1][1])
    assert not torch.equal(first, answered(seed=9)._payloads[1][1])
    server = Payload()
    server.setup(World(rank=1, ranks=WORLD.ranks, seed=3))
    assert not hasattr(server, "_payloads")


def share_a_payload(workload: Payload) -> None:
    workload._payloads = workload._payloads[:1] * 3


def change_the_kind(workload: Payload) -> None:
    workload._echoes[1][0] = workload._echoes[1][0].double()


def change_the_sign_of_zero(workload: Payload) -> None:
    workload._payloads[2][1][7] = 0.0
    workload._echoes[2][1][7] = -0.0


def not_travel(workload: Payload) -> None:
    workload._echoes[0] = workload._payloads[0]


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (lambda workload: workload._echoes.pop(), "3 calls gave 2 echoes"),
        (lambda workload: workload._echoes[1].pop(), "call 1 sent 2 tensors, got 1"),
        (lambda workload: workload._echoes.reverse(), "0 of call 0 came back with .* changed"),
        (lambda workload: workload._echoes[-1].reverse(), "0 of call 2 came back with .* changed"),
        (share_a_payload, "calls share a payload"),
        (change_the_kind, r"tensor 0 of call 1 came back as torch.float64 \("),
        (change_the_sign_of_zero, "tensor 1 of call 2 came back with 1 of 250 elements"),
        (not_travel, "tensor 0 of call 0 is the one that was sent"),
    ],
)
def test_wrong_echoes_are_noticed(spoil: Callable[[Payload], object], message: str) -> None:
    workload = answered()
    workload.check(WORLD)
    spoil(workload)
    with pytest.raises(AssertionError, match=message):
        workload.check(WORLD)
