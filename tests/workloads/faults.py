"""Copies of shipped workloads, each with a fault that its check must notice.

The processes of a world import this module: it imports nothing that only tests need.
"""

import time

import torch
from torch import Tensor

from workloads import World, light, nested, udf_sleep
from workloads.builtin import Builtin
from workloads.light import Light, no_op
from workloads.nested import Nested, call_on
from workloads.payload import Payload
from workloads.udf import Udf
from workloads.udf_sleep import SHAPE, UdfSleep, udf_with_ops


class LastElementOff(Builtin):
    """One element of the last product differs in its last bit."""

    def step(self, world: World) -> None:
        super().step(world)
        last = self._results[-1]
        last[-1, -1] = torch.nextafter(last[-1, -1], torch.tensor(2.0))


class OneCallOff(Udf):
    """The last call computes something else."""

    def step(self, world: World) -> None:
        super().step(world)
        self._results[-1] = self._results[-1] + 0.01


class OneBitFlipped(Payload):
    """In the middle of the last tensor."""

    def step(self, world: World) -> None:
        super().step(world)
        content = self._echoes[-1][-1].view(torch.uint8)
        content[len(content) // 2] ^= 1


def skip_one(route: tuple[str, ...], call: int) -> tuple[int, tuple[str, ...]]:
    """The first server skips its neighbour."""
    return call_on(route[1:], call)


class OneSkipped(Nested):
    def setup(self, world: World) -> None:
        if world.role == "caller":
            nested.call_on = skip_one


def shared_generator(sleep_ms: int, device: str, seed: int) -> tuple[Tensor, Tensor]:
    """Draws from PyTorch's default generator: calls get each other's numbers."""
    del device, seed
    time.sleep(sleep_ms / 1e3)
    first, second = torch.rand(SHAPE), torch.rand(SHAPE)
    return first + second, first * second


class SharedGenerator(UdfSleep):
    def step(self, world: World) -> None:
        udf_sleep.udf_with_ops = shared_generator
        super().step(world)
        udf_sleep.udf_with_ops = udf_with_ops


class NoSleep(UdfSleep):
    """The server computes without sleeping first."""

    def step(self, world: World) -> None:
        asked_ms, self.sleep_ms = self.sleep_ms, 0
        super().step(world)
        self.sleep_ms = asked_ms


def with_neighbours_answer(caller: int, number: int) -> int:
    """The answers of calls 0 and 1 are swapped, those of 2 and 3, and so on."""
    return no_op(caller, number) ^ 1


class AnswersSwapped(Light):
    def setup(self, world: World) -> None:
        super().setup(world)
        light.no_op = with_neighbours_answer


class OneCallsOneOnly(Light):
    """The last process makes as many calls as it should, but all to one process."""

    def setup(self, world: World) -> None:
        super().setup(world)
        if world.rank == len(world.ranks) - 1:
            light._peer.others = ("worker0",) * 2
