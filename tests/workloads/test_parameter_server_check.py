"""What the parameter server's check notices, in one process."""

from collections.abc import Callable

import pytest
import torch

from workloads import Rank, World, parameter_server
from workloads.models import make_batches, make_model
from workloads.parameter_server import BATCHES, LEARNING_RATE, Progress, Server, Trainer

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
def test_what_went_wrong_is_reported(spoil: Spoil, message: str, batch: bool) -> None:
    server, done = trained(batch)
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
