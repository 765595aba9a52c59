"""What the parameter server does with gradients, in one process."""

import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest
import torch
from torch import Tensor

from workloads.parameter_server import Server, checksum


@pytest.fixture
def many_switches() -> Iterator[None]:
    """The interpreter switches threads as often as it can."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(before)


TRAINERS = tuple(f"trainer{number}" for number in range(1, 17))


def server_of(trainers: int) -> Server:
    """Whole numbers: every sum is exact, and the order does not matter."""
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
