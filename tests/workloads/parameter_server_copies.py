"""Copies of the parameter server: with faults, and one that is compared with a single process.

The processes of a world import this module: it imports nothing that only tests need.
"""

import torch
from torch import Tensor

from workloads import World, parameter_server
from workloads.models import Batch, make_model
from workloads.parameter_server import BATCHES, LEARNING_RATE, ParameterServer, Server


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


class ComparedWithOneProcess(ParameterServer):
    """Its check trains on the batches of all trainers together, with PyTorch's own optimizer."""

    def check(self, world: World) -> None:
        super().check(world)
        model = make_model(self.model, world.seed)
        optimizer = torch.optim.SGD(model.parameters(), lr=LEARNING_RATE)
        batches = [self.batches(world.seed, rank) for rank in range(1, self.trainers + 1)]
        for update in range(self._steps):
            optimizer.zero_grad()
            loss = torch.stack([each[update % BATCHES].loss(model) for each in batches]).mean()
            loss.backward()  # type: ignore[no-untyped-call]
            optimizer.step()
        server = parameter_server._server
        for then, now, right in zip(
            server.initial, server.parameters, model.parameters(), strict=True
        ):
            assert float((now - then).abs().max()) > 1e-5
            assert torch.allclose(now, right, rtol=1e-4, atol=1e-6), (now - right).abs().max()


class WithABadLabel(ParameterServer):
    """The last trainer cannot compute its gradients, and the others wait for them."""

    def batches(self, seed: int, trainer: int) -> list[Batch]:
        batches = super().batches(seed, trainer)
        if trainer == self.trainers:
            batches[0].labels[0] = 99
        return batches
