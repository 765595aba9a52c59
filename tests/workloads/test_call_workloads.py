"""What the workloads that only make calls send, and what their checks notice, in one process."""

import itertools
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from functools import partial
from types import SimpleNamespace
from typing import Any

import pytest
import torch
import torch.distributed.rpc as rpc
from torch.futures import Future

from workloads import Rank, Workload, World, light
from workloads.builtin import OPERATORS, Builtin
from workloads.light import Light, answers, no_op
from workloads.nested import Nested
from workloads.payload import Payload, echo
from workloads.udf import Udf, num_workers_udf_with_ops
from workloads.udf_sleep import UdfSleep, udf_with_ops

RANKS = (Rank("worker0", "caller"), Rank("worker1", "server"))
WORLD, SERVER = World(rank=0, ranks=RANKS, seed=3), World(rank=1, ranks=RANKS, seed=3)

# Each after a step whose calls were made here.


def builtin(seed: int = 3) -> Builtin:
    workload = Builtin(calls=2, size=4)
    workload.setup(World(rank=0, ranks=RANKS, seed=seed))
    workload._results = [
        operator(*operands) for operands in workload._operands for operator in OPERATORS
    ]
    return workload


def nested() -> Nested:
    workload = Nested(depth=2, calls=2)
    workload._answers = [(call, ("worker1", "worker2")) for call in range(2)]
    return workload


def payload(seed: int = 3) -> Payload:
    workload = Payload(megabytes=0.002, calls=3, tensors=2)
    workload.setup(World(rank=0, ranks=RANKS, seed=seed))
    workload._echoes = [[t.clone() for t in echo(sent)] for sent in workload._payloads]
    return workload


def udf() -> Udf:
    workload = Udf(calls=2, size=4, rounds=1)
    workload._results = [num_workers_udf_with_ops(4, 1, 3 + call) for call in range(2)]
    return workload


def udf_sleep(**options: object) -> UdfSleep:
    workload = UdfSleep(**{"sleep_ms": 2, "calls": 2, **options})
    workload._results = [udf_with_ops(0, "cpu", WORLD.seed + call) for call in range(2)]
    workload._shortest_step_s = 0.002
    return workload


def change_the_sign_of_zero(workload: Payload) -> None:
    workload._payloads[2][1][7] = 0.0
    workload._echoes[2][1][7] = -0.0


def results(change: Callable[[list[Any]], list[Any]]) -> Callable[[Any], None]:
    """Changes the results of a workload."""
    return lambda workload: setattr(workload, "_results", change(workload._results))


def echoes(call: int, change: Callable[[list[Any], Payload], Any]) -> Callable[[Payload], None]:
    return lambda workload: change(workload._echoes[call], workload)


@pytest.mark.parametrize(
    ("made", "spoil", "message"),
    [
        (builtin, results(lambda found: found[:-1]), "4 calls gave 3 results"),
        (builtin, results(lambda found: [*found[:2], found[2][:1], found[3]]),
         r"torch\.add of pair 1 gave the shape \(1, 4\)"),
        (builtin, results(lambda found: [found[0], found[0], *found[2:]]),
         r"torch\.mul of pair 0 gave another result"),
        (nested, lambda workload: workload._answers.pop(), "2 calls gave 1 answers"),
        (nested, lambda workload: workload._answers.reverse(), "call 0 got the answer of call 1"),
        (nested, lambda workload: workload._answers.__setitem__(1, (1, ("worker2", "worker1"))),
         r"call 1 went through .* through worker1, worker2"),
        (payload, lambda workload: workload._echoes.pop(), "3 calls gave 2 echoes"),
        (payload, lambda workload: workload._echoes.reverse(),
         "0 of call 0 came back with .* changed"),
        (payload, echoes(1, lambda found, _: found.pop()), "call 1 sent 2 tensors, got 1"),
        (payload, lambda workload: setattr(workload, "_payloads", workload._payloads[:1] * 3),
         "calls share a payload"),
        (payload, echoes(1, lambda found, _: found.insert(0, found.pop(0).double())),
         r"tensor 0 of call 1 came back as torch.float64 \("),
        (payload, change_the_sign_of_zero, "tensor 1 of call 2 came back with 1 of 250 elements"),
        (payload, echoes(0, lambda found, of: found.__setitem__(0, of._payloads[0][0])),
         "tensor 0 of call 0 is the one that was sent"),
        (udf, results(lambda found: found[:1]), "2 calls gave 1 results"),
        (udf, results(lambda found: found[::-1]), "call 0 gave another result"),
        (udf, results(lambda found: [found[0], found[1][:2]]),
         r"call 1 gave the shape \(2, 4\)"),
        (udf_sleep, results(lambda found: found[:1]), "2 calls gave 1 results"),
        (udf_sleep, results(lambda found: found[::-1]), "call 0 gave another sum"),
        (udf_sleep, results(lambda found: [found[0], (found[1][0], torch.zeros(2, 3))]),
         r"call 1 gave a product of the shape \(2, 3\)"),
        (udf_sleep, lambda workload: setattr(workload, "sleep_ms", 20),
         "a step of 2 ms cannot hold a sleep of 20 ms"),
    ],
)  # fmt: skip
def test_wrong_results_are_noticed(
    made: Callable[[], Workload], spoil: Callable[[Any], object], message: str
) -> None:
    workload = made()
    world = World(rank=0, ranks=tuple(workload.ranks()), seed=WORLD.seed)
    workload.check(world)
    spoil(workload)
    with pytest.raises(AssertionError, match=message):
        workload.check(world)


@pytest.mark.parametrize(
    ("made", "sent"),
    [
        (builtin, lambda of: [tensor for pair in of._operands for tensor in pair]),
        (payload, lambda of: [tensor for call in of._payloads for tensor in call]),
    ],
)
def test_what_is_sent_is_all_different_of_the_seed_and_the_callers_alone(
    made: Callable[..., Any], sent: Callable[[Any], list[torch.Tensor]]
) -> None:
    torch.manual_seed(1)
    tensors = sent(made())
    assert all(each.untyped_storage().nbytes() == each.nbytes for each in tensors)  # no views
    first = torch.stack(tensors)
    assert 0 <= first[..., 1:].min() < first[..., 1:].max() < 1
    assert len(set(first.flatten().tolist())) == first.numel()
    torch.manual_seed(2)
    assert torch.equal(first, torch.stack(sent(made())))
    assert not torch.equal(first, torch.stack(sent(made(seed=9))))
    server = type(made())()
    server.setup(SERVER)
    with pytest.raises(AttributeError):
        sent(server)


def test_one_round_is_mul_add_relu_sigmoid_of_the_sample() -> None:
    sample = torch.randn(5, 5, generator=torch.Generator().manual_seed(9))
    assert torch.equal(num_workers_udf_with_ops(5, 0, 9), sample)
    expected = torch.sigmoid(torch.relu(2 * sample**2))
    assert torch.allclose(num_workers_udf_with_ops(5, 1, 9), expected)


def test_a_call_sleeps_then_adds_and_multiplies_what_the_seed_alone_decides() -> None:
    torch.manual_seed(1)
    start_s = time.monotonic()
    total, product = udf_with_ops(30, "cpu", 9)
    assert time.monotonic() - start_s >= 0.03
    generator = torch.Generator().manual_seed(9)
    first, second = (torch.rand(3, 3, generator=generator) for _ in range(2))
    assert torch.equal(total, first + second)
    assert torch.equal(product, first * second)
    assert not torch.equal(total, udf_with_ops(0, "cpu", 10)[0])
    assert UdfSleep().sleep_ms == 1000  # that of the recipe
    # The check does not sleep.
    workload = udf_sleep(sleep_ms=2000)
    workload._shortest_step_s, start_s = 2.0, time.monotonic()
    workload.check(WORLD)
    assert time.monotonic() - start_s < 1


# Light calls between peers.


@pytest.mark.parametrize(("numbers", "at_once"), [(10, 1), (10, 3), (10, 10), (2, 10), (0, 1)])
def test_as_many_calls_are_in_flight_as_are_allowed(numbers: int, at_once: int) -> None:
    in_flight, most = set[int](), 0

    def answer(number: int) -> int:
        in_flight.remove(number)
        return 2 * number

    def calls() -> Iterator[tuple[int, Any]]:
        nonlocal most
        for number in range(numbers):
            in_flight.add(number)
            most = max(most, len(in_flight))
            yield number, SimpleNamespace(wait=partial(answer, number))

    assert list(answers(calls(), at_once)) == [(number, 2 * number) for number in range(numbers)]
    assert most == min(numbers, at_once)
    assert not in_flight


def peers(size: int, rank: int = 0) -> World:
    return World(rank, tuple(Rank(f"worker{n}", "peer") for n in range(size)), seed=3)


@pytest.fixture
def peer() -> Iterator[light.Peer]:
    """Rank 1 of three, outside of any world."""
    workload, world = Light(calls=4, in_flight=2), peers(3, rank=1)
    workload.setup(world)
    yield light._peer
    workload.teardown(world)


@pytest.mark.usefixtures("many_switches")
def test_no_call_is_lost_when_many_threads_count(peer: light.Peer) -> None:
    def serve() -> None:
        for number in range(1000):
            no_op(0, number)
            no_op(2, number)

    threads = [threading.Thread(target=serve) for _ in range(16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert light.take_counts() == [16000, 0, 16000]
    assert peer.take_counts() == [0, 0, 0]


@pytest.mark.parametrize("strays", [0, 2])
def test_a_process_calls_the_others_in_turn_and_counts_answers_of_other_calls(
    peer: light.Peer, monkeypatch: pytest.MonkeyPatch, strays: int
) -> None:
    issued: list[tuple[object, ...]] = []
    answered = itertools.chain(reversed(range(strays)), itertools.count(strays))

    def rpc_async(to: str, func: object, args: tuple[int, int]) -> Future[int]:
        issued.append((to, func, *args))
        future: Future[int] = Future()
        future.set_result(next(answered))
        return future

    monkeypatch.setattr(rpc, "rpc_async", rpc_async)
    assert peer.call_others() == strays
    assert issued == [
        (name, no_op, 1, number) for number, name in enumerate(["worker0", "worker2"] * 4)
    ]


@pytest.mark.parametrize(
    ("count", "strays", "message"),
    [
        (8, 0, None),
        (7, 0, "worker1 served 7 calls of worker0, which made 8"),
        (9, 0, "worker1 served 9 calls of worker0, which made 8"),
        (8, 2, "2 calls got the answer of another call"),
    ],
)
def test_a_count_that_is_off_and_a_stray_answer_are_noticed(
    monkeypatch: pytest.MonkeyPatch, count: int, strays: int, message: str | None
) -> None:
    counts = {"worker0": [0, 8], "worker1": [count, 0]}
    monkeypatch.setattr(rpc, "rpc_sync", lambda name, func: counts[name])
    workload = Light(calls=4, world_size=2)
    workload._steps, workload._strays = 2, strays
    with pytest.raises(AssertionError, match=message) if message else nullcontext():
        workload.check(peers(2))
