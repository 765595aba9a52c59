"""Copies of the parameter server: with faults, and one that is compared with a single process.

The processes of a world import this module: it imports nothing that only tests need.
"""

from collections.abc import Sequence
from typing import ClassVar

import torch
from torch import Tensor

from workloads import World, parameter_server
from workloads.models import Batch, make_model
from workloads.parameter_server import BATCHES, LEARNING_RATE, ParameterServer, Server


class LosingServer(Server):
    """As when two threads add to the same sum, and one overwrites what the other has added."""

    def collect(self, trainer: str, gradients: list[Tensor]) -> torch.futures.Future[list[Tensor]]:
        return super().collect(trainer, [0 * gradient for gradient in gradients])


class StaleServer(Server):
    """As when the answer is read before the update is done."""

    def _update(self, gradients: object, receivers: Sequence[str]) -> list[Tensor]:
        before = self.parameters
        super()._update(gradients, receivers)  # type: ignore[arg-type]
        return before


class Losing(ParameterServer):
    server: ClassVar[type[Server]] = LosingServer

    def setup(self, world: World) -> None:
        super().setup(world)
        if world.role == "server":
            fine = parameter_server._server
            faulty = self.server(fine.initial, tuple(fine.checksums), fine.learning_rate)
            parameter_server._server = faulty


class Stale(Losing):
    server = StaleServer


class ComparedWithOneProcess(ParameterServer):
    """Its check repeats the whole training in one process."""

    def setup(self, world: World) -> None:
        super().setup(world)
        if world.role == "server":
            parameter_server._server = self.recorder = RecordingServer(parameter_server._server)

    def check(self, world: World) -> None:
        super().check(world)
        if self.batch:
            expected = trained_on_averages(self, world.seed, self._steps)
        else:
            expected = trained_in_order(self, world.seed, self.recorder.reporters)
        trained = parameter_server._server.parameters
        moved = [float((now - then).abs().max()) for now, then in zip(
            trained, parameter_server._server.initial, strict=True)]  # fmt: skip
        assert min(moved) > 1e-5
        for now, right in zip(trained, expected, strict=True):
            assert torch.allclose(now, right, rtol=1e-4, atol=1e-6), (now - right).abs().max()


class RecordingServer(Server):
    """Notes the order in which gradients came."""

    def __init__(self, fine: Server) -> None:
        super().__init__(fine.initial, tuple(fine.checksums), fine.learning_rate)
        self.reporters: list[str] = []

    def _update(self, gradients: object, receivers: Sequence[str]) -> list[Tensor]:
        self.reporters += receivers
        return super()._update(gradients, receivers)  # type: ignore[arg-type]


def trained_on_averages(workload: ParameterServer, seed: int, updates: int) -> list[Tensor]:
    """Train on the batches of all trainers together, with PyTorch's own optimizer."""
    model = make_model(workload.model, seed)
    optimizer = torch.optim.SGD(model.parameters(), lr=LEARNING_RATE)
    ranks = range(1, workload.trainers + 1)
    batches = [workload.batches(seed, rank) for rank in ranks]
    for update in range(updates):
        optimizer.zero_grad()
        loss = torch.stack([each[update % BATCHES].loss(model) for each in batches]).mean()
        loss.backward()  # type: ignore[no-untyped-call]
        optimizer.step()
    return [parameter.detach() for parameter in model.parameters()]


def trained_in_order(
    workload: ParameterServer, seed: int, reporters: Sequence[str]
) -> list[Tensor]:
    """Train on one trainer's gradients after the other's, each of the model that it got last."""
    parameters = [p.detach().clone() for p in make_model(workload.model, seed).parameters()]
    models = {rank.name: make_model(workload.model, seed) for rank in workload.ranks()[1:]}
    batches = {name: workload.batches(seed, rank) for rank, name in enumerate(models, start=1)}
    for number, name in enumerate(reporters):
        batch = batches[name][number // workload.trainers % BATCHES]
        model = models[name]
        model.zero_grad()
        batch.loss(model).backward()  # type: ignore[no-untyped-call]
        with torch.no_grad():
            for parameter, own in zip(parameters, model.parameters(), strict=True):
                assert own.grad is not None
                parameter -= LEARNING_RATE * own.grad
                own.copy_(parameter)
    return parameters


class WithABadLabel(ParameterServer):
    """The last trainer cannot compute its gradients, and the others wait for them."""

    def batches(self, seed: int, trainer: int) -> list[Batch]:
        batches = super().batches(seed, trainer)
        if trainer == self.trainers:
            batches[0].labels[0] = 99
        return batches
