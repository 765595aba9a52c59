"""Tensors there and back: the work of transports and channels."""

from collections.abc import Sequence
from typing import Annotated

import torch
import torch.distributed.rpc as rpc
from pydantic import Field
from torch import Tensor

from workloads.contract import Rank, Workload, World
from workloads.device import Device, missing_device

BYTES_PER_ELEMENT = 4  # float32


def echo(tensors: list[Tensor]) -> list[Tensor]:
    """Give back what was sent."""
    return tensors


class Payload(Workload):
    """Tensors echoed back: worker0 sends them to worker1, all calls in flight at once."""

    megabytes: Annotated[float, Field(gt=0, le=4096)] = 4.0
    """What each call carries each way, in 10^6 bytes: float32, rounded to whole elements."""
    calls: Annotated[int, Field(ge=1, le=4096)] = 4
    """Calls in flight in each step."""
    tensors: Annotated[int, Field(ge=1)] = 1
    """Tensors of equal size that each call's payload is split into."""
    device: Device = "cpu"
    """Where the tensors live and travel from; cuda needs caller.device_maps=worker1:0-0."""

    _payloads: list[list[Tensor]]
    _echoes: list[list[Tensor]]

    @property
    def elements(self) -> int:
        """Elements of each tensor."""
        return round(self.megabytes * 1e6 / BYTES_PER_ELEMENT / self.tensors)

    def problems(self) -> Sequence[str]:
        """There may be no GPU, or a tensor may be left without an element."""
        problems = list(missing_device(self.device))
        if not self.elements:
            problems.append(
                f"option megabytes is too small for the {self.tensors} tensors of option tensors: "
                f"each needs an element of {BYTES_PER_ELEMENT} bytes, got {self.megabytes}"
            )
        return problems

    def ranks(self) -> Sequence[Rank]:
        """One caller, one server."""
        return [Rank(name="worker0", role="caller"), Rank(name="worker1", role="server")]

    def setup(self, world: World) -> None:
        """Make the payloads of all calls; every step sends the same."""
        if world.role == "caller":
            self._payloads = [self._payload(world.seed, call) for call in range(self.calls)]

    def step(self, world: World) -> None:
        """Issue every call before awaiting any."""
        (server,) = world.names("server")
        futures = [rpc.rpc_async(server, echo, args=(payload,)) for payload in self._payloads]
        self._echoes = [future.wait() for future in futures]
        if self.device == "cuda":
            torch.cuda.synchronize()  # an answer may be here before its bytes are

    def check(self, world: World) -> None:
        """Every call brought its own bytes back, in tensors of their own."""
        del world
        if len(self._echoes) != self.calls:
            raise AssertionError(f"{self.calls} calls gave {len(self._echoes)} echoes")
        if len({float(payload[0][0]) for payload in self._payloads}) != self.calls:
            raise AssertionError("calls share a payload, so an echo could be that of another call")
        for call, (sent, echoed) in enumerate(zip(self._payloads, self._echoes, strict=True)):
            if len(echoed) != self.tensors:
                raise AssertionError(f"call {call} sent {self.tensors} tensors, got {len(echoed)}")
            for number, pair in enumerate(zip(sent, echoed, strict=True)):
                _check_echo(f"tensor {number} of call {call}", *pair)

    def _payload(self, seed: int, call: int) -> list[Tensor]:
        """Numbers that are uniform in [0, 1), except for the first: that is the call's number.

        Each tensor has memory of its own, since a view travels in another way.
        """
        generator = torch.Generator().manual_seed(seed + call)
        payload = [torch.rand(self.elements, generator=generator) for _ in range(self.tensors)]
        payload[0][0] = call
        return [tensor.to(self.device) for tensor in payload]


def _check_echo(name: str, sent: Tensor, echoed: Tensor) -> None:
    """Raise AssertionError unless the echo has the same bytes, in memory of its own."""
    if echoed.shape != sent.shape or echoed.dtype != sent.dtype:
        raise AssertionError(f"{name} came back as {echoed.dtype} {tuple(echoed.shape)}")
    if echoed.data_ptr() == sent.data_ptr():
        raise AssertionError(f"{name} is the one that was sent: it has not travelled")
    # As integers, by their bits: 0.0 and -0.0 are equal as numbers.
    here, back = sent.view(torch.int32), echoed.view(torch.int32)
    if not torch.equal(here, back):
        wrong = int((here != back).sum())
        raise AssertionError(f"{name} came back with {wrong} of {len(here)} elements changed")
