"""The CPU-heavy UDF of PyTorch's RPC profiling recipe, called concurrently."""

from collections.abc import Sequence
from typing import Annotated

import torch
import torch.distributed.rpc as rpc
from pydantic import Field
from torch import Tensor

from workloads.contract import Rank, Workload, World
from workloads.device import Device, missing_device


def num_workers_udf_with_ops(size: int, rounds: int, seed: int, device: str = "cpu") -> Tensor:
    """Run `rounds` of mul, add, relu and sigmoid on a `size` x `size` standard normal sample.

    It is computed on the device; the result travels as a CPU tensor.

    The sample has a generator of its own: calls that share PyTorch's default generator wait for its
    lock, and their results depend on their order.
    """
    generator = torch.Generator(device).manual_seed(seed)
    sample = torch.randn(size, size, generator=generator, device=device)
    for _ in range(rounds):
        sample = torch.mul(sample, sample)
        sample = torch.add(sample, sample)
        sample = torch.relu(sample)
        sample = torch.sigmoid(sample)
    return sample.cpu()


class Udf(Workload):
    """The recipe's CPU-heavy function: worker0 calls it on worker1, all calls in flight at once."""

    calls: Annotated[int, Field(ge=1)] = 4
    """Calls in flight in each step."""
    size: Annotated[int, Field(ge=1)] = 100
    """Rows and columns of the tensor."""
    rounds: Annotated[int, Field(ge=0)] = 10
    """Rounds of mul, add, relu, sigmoid in each call."""
    device: Device = "cpu"
    """Where the server computes."""

    _results: list[Tensor]

    def problems(self) -> Sequence[str]:
        """There may be no GPU."""
        return missing_device(self.device)

    def ranks(self) -> Sequence[Rank]:
        """One caller, one server."""
        return [Rank(name="worker0", role="caller"), Rank(name="worker1", role="server")]

    def step(self, world: World) -> None:
        """Issue every call before awaiting any, so that the server can run them in parallel."""
        (server,) = world.names("server")
        futures = [
            rpc.rpc_async(
                server,
                num_workers_udf_with_ops,
                args=(self.size, self.rounds, world.seed + call, self.device),
            )
            for call in range(self.calls)
        ]
        self._results = [future.wait() for future in futures]

    def check(self, world: World) -> None:
        """Every call gave what its function gives in this process."""
        if len(self._results) != self.calls:
            raise AssertionError(f"{self.calls} calls gave {len(self._results)} results")
        for call, result in enumerate(self._results):
            expected = num_workers_udf_with_ops(
                self.size, self.rounds, world.seed + call, self.device
            )
            if result.shape != expected.shape:
                raise AssertionError(f"call {call} gave the shape {tuple(result.shape)}")
            if not torch.allclose(result, expected):
                raise AssertionError(f"call {call} gave another result than a call made here")
