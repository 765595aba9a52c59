"""Built-in operators by RPC, as at the start of PyTorch's RPC profiling recipe."""

from collections.abc import Sequence
from typing import Annotated

import torch
import torch.distributed.rpc as rpc
from pydantic import Field
from torch import Tensor

from workloads.contract import Rank, Workload, World

OPERATORS = (torch.add, torch.mul)


class Builtin(Workload):
    """The recipe's built-in operators: worker0 calls add and mul on worker1, all in flight."""

    calls: Annotated[int, Field(ge=1)] = 4
    """Pairs of calls in flight in each step: torch.add and torch.mul of the same two tensors."""
    size: Annotated[int, Field(ge=1)] = 3
    """Rows and columns of each tensor."""

    _operands: list[tuple[Tensor, Tensor]]
    """For each pair of calls, two tensors, `size` x `size`, uniform in [0, 1)."""
    _results: list[Tensor]
    """Of the last step: sum and product of the first operands, then of the second, and so on."""

    def ranks(self) -> Sequence[Rank]:
        """One caller, one server."""
        return [Rank(name="worker0", role="caller"), Rank(name="worker1", role="server")]

    def setup(self, world: World) -> None:
        """Draw the operands of each pair of calls; every step sends the same."""
        if world.role != "caller":
            return
        generator = torch.Generator().manual_seed(world.seed)
        shape = (self.size, self.size)
        self._operands = [
            (torch.rand(shape, generator=generator), torch.rand(shape, generator=generator))
            for _ in range(self.calls)
        ]

    def step(self, world: World) -> None:
        """Issue every call before awaiting any."""
        (server,) = world.names("server")
        futures = [
            rpc.rpc_async(server, operator, args=operands)
            for operands in self._operands
            for operator in OPERATORS
        ]
        self._results = [future.wait() for future in futures]

    def check(self, world: World) -> None:
        """Every call gave, bit by bit, what its operator gives in this process."""
        del world
        expected = [
            (f"torch.{operator.__name__} of pair {pair}", operator(*operands))
            for pair, operands in enumerate(self._operands)
            for operator in OPERATORS
        ]
        if len(self._results) != len(expected):
            raise AssertionError(f"{len(expected)} calls gave {len(self._results)} results")
        for (call, value), result in zip(expected, self._results, strict=True):
            if result.shape != value.shape:
                raise AssertionError(f"{call} gave the shape {tuple(result.shape)}")
            if not torch.equal(result, value):
                raise AssertionError(f"{call} gave another result than it gives here")
