import itertools
import sys
import threading
from collections.abc import Callable, Iterator
from functools import partial
from types import SimpleNamespace
from typing import Any, ClassVar

import pytest
import torch.distributed.rpc as rpc
from torch.futures import Future

from tests.workloads.workload_contract import WorkloadContract, launcher
from workloads import Rank, World, light
from workloads.light import Light, answers, no_op

__all__ = ["launcher"]


class TestLight(WorkloadContract):
    reference = "light"
    options: ClassVar[dict[str, object]] = {"calls": 20, "world_size": 3, "in_flight": 4}


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


@pytest.fixture
def peer() -> Iterator[light.Peer]:
    """Rank 1 of three, outside of any world."""
    workload, world = Light(calls=4, in_flight=2), world_of(3, rank=1)
    workload.setup(world)
    yield light._peer
    workload.teardown(world)


def world_of(size: int, rank: int = 0) -> World:
    return World(rank, tuple(Rank(f"worker{n}", "peer") for n in range(size)), seed=3)


def at_once(count: int, func: Callable[[], None]) -> None:
    """Run `func` in `count` threads, which the interpreter switches as often as it can."""
    threads = [threading.Thread(target=func) for _ in range(count)]
    interval_s = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    finally:
        sys.setswitchinterval(interval_s)


def test_no_call_is_lost_when_many_threads_count(peer: light.Peer) -> None:
    def serve() -> None:
        for number in range(1000):
            no_op(0, number)
            no_op(2, number)

    at_once(16, serve)
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


def served(monkeypatch: pytest.MonkeyPatch, counts: dict[str, list[int]]) -> Light:
    """A workload after two steps; `counts` is what each server says it has served."""
    monkeypatch.setattr(rpc, "rpc_sync", lambda name, func: counts[name])
    workload = Light(calls=4, world_size=2)
    workload._steps = 2
    return workload


@pytest.mark.parametrize("count", [7, 9, 0], ids=["lost", "served twice", "none made"])
def test_a_count_that_is_off_is_noticed(monkeypatch: pytest.MonkeyPatch, count: int) -> None:
    workload = served(monkeypatch, {"worker0": [0, 8], "worker1": [count, 0]})
    message = f"worker1 served {count} calls of worker0, which made 8"
    with pytest.raises(AssertionError, match=message):
        workload.check(world_of(2))


def test_a_stray_answer_of_any_step_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    workload = served(monkeypatch, {"worker0": [0, 8], "worker1": [8, 0]})
    workload.check(world_of(2))
    workload._strays = 2
    with pytest.raises(AssertionError, match="2 calls got the answer of another call"):
        workload.check(world_of(2))
