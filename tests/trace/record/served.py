"""Functions that the ranks of the traced program call on each other; no tuner is imported."""

import hashlib
import os
import threading
import time
import warnings
from collections import Counter, defaultdict
from collections.abc import Callable
from typing import Any, TypeVar

import torch
import torch.distributed.rpc as rpc
from torch import Tensor
from torch.futures import Future

Func = TypeVar("Func", bound=Callable[..., Any])

BUFFER = bytes(1 << 22)
LONG_S = 0.8
"""A nap that lasts much longer than the time-out of its call."""

# PyTorch's own decorator is not typed.
_async_execution: Callable[[Func], Func] = rpc.functions.async_execution


def work(sample: Tensor) -> Tensor:
    """Runs four operators: mul, add, relu, and clamp_min inside relu."""
    product = torch.mul(sample, sample)
    return torch.relu(torch.add(product, product))


# A served call waits at a gate until another call opens it: no sleep has to be long enough.
_reached: defaultdict[str, threading.Event] = defaultdict(threading.Event)
_opened: defaultdict[str, threading.Event] = defaultdict(threading.Event)


def pass_gate(name: str) -> None:
    """Returns when the gate is open."""
    _reached[name].set()
    _opened[name].wait()


def await_gate(name: str) -> None:
    """Returns when a call waits at the gate."""
    _reached[name].wait()


def open_gate(name: str) -> None:
    _opened[name].set()


def nested(name: str, sample: Tensor) -> Any:
    return rpc.rpc_sync(name, work, args=(sample,))


def pass_gate_then_call(gate: str, name: str) -> None:
    pass_gate(gate)
    rpc.rpc_sync(name, scale, args=(1, 1))


@_async_execution
def later(name: str, sample: Tensor) -> Any:
    """Its future is complete when another rank has answered."""
    return rpc.rpc_async(name, work, args=(sample,)).then(lambda future: future.wait() + 1)


@_async_execution
def later_by(seconds: float) -> Future[float]:
    """Its future is complete after this time; no RPC thread waits for it."""
    future: Future[float] = Future()
    threading.Timer(seconds, future.set_result, (seconds,)).start()
    return future


class Adder:
    """A remote object."""

    def __init__(self, total: int = 0) -> None:
        self.total = total

    def add(self, number: int) -> int:
        self.total += number
        return self.total

    @_async_execution
    def add_later(self, number: int) -> Future[int]:
        future: Future[int] = Future()
        future.set_result(self.add(number))
        return future


def scale(factor: int, number: int) -> int:
    return factor * number


def script_module() -> Any:
    """PyTorch's RPC sends these in a special way."""
    return _scripted(torch.nn.ReLU())


def rref_of(value: object) -> "rpc.RRef[object]":
    return rpc.RRef(value)


def sum_of(first: "rpc.RRef[Tensor]", second: "rpc.RRef[Tensor]") -> Tensor:
    return first.to_here() + second.to_here()


def _scripted(code: Any) -> Any:
    """TorchScript is deprecated, but RPC still runs it."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        return torch.jit.script(code)


@_scripted
def scripted(x: Tensor, y: Tensor) -> Tensor:
    return x * y + x


def operators_of(func: Callable[..., object], *args: object) -> Counter[str]:
    """How often each operator runs in one run of a function, by Kineto."""
    func(*args)
    with torch.autograd.profiler.profile(use_kineto=True) as profiler:
        func(*args)
    events = profiler.function_events or ()
    return Counter(event.name for event in events if event.name.startswith("aten::"))


# Calls that go wrong.


class Poison:
    """Cannot be unpickled."""

    def __reduce__(self) -> Any:
        return raise_value_error, ()


def raise_value_error() -> None:
    raise ValueError("no\nway")


def nested_timeout(name: str) -> None:
    rpc.rpc_sync(name, time.sleep, args=(LONG_S,), timeout=0.1)


def no_pickle() -> object:
    return threading.Lock()


@_async_execution
def no_future() -> int:
    return 1


# Work of a known kind; each function returns the CPU seconds that it used.


def measured_nap(seconds: float) -> float:
    return _measured(lambda: time.sleep(seconds))


def _measured(work: Callable[[], None]) -> float:
    begun_s = time.thread_time()
    work()
    return time.thread_time() - begun_s


def hash_for(seconds: float, cpu: int) -> float:
    """Uses this CPU alone, without the GIL."""
    cpus = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {cpu})

    def burn() -> None:
        until = time.perf_counter() + seconds
        while time.perf_counter() < until:
            hashlib.sha256(BUFFER)

    try:
        return _measured(burn)
    finally:
        os.sched_setaffinity(0, cpus)
