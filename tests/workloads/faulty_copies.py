"""Copies of shipped workloads with a fault each.

The processes of a world import this module: it imports nothing that only tests need.
"""

import torch
from torch import Tensor

from workloads import World, cartpole_agent, parameter_server
from workloads.cartpole import CartPole
from workloads.models import Batch
from workloads.parameter_server import ParameterServer, Server


class NoUpdate(CartPole):
    def setup(self, world: World) -> None:
        cartpole_agent.Adam.step = lambda *_: None  # type: ignore[method-assign]
        super().setup(world)


class LosingServer(Server):
    """As when two threads add to the same sum, and one overwrites what the other has added."""

    def collect(self, trainer: str, gradients: list[Tensor]) -> torch.futures.Future[list[Tensor]]:
        return super().collect(trainer, [0 * gradient for gradient in gradients])


class Losing(ParameterServer):
    def setup(self, world: World) -> None:
        super().setup(world)
        if world.role == "server":
            fine = parameter_server._server
            faulty = LosingServer(fine.initial, tuple(fine.checksums), fine.learning_rate)
            parameter_server._server = faulty


class WithABadLabel(ParameterServer):
    """The last trainer cannot compute its gradients, and the others wait for them."""

    def batches(self, seed: int, trainer: int) -> list[Batch]:
        batches = super().batches(seed, trainer)
        if trainer == self.trainers:
            batches[0].labels[0] = 99
        return batches
