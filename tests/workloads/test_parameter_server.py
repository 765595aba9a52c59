"""What the parameter server does with gradients, and what its check notices, in one process."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import pytest
import torch
from torch import Tensor

from workloads import Rank, World, parameter_server
from workloads.models import make_batches, make_model
from workloads.parameter_server import BATCHES, LEARNING_RATE, Progress, Server, Trainer, checksum

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


def test_a_batch_gives_what_torchs_own_optimizer_makes_of_all_batches_together() -> None:
    server, _ = trained(batch=True)
    model = make_model("small", 3)
    optimizer = torch.optim.SGD(model.parameters(), lr=LEARNING_RATE)
    batches = [make_batches(BATCHES, 2, 8, seed=3, trainer=rank) for rank in (1, 2)]
    for step in range(STEPS):
        optimizer.zero_grad()
        losses = [batch[step % BATCHES].loss(model) for batch in batches]
        torch.stack(losses).mean().backward()  # type: ignore[no-untyped-call]
        optimizer.step()
    for now, right in zip(server.parameters, model.parameters(), strict=True):
        assert torch.allclose(now, right, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("batch", [True, False])
@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (lambda server, _: setattr(server, "updates", server.updates - 1),
         r"the server did \d+ updates where \d+ were due"),
        (lambda _, done: done.update(trainer2=done["trainer2"]._replace(updates=STEPS - 1)),
         "trainer2 did 9 updates in 10 steps"),
        (lambda server, _: server.parameters[4].view(-1)[7].add_(1e-4),
         "parameter 4 is off by 0.0001, and rounding explains .*e-0[67]:"),
        (lambda server, _: server.parameters[0].view(-1)[0].fill_(torch.nan),
         "parameter 0 is off by nan"),
        (lambda _, done: done.update(
            trainer1=done["trainer1"]._replace(checksum=done["trainer1"].checksum ^ 1)),
         "trainer1 was once given another model than that of its update"),
        # That of the last receiver.
        (lambda _, done: done["trainer2"].parameters[0].view(-1)[5].add_(1e-7),
         "the model of trainer2 is not that of the last update"),
    ],
)  # fmt: skip
def test_what_went_wrong_is_reported(
    spoil: Callable[[Server, dict[str, Progress]], object], message: str, batch: bool
) -> None:
    server, done = trained(batch)
    check(server, done, steps=STEPS, batch=batch)
    spoil(server, done)
    with pytest.raises(AssertionError, match=message):
        check(server, done, steps=STEPS, batch=batch)


def test_one_lost_gradient_shows_even_after_many_updates() -> None:
    """Rounding grows with the number of updates; it must not hide a lost gradient."""
    server, done = trained(batch=False)
    server.updates = 2 * 2000
    model = make_model("small", 3)
    loss = make_batches(1, 2, 8, seed=3, trainer=1)[0].loss(model)
    lost = torch.autograd.grad(loss, list(model.parameters()))
    for parameter, gradient in zip(server.parameters, lost, strict=True):
        parameter.sub_(gradient, alpha=LEARNING_RATE)
    with pytest.raises(AssertionError, match="a gradient was lost, or counted twice"):
        parameter_server._check_parameters(server, done)


# The updates.

TRAINERS = tuple(f"trainer{number}" for number in range(1, 17))


def server_of(trainers: int) -> Server:
    """Whole numbers: every sum is exact, and the order does not matter."""
    return Server([torch.zeros(50), torch.zeros(3)], TRAINERS[:trainers], learning_rate=1.0)


def gradients_of(number: int) -> list[Tensor]:
    return [torch.full((50,), float(number)), torch.full((3,), float(number))]


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


def train(server: Server, number: int, batch: bool) -> int:
    """All rounds of a trainer; the checksum of the models that it got."""
    total = 0
    for done in range(ROUNDS):
        if batch:
            got = server.collect(TRAINERS[number], gradients_of(number)).wait()
            assert all(map(torch.equal, got, gradients_of(-120 * (done + 1))))
        else:
            got = server.apply(TRAINERS[number], gradients_of(number))
        total = checksum(got, total)
    return total


@pytest.mark.usefixtures("many_switches")
@pytest.mark.parametrize("batch", [True, False])
def test_no_gradient_is_lost_whatever_the_threads(batch: bool) -> None:
    server = server_of(16)
    with ThreadPoolExecutor(16) as threads:
        checksums = list(threads.map(lambda number: train(server, number, batch), range(16)))
    assert all(map(torch.equal, server.parameters, gradients_of(-120 * ROUNDS)))
    assert server.updates == (ROUNDS if batch else 16 * ROUNDS)
    assert list(server.checksums.values()) == checksums
    assert len(set(checksums)) == 1 or not batch
