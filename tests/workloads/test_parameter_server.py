import itertools
import sys
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import ClassVar

import pytest
import torch
from torch import Tensor

from tests.fakes import order
from tests.workloads.workload_contract import WorkloadContract, launcher
from tuner.world.local.launcher import LocalLauncher
from tuner.world.measurement import Failure, Measurement
from workloads import Rank, WorkloadError, World, parameter_server
from workloads.models import Batch, make_batches, make_model
from workloads.parameter_server import (
    BATCHES,
    LEARNING_RATE,
    ParameterServer,
    Progress,
    Server,
    Trainer,
    checksum,
)

__all__ = ["launcher"]

TINY: dict[str, object] = {"image_size": 8, "batch_size": 2}


@pytest.fixture(autouse=True)
def one_intra_op_thread() -> Iterator[None]:
    """As in a world: two would wait for each other wherever the cores are busy."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


# Faults of the server.


class FaultyServer(Server):
    """Goes wrong at every third report."""

    def __init__(self, fine: Server) -> None:
        super().__init__(fine.initial, tuple(fine.checksums), fine.learning_rate)
        self._reports = itertools.count(1)

    def apply(self, trainer: str, gradients: list[Tensor]) -> list[Tensor]:
        return super().apply(trainer, self._faulty(gradients))

    def collect(self, trainer: str, gradients: list[Tensor]) -> torch.futures.Future[list[Tensor]]:
        return super().collect(trainer, self._faulty(gradients))

    def _faulty(self, gradients: list[Tensor]) -> list[Tensor]:
        return self.spoilt(gradients) if next(self._reports) % 3 == 0 else gradients

    def spoilt(self, gradients: list[Tensor]) -> list[Tensor]:
        return gradients


class LosingServer(FaultyServer):
    """As when two threads add to the same sum, and one overwrites what the other has added."""

    def spoilt(self, gradients: list[Tensor]) -> list[Tensor]:
        return [torch.zeros_like(gradient) for gradient in gradients]


class LosingInOneTensorServer(FaultyServer):
    """As when that happens in the middle of the model only."""

    def spoilt(self, gradients: list[Tensor]) -> list[Tensor]:
        gradients[len(gradients) // 2].zero_()
        return gradients


class DoublingServer(FaultyServer):
    """As when a call is served again after a time-out."""

    def spoilt(self, gradients: list[Tensor]) -> list[Tensor]:
        return [2 * gradient for gradient in gradients]


class StaleServer(FaultyServer):
    """As when the answer is read before the update is done."""

    def _update(self, gradients: object, receivers: Sequence[str]) -> list[Tensor]:
        before = self.parameters
        now = super()._update(gradients, receivers)  # type: ignore[arg-type]
        return before if self.updates % 3 == 0 else now


class WithServer(ParameterServer):
    """The workload with another server."""

    server: ClassVar[type[FaultyServer]]

    def setup(self, world: World) -> None:
        super().setup(world)
        if world.role == "server":
            parameter_server._server = self.server(parameter_server._server)


class Losing(WithServer):
    server = LosingServer


class LosingInOneTensor(WithServer):
    server = LosingInOneTensorServer


class Doubling(WithServer):
    server = DoublingServer


class Stale(WithServer):
    server = StaleServer


FAULTY = tuple(
    f"{__name__}:{faulty.__name__}" for faulty in (Losing, LosingInOneTensor, Doubling, Stale)
)


class TestBatch(WorkloadContract):
    reference = "parameter_server"
    options: ClassVar[dict[str, object]] = {"batch": True, **TINY}
    faulty = FAULTY


class TestEachAtOnce(WorkloadContract):
    reference = "parameter_server"
    options: ClassVar[dict[str, object]] = {"batch": False, "trainers": 3, **TINY}
    faulty = FAULTY


# The same model as a single process makes.


class ComparedWithOneProcess(ParameterServer):
    """Its check computes the whole training again, here."""

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


class RecordingServer(FaultyServer):
    """Has no fault, and notes whose gradients came in what order."""

    def __init__(self, fine: Server) -> None:
        super().__init__(fine)
        self.reporters: list[str] = []

    def _update(self, gradients: object, receivers: Sequence[str]) -> list[Tensor]:
        self.reporters += receivers
        return super()._update(gradients, receivers)  # type: ignore[arg-type]


def trained_on_averages(workload: ParameterServer, seed: int, updates: int) -> list[Tensor]:
    """Plain training on the batches of all trainers at once, by PyTorch's own optimizer."""
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
    """Training by gradients of one trainer after the other, each of the model it got last."""
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


@pytest.mark.world
@pytest.mark.parametrize(
    ("batch", "trainers"), [(True, 1), (True, 2), (True, 3), (False, 1), (False, 3)]
)
def test_the_model_is_what_a_single_process_makes_of_the_same_batches(
    launcher: LocalLauncher, batch: bool, trainers: int
) -> None:
    options = {"batch": batch, "trainers": trainers, **TINY}
    spec = launcher.describe(f"{__name__}:ComparedWithOneProcess", options)
    outcome = launcher.run(order(spec, threads=4, steps=2 * BATCHES))
    assert isinstance(outcome, Measurement), outcome


class WithABadLabel(ParameterServer):
    """The last trainer cannot compute its gradients, and the others wait for them."""

    def batches(self, seed: int, trainer: int) -> list[Batch]:
        batches = super().batches(seed, trainer)
        if trainer == self.trainers:
            batches[0].labels[0] = 99
        return batches


@pytest.mark.world
def test_a_trainer_that_fails_ends_the_step(launcher: LocalLauncher) -> None:
    spec = launcher.describe(f"{__name__}:WithABadLabel", TINY)
    outcome = launcher.run(order(spec, threads=1))
    assert isinstance(outcome, Failure), outcome
    assert outcome.failure == "crashed"
    assert "Target 99 is out of bounds" in outcome.message


# The server, in one process.


@pytest.fixture
def many_switches() -> Iterator[None]:
    """Threads take turns as often as Python can have them."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(before)


TRAINERS = tuple(f"trainer{number}" for number in range(1, 17))


def server_of(trainers: int) -> Server:
    """Whole numbers, so that every sum is exact: in whatever order, one result."""
    return Server([torch.zeros(50), torch.zeros(3)], TRAINERS[:trainers], learning_rate=1.0)


def gradients_of(number: int) -> list[Tensor]:
    return [torch.full((50,), float(number)), torch.full((3,), float(number))]


def test_a_batch_is_one_update_for_which_all_wait() -> None:
    server = server_of(3)
    futures = [server.collect(TRAINERS[n], gradients_of(n + 1)) for n in range(2)]
    assert not any(future.done() for future in futures)
    assert server.updates == 0
    futures.append(server.collect(TRAINERS[2], gradients_of(3)))
    for future in futures:
        assert all(map(torch.equal, future.wait(), gradients_of(-6)))
    assert server.updates == 1
    assert not server.collect(TRAINERS[0], gradients_of(1)).done()


def test_one_by_one_each_gets_the_model_after_its_own_update() -> None:
    server = server_of(2)
    assert torch.equal(server.apply("trainer1", gradients_of(1))[0], torch.full((50,), -1.0))
    assert torch.equal(server.apply("trainer2", gradients_of(2))[0], torch.full((50,), -3.0))
    assert server.receivers == ["trainer2"]
    assert server.updates == 2


@pytest.mark.parametrize("batch", [True, False])
def test_parameters_handed_out_never_change(batch: bool) -> None:
    server = server_of(1)

    def update(number: int) -> list[Tensor]:
        if batch:
            return server.collect("trainer1", gradients_of(number)).wait()
        return server.apply("trainer1", gradients_of(number))

    first = update(1)
    update(2)
    assert all(map(torch.equal, first, gradients_of(-1)))
    assert all(map(torch.equal, server.initial, gradients_of(0)))


ROUNDS = 100


@pytest.mark.usefixtures("many_switches")
def test_no_gradient_of_a_batch_is_lost_whatever_the_threads() -> None:
    server = server_of(16)

    def train(number: int) -> None:
        for done in range(ROUNDS):
            got = server.collect(TRAINERS[number], gradients_of(number)).wait()
            assert all(map(torch.equal, got, gradients_of(-120 * (done + 1))))

    with ThreadPoolExecutor(16) as threads:
        list(threads.map(train, range(16)))
    assert server.updates == ROUNDS
    assert len(set(server.checksums.values())) == 1


@pytest.mark.usefixtures("many_switches")
def test_no_update_is_lost_whatever_the_threads() -> None:
    server = server_of(16)

    def train(number: int) -> int:
        total = 0
        for _ in range(ROUNDS):
            total = checksum(server.apply(TRAINERS[number], gradients_of(number)), total)
        return total

    with ThreadPoolExecutor(16) as threads:
        checksums = list(threads.map(train, range(16)))
    assert all(map(torch.equal, server.parameters, gradients_of(-120 * ROUNDS)))
    assert server.updates == 16 * ROUNDS
    assert list(server.checksums.values()) == checksums


# The check, in one process.

WORLD = World(rank=0, ranks=(Rank("ps", "server"), Rank("trainer1", "trainer"),
                             Rank("trainer2", "trainer")), seed=3)  # fmt: skip
STEPS = 10


def trained(batch: bool) -> tuple[Server, dict[str, Progress]]:
    """A server and two trainers after STEPS steps, without RPC."""
    names = WORLD.names("trainer")
    initial = [parameter.detach() for parameter in make_model("small", 3).parameters()]
    server = Server(initial, names, LEARNING_RATE / 2 if batch else LEARNING_RATE)
    trainers = {
        name: Trainer(make_model("small", 3), make_batches(BATCHES, 2, 8, seed=3, trainer=rank))
        for rank, name in enumerate(names, start=1)
    }
    for _ in range(STEPS):
        futures = []
        for name, trainer in trainers.items():
            gradients = trainer.gradients()
            trainer.count(gradients)
            if batch:
                futures.append(server.collect(name, list(gradients)))
            else:
                trainer.take(server.apply(name, list(gradients)))
        for trainer, future in zip(trainers.values(), futures, strict=False):
            trainer.take(future.wait())
    for trainer in trainers.values():
        trainer.own_thread.close()
    return server, {name: trainer.progress() for name, trainer in trainers.items()}


def check(server: Server, done: dict[str, Progress], *, steps: int, batch: bool) -> None:
    parameter_server._check_counts(server, done, steps, batch)
    parameter_server._check_parameters(server, done)
    parameter_server._check_models(server, done)


Spoil = Callable[[Server, dict[str, Progress]], object]


def lose_an_update(server: Server, done: dict[str, Progress]) -> None:
    server.updates -= 1


def skip_a_step(server: Server, done: dict[str, Progress]) -> None:
    done["trainer2"] = done["trainer2"]._replace(updates=STEPS - 1)


def change_an_element(server: Server, done: dict[str, Progress]) -> None:
    server.parameters[4].view(-1)[7] += 1e-4


def break_a_number(server: Server, done: dict[str, Progress]) -> None:
    server.parameters[0].view(-1)[0] = torch.nan


def hand_out_another_model(server: Server, done: dict[str, Progress]) -> None:
    done["trainer1"] = done["trainer1"]._replace(checksum=done["trainer1"].checksum ^ 1)


def change_the_last_receivers_model(server: Server, done: dict[str, Progress]) -> None:
    done["trainer2"].parameters[0].view(-1)[5] += 1e-7


@pytest.mark.parametrize("batch", [True, False])
def test_right_training_passes_the_check(batch: bool) -> None:
    check(*trained(batch), steps=STEPS, batch=batch)


@pytest.mark.parametrize("batch", [True, False])
@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (lose_an_update, r"the server did \d+ updates where \d+ were due"),
        (skip_a_step, "trainer2 did 9 updates in 10 steps"),
        (change_an_element, "parameter 4 is off by 0.0001, and rounding explains .*e-0[67]:"),
        (break_a_number, "parameter 0 is off by nan"),
        (hand_out_another_model, "trainer1 was once given another model than that of its update"),
        (change_the_last_receivers_model, "the model of trainer2 is not that of the last update"),
    ],
)
def test_what_went_wrong_is_told(spoil: Spoil, message: str, batch: bool) -> None:
    server, done = trained(batch)
    spoil(server, done)
    with pytest.raises(AssertionError, match=message):
        check(server, done, steps=STEPS, batch=batch)


def test_one_lost_gradient_shows_even_after_many_updates() -> None:
    """Rounding grows with the number of updates; it must not come to hide what is looked for."""
    server, done = trained(batch=False)
    server.updates = 2 * 2000
    model = make_model("small", 3)
    loss = make_batches(1, 2, 8, seed=3, trainer=1)[0].loss(model)
    lost = torch.autograd.grad(loss, list(model.parameters()))
    for parameter, gradient in zip(server.parameters, lost, strict=True):
        parameter.sub_(gradient, alpha=LEARNING_RATE)
    with pytest.raises(AssertionError, match="a gradient was lost, or counted twice"):
        parameter_server._check_parameters(server, done)


# The options.


def test_options_out_of_their_limits_are_refused() -> None:
    with pytest.raises(WorkloadError) as raised:
        ParameterServer(trainers=0, image_size=7, batch_size=0, model="large")
    assert raised.value.problems == (
        "option trainers must be at least 1 and at most 63, got 0",
        "option image_size must be at least 8 and at most 1024, got 7",
        "option batch_size must be at least 1 and at most 4096, got 0",
        "option model must be small or resnet50, got 'large'",
    )


def test_what_cannot_be_had_here_is_told_together(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torchvision", None)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with pytest.raises(WorkloadError) as raised:
        ParameterServer(model="resnet50", device="cuda", batch_size=1)
    assert raised.value.problems == (
        "option device is cuda, and PyTorch finds no GPU here",
        "option model is resnet50, which needs torchvision, and that is not installed",
        "option batch_size must be at least 2 with model resnet50, for its BatchNorm, got 1",
    )


def test_the_server_drives() -> None:
    assert [str(rank.name) for rank in ParameterServer(trainers=3).ranks()] == [
        "ps", "trainer1", "trainer2", "trainer3",
    ]  # fmt: skip
    assert {rank.role for rank in ParameterServer().ranks()} == {"server", "trainer"}
