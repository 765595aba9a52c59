from typing import ClassVar

import pytest
import torch

from tests.workloads.workload_contract import WorkloadContract, launcher
from workloads import Rank, WorkloadError, World
from workloads.payload import Payload, echo

__all__ = ["launcher"]

WORLD = World(rank=0, ranks=(Rank("worker0", "caller"), Rank("worker1", "server")), seed=3)


class TestPayload(WorkloadContract):
    reference = "payload"
    options: ClassVar[dict[str, object]] = {"megabytes": 0.2, "calls": 3, "tensors": 2}
    faulty = ("tests.workloads.faults:OneBitFlipped",)


def answered(world: World = WORLD) -> Payload:
    """The workload after a step whose calls were made here."""
    workload = Payload(megabytes=0.002, calls=3, tensors=2)
    workload.setup(world)
    workload._echoes = [[t.clone() for t in echo(payload)] for payload in workload._payloads]
    return workload


def test_right_echoes_pass_the_check() -> None:
    answered().check(WORLD)


@pytest.mark.parametrize("tensors", [1, 4])
def test_a_payload_is_split_into_tensors(tensors: int) -> None:
    workload = Payload(megabytes=4, calls=1, tensors=tensors)
    workload.setup(WORLD)
    (payload,) = workload._payloads
    assert len(payload) == tensors
    assert sum(tensor.nbytes for tensor in payload) == 4_000_000
    assert {tensor.untyped_storage().nbytes() for tensor in payload} == {4_000_000 // tensors}
    assert {tensor.dtype for tensor in payload} == {torch.float32}


def test_the_smallest_payloads_are_all_different() -> None:
    workload = Payload(megabytes=4e-6, calls=4096)
    workload.setup(WORLD)
    assert len({float(payload[0]) for (payload,) in workload._payloads}) == 4096


def test_the_seed_decides_the_content() -> None:
    torch.manual_seed(1)
    first = answered()
    torch.manual_seed(2)
    again = answered()
    other = answered(World(rank=0, ranks=WORLD.ranks, seed=9))
    assert torch.equal(first._payloads[1][1], again._payloads[1][1])
    assert not torch.equal(first._payloads[1][1], other._payloads[1][1])


def test_the_server_holds_no_payload() -> None:
    workload = Payload()
    workload.setup(World(rank=1, ranks=WORLD.ranks, seed=3))
    assert not hasattr(workload, "_payloads")


def test_a_missing_echo_is_noticed() -> None:
    workload = answered()
    workload._echoes.pop()
    with pytest.raises(AssertionError, match="3 calls gave 2 echoes"):
        workload.check(WORLD)


def test_a_missing_tensor_is_noticed() -> None:
    workload = answered()
    workload._echoes[1].pop()
    with pytest.raises(AssertionError, match="call 1 sent 2 tensors, got 1"):
        workload.check(WORLD)


def test_the_echo_of_another_call_is_noticed() -> None:
    workload = answered()
    workload._echoes.reverse()
    with pytest.raises(AssertionError, match=r"tensor 0 of call 0 came back with .* changed"):
        workload.check(WORLD)


def test_tensors_in_another_order_are_noticed() -> None:
    workload = answered()
    workload._echoes[-1].reverse()
    with pytest.raises(AssertionError, match=r"tensor 0 of call 2 came back with .* changed"):
        workload.check(WORLD)


def test_calls_that_share_a_payload_are_noticed() -> None:
    workload = answered()
    workload._payloads = workload._payloads[:1] * 3
    with pytest.raises(AssertionError, match="calls share a payload"):
        workload.check(WORLD)


def test_a_tensor_of_another_kind_is_noticed() -> None:
    workload = answered()
    workload._echoes[1][0] = workload._echoes[1][0].double()
    with pytest.raises(AssertionError, match=r"tensor 0 of call 1 came back as torch.float64 \("):
        workload.check(WORLD)


def test_equal_numbers_with_other_bytes_are_noticed() -> None:
    workload = answered()
    workload._payloads[2][1][7] = 0.0
    workload._echoes[2][1][7] = -0.0
    with pytest.raises(AssertionError, match="tensor 1 of call 2 came back with 1 of 250 elements"):
        workload.check(WORLD)


def test_a_tensor_that_has_not_travelled_is_noticed() -> None:
    workload = answered()
    workload._echoes[0] = workload._payloads[0]
    with pytest.raises(AssertionError, match="tensor 0 of call 0 is the one that was sent"):
        workload.check(WORLD)


def test_bad_options_are_refused_together() -> None:
    with pytest.raises(WorkloadError) as raised:
        Payload(megabytes=0, calls=0, tensors=0)
    assert raised.value.problems == (
        "option megabytes must be above 0 and at most 4096, got 0",
        "option calls must be at least 1 and at most 4096, got 0",
        "option tensors must be at least 1, got 0",
    )


def test_tensors_without_an_element_are_refused() -> None:
    with pytest.raises(WorkloadError, match="too small for the 1000 tensors of option tensors"):
        Payload(megabytes=0.001, tensors=1000)


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
def test_a_gpu_that_is_not_there_is_reported() -> None:
    with pytest.raises(WorkloadError, match="option device is cuda, and PyTorch finds no GPU"):
        Payload(device="cuda")
