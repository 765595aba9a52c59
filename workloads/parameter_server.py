"""A parameter server: trainers report gradients, and get the updated model back."""

import threading
import zlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from queue import SimpleQueue
from typing import Annotated, NamedTuple

import torch
import torch.distributed.rpc as rpc
from pydantic import Field
from torch import Tensor, nn
from torch.futures import Future

from workloads.contract import Rank, Workload, World
from workloads.device import Device, missing_device
from workloads.models import Batch, ModelName, make_batches, make_model, missing_library
from workloads.own_thread import OwnThread
from workloads.typed_rpc import async_execution

LEARNING_RATE = 0.01
BATCHES = 8
"""Batches that each trainer makes in advance, and learns from in turn."""


class Server:
    """The model's parameters, updated by gradient descent from any number of threads.

    An update makes new tensors and changes none, since those handed out may be on their way.
    """

    def __init__(
        self, parameters: Sequence[Tensor], trainers: Sequence[str], learning_rate: float
    ) -> None:
        self.initial = list(parameters)
        self.parameters = self.initial
        self.learning_rate = learning_rate
        """Applied to a gradient, or to the sum of a batch of gradients."""
        self.updates = 0
        self.receivers: Sequence[str] = ()
        """The trainers that got the latest parameters."""
        self.checksums = dict.fromkeys(trainers, 0)
        """By trainer, the `checksum` of all parameters that it got, in order."""
        self._lock = threading.Lock()
        self._reporters: list[str] = []
        self._gradient_sums: list[Tensor] = []
        self._updated: Future[list[Tensor]] = Future()

    def apply(self, trainer: str, gradients: list[Tensor]) -> list[Tensor]:
        """Update by one trainer's gradients; returns the parameters after that."""
        with self._lock:
            return self._update(gradients, receivers=[trainer])

    def collect(self, trainer: str, gradients: list[Tensor]) -> Future[list[Tensor]]:
        """Update by the sum of all trainers' gradients, once the last of them is here.

        Returns the future of the parameters after that. The caller must not use the gradients any
        more.
        """
        with self._lock:
            self._reporters.append(trainer)
            if len(self._reporters) == 1:
                self._gradient_sums = gradients
            else:
                for total, gradient in zip(self._gradient_sums, gradients, strict=True):
                    total.add_(gradient)
            updated = self._updated
            if len(self._reporters) < len(self.checksums):
                return updated
            parameters = self._update(self._gradient_sums, receivers=self._reporters)
            self._reporters, self._gradient_sums, self._updated = [], [], Future()
        # This thread now pickles all answers, which needs no lock.
        updated.set_result(parameters)
        return updated

    def _update(self, gradients: Iterable[Tensor], receivers: Sequence[str]) -> list[Tensor]:
        self.parameters = [
            parameter.add(gradient, alpha=-self.learning_rate)
            for parameter, gradient in zip(self.parameters, gradients, strict=True)
        ]
        self.updates += 1
        self.receivers = receivers
        for trainer in receivers:
            self.checksums[trainer] = checksum(self.parameters, self.checksums[trainer])
        return self.parameters


def checksum(parameters: Sequence[Tensor], before: int) -> int:
    """CRC-32 of the last tensor's bytes, continued from `before`.

    The last tensor is the classifier's bias: a few numbers that every update changes.
    """
    return zlib.crc32(parameters[-1].numpy().tobytes(), before)


class Progress(NamedTuple):
    """What a trainer has done since setup, and the model it has."""

    updates: int
    gradient_sums: list[Tensor]
    """By parameter, in float64: the sum of all gradients that it reported."""
    checksum: int
    """`checksum` of all parameters that it got, in order."""
    parameters: list[Tensor]


class Trainer:
    """A copy of the model, which learns from batches in turn."""

    def __init__(self, model: nn.Module, batches: Sequence[Batch]) -> None:
        self.own_thread = OwnThread()
        self.updates = 0
        self._model = model
        self._batches = batches
        self._parameters = list(model.parameters())
        # In float32 a sum over thousands of updates would lose what a single gradient adds.
        self._gradient_sums = [torch.zeros_like(p, dtype=torch.float64) for p in self._parameters]
        self._checksum = 0

    def update(self, server: str, report: Callable[..., object], name: str) -> None:
        """Report one batch's gradients under this name, and take the updated model."""
        gradients = self.gradients()
        sent = [gradient.cpu() for gradient in gradients]
        answer = rpc.rpc_async(server, report, args=(name, sent))
        self.count(gradients)
        self.take(answer.wait())

    def gradients(self) -> tuple[Tensor, ...]:
        """The gradients of the next batch's loss, by parameter."""
        batch = self._batches[self.updates % len(self._batches)]
        return torch.autograd.grad(batch.loss(self._model), self._parameters)

    def count(self, gradients: Iterable[Tensor]) -> None:
        """Add these to what has been reported."""
        self.updates += 1
        for total, gradient in zip(self._gradient_sums, gradients, strict=True):
            total.add_(gradient)

    def take(self, parameters: Sequence[Tensor]) -> None:
        """Continue with these parameters."""
        self._checksum = checksum(parameters, self._checksum)
        with torch.no_grad():
            for own, given in zip(self._parameters, parameters, strict=True):
                own.copy_(given)

    def progress(self) -> Progress:
        """What it has done, as CPU tensors; it must not be updated meanwhile."""
        return Progress(
            self.updates,
            [total.cpu() for total in self._gradient_sums],
            self._checksum,
            [parameter.detach().cpu() for parameter in self._parameters],
        )


_server: Server
_trainer: Trainer
"""Each process has one of the two, from setup to teardown."""


def report(trainer: str, gradients: list[Tensor]) -> list[Tensor]:
    """Update the model by one trainer's gradients; returns the parameters after that."""
    return _server.apply(trainer, gradients)


@async_execution
def report_to_batch(trainer: str, gradients: list[Tensor]) -> Future[list[Tensor]]:
    """Wait for all trainers' gradients without a thread; returns the parameters after that."""
    return _server.collect(trainer, gradients)


@async_execution
def train(server: str, batch: bool, name: str) -> Future[None]:
    """Have this trainer do one update, on a thread of its own, since it waits for the server."""
    reporting = report_to_batch if batch else report
    return _trainer.own_thread.submit(_trainer.update, server, reporting, name)


def read_progress() -> Progress:
    """What this trainer has done, and the model it has."""
    return _trainer.progress()


class ParameterServer(Workload):
    """A parameter server: trainers report gradients to it and get the updated model back.

    Rank 0 is the server, and drives: in each step it has every trainer learn from one batch of
    synthetic images, all at the same time, by gradient descent without momentum.
    """

    trainers: Annotated[int, Field(ge=1, le=63)] = 2
    """Number of trainers."""
    batch: bool = True
    """Whether a step is one update by the average of all gradients, or one update per trainer."""
    model: ModelName = "small"
    """A small ResNet with GroupNorm, or torchvision's resnet50."""
    image_size: Annotated[int, Field(ge=8, le=1024)] = 32
    """Rows and columns of an image."""
    batch_size: Annotated[int, Field(ge=1, le=4096)] = 8
    """Images in each trainer's batch."""
    device: Device = "cpu"
    """Where trainers compute gradients; everything else happens on the CPU."""

    _steps: int = 0

    def problems(self) -> Sequence[str]:
        """There may be no GPU or no torchvision, and a batch may be too small for BatchNorm."""
        problems = [*missing_device(self.device), *missing_library(self.model)]
        if self.model == "resnet50" and self.batch_size < 2:
            problems.append(
                "option batch_size must be at least 2 with model resnet50, for its BatchNorm, "
                f"got {self.batch_size}"
            )
        return problems

    def ranks(self) -> Sequence[Rank]:
        """One server, which drives, and the trainers."""
        trainers = [Rank(f"trainer{number}", "trainer") for number in range(1, self.trainers + 1)]
        return [Rank("ps", "server"), *trainers]

    def setup(self, world: World) -> None:
        """Make the model, the same everywhere, and this process's server or trainer."""
        global _server, _trainer
        model = make_model(self.model, world.seed)
        if world.role == "server":
            parameters = [parameter.detach() for parameter in model.parameters()]
            learning_rate = LEARNING_RATE / self.trainers if self.batch else LEARNING_RATE
            _server = Server(parameters, world.names("trainer"), learning_rate)
        else:
            _trainer = Trainer(model.to(self.device), self.batches(world.seed, world.rank))

    def batches(self, seed: int, trainer: int) -> list[Batch]:
        """The batches that the trainer of this rank learns from."""
        return make_batches(
            BATCHES, self.batch_size, self.image_size,
            seed=seed, trainer=trainer, device=self.device,
        )  # fmt: skip

    def step(self, world: World) -> None:
        """Have every trainer do one update, all at the same time."""
        futures = [
            rpc.rpc_async(name, train, args=(world.name, self.batch, name))
            for name in world.names("trainer")
        ]
        _wait_for(futures)
        self._steps += 1

    def check(self, world: World) -> None:
        """Every gradient was counted once, and every trainer got the model of each update.

        The parameters must be the initial ones minus the learning rate times all gradients.
        """
        done = {name: rpc.rpc_sync(name, read_progress) for name in world.names("trainer")}
        _check_counts(_server, done, self._steps, self.batch)
        _check_parameters(_server, done)
        _check_models(_server, done)

    def teardown(self, world: World) -> None:
        """End a trainer's own thread."""
        if world.role == "trainer":
            _trainer.own_thread.close()


def _wait_for(futures: Sequence[Future[None]]) -> None:
    """Wait until all are complete, or raise as soon as one fails.

    If a trainer fails, the others of its batch never get an answer.
    """
    complete: SimpleQueue[Future[None]] = SimpleQueue()
    for future in futures:
        future.add_done_callback(complete.put)
    for _ in futures:
        complete.get().wait()


def _check_counts(server: Server, done: Mapping[str, Progress], steps: int, batch: bool) -> None:
    """Raise AssertionError unless every step had its updates."""
    for name, progress in done.items():
        if progress.updates != steps:
            raise AssertionError(f"{name} did {progress.updates} updates in {steps} steps")
    due = steps if batch else steps * len(done)
    if server.updates != due:
        raise AssertionError(f"the server did {server.updates} updates where {due} were due")


def _check_parameters(server: Server, done: Mapping[str, Progress]) -> None:
    """Raise AssertionError unless the parameters are what all reported gradients lead to."""
    sums = zip(*(progress.gradient_sums for progress in done.values()), strict=True)
    for number, (initial, now, totals) in enumerate(
        zip(server.initial, server.parameters, sums, strict=True)
    ):
        expected = initial.double() - server.learning_rate * torch.stack(totals).sum(dim=0)
        error = float((now - expected).abs().max())
        # An update rounds once for each parameter, and once for each trainer in the gradients' sum.
        roundings = server.updates + len(done)
        magnitude = float(initial.abs().max() + now.abs().max())
        tolerance = roundings * torch.finfo(now.dtype).eps * magnitude
        if not error <= tolerance:
            raise AssertionError(
                f"parameter {number} is off by {error:.2g}, and rounding explains {tolerance:.2g}: "
                "a gradient was lost, or counted twice"
            )


def _check_models(server: Server, done: Mapping[str, Progress]) -> None:
    """Raise AssertionError unless trainers got the models that the server made for them."""
    for name, progress in done.items():
        if progress.checksum != server.checksums[name]:
            raise AssertionError(f"{name} was once given another model than that of its update")
    for name in server.receivers:
        if not all(map(torch.equal, done[name].parameters, server.parameters)):
            raise AssertionError(f"the model of {name} is not that of the last update")
