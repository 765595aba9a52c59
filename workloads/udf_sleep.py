"""The sleeping UDF of PyTorch's RPC profiling recipe, called concurrently."""

import math
import time
from collections.abc import Sequence
from typing import Annotated

import torch
import torch.distributed.rpc as rpc
from pydantic import Field
from torch import Tensor

from workloads.contract import Rank, Workload, World
from workloads.device import Device, missing_device

SHAPE = (3, 3)


def udf_with_ops(sleep_ms: int, device: str, seed: int) -> tuple[Tensor, Tensor]:
    """Sleep, then compute the sum and the product of two uniform samples, 3 x 3 each.

    The results are CPU tensors. The samples have a generator of their own, since all calls share
    PyTorch's default generator.
    """
    time.sleep(sleep_ms / 1e3)
    generator = torch.Generator(device).manual_seed(seed)
    first = torch.rand(SHAPE, generator=generator, device=device)
    second = torch.rand(SHAPE, generator=generator, device=device)
    return torch.add(first, second).cpu(), torch.mul(first, second).cpu()


class UdfSleep(Workload):
    """The recipe's sleep with a few operators: worker0 calls it on worker1, all calls in flight."""

    sleep_ms: Annotated[int, Field(ge=0)] = 1000
    """How long each call sleeps before it computes, in milliseconds."""
    calls: Annotated[int, Field(ge=1)] = 4
    """Calls in flight in each step."""
    device: Device = "cpu"
    """Where the server computes; the results travel as CPU tensors."""

    _results: list[tuple[Tensor, Tensor]]
    _shortest_step_s: float = math.inf

    def problems(self) -> Sequence[str]:
        """There may be no GPU."""
        return missing_device(self.device)

    def ranks(self) -> Sequence[Rank]:
        """One caller, one server."""
        return [Rank(name="worker0", role="caller"), Rank(name="worker1", role="server")]

    def step(self, world: World) -> None:
        """Issue every call before awaiting any, so that the server can run them in parallel."""
        (server,) = world.names("server")
        start_s = time.monotonic()
        futures = [
            rpc.rpc_async(
                server, udf_with_ops, args=(self.sleep_ms, self.device, world.seed + call)
            )
            for call in range(self.calls)
        ]
        self._results = [future.wait() for future in futures]
        self._shortest_step_s = min(self._shortest_step_s, time.monotonic() - start_s)

    def check(self, world: World) -> None:
        """Every call gave what its function gives here, and no step is shorter than a sleep."""
        if len(self._results) != self.calls:
            raise AssertionError(f"{self.calls} calls gave {len(self._results)} results")
        for call, results in enumerate(self._results):
            expected = udf_with_ops(0, self.device, world.seed + call)
            for what, result, value in zip(("sum", "product"), results, expected, strict=True):
                if result.shape != value.shape:
                    raise AssertionError(
                        f"call {call} gave a {what} of the shape {tuple(result.shape)}"
                    )
                if not torch.allclose(result, value):
                    raise AssertionError(f"call {call} gave another {what} than a call made here")
        if self._shortest_step_s < self.sleep_ms / 1e3:
            raise AssertionError(
                f"a step of {self._shortest_step_s * 1e3:.3g} ms cannot hold a sleep of "
                f"{self.sleep_ms} ms"
            )
