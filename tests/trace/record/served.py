"""What the ranks of the traced program call on each other; it knows nothing of the tuner."""

import ctypes
import gc
import hashlib
import os
import queue
import sys
import threading
import time
import warnings
from collections import Counter
from collections.abc import Callable, Sequence
from concurrent.futures import Future as Answer
from contextlib import suppress
from importlib.machinery import ModuleSpec
from pathlib import Path
from typing import Any, TypeVar

import torch
import torch.distributed.rpc as rpc
from torch import Tensor
from torch._C._distributed_rpc import PyRRef
from torch.distributed.rpc import api, internal
from torch.futures import Future

Func = TypeVar("Func", bound=Callable[..., Any])

BUFFER = bytes(1 << 22)

# PyTorch's own decorator is not typed.
_async_execution: Callable[[Func], Func] = rpc.functions.async_execution


def work(sample: Tensor) -> Tensor:
    """Four operators: mul, add, relu, and clamp_min inside of it."""
    product = torch.mul(sample, sample)
    return torch.relu(torch.add(product, product))


def where() -> tuple[int, int, int]:
    """Process, thread, and Unix time in nanoseconds."""
    return os.getpid(), threading.get_native_id(), time.time_ns()


def nap(seconds: float) -> None:
    time.sleep(seconds)


def nested(name: str, sample: Tensor) -> Any:
    return rpc.rpc_sync(name, work, args=(sample,))


def nap_then_call(name: str, seconds: float) -> None:
    time.sleep(seconds)
    rpc.rpc_sync(name, where)


@_async_execution
def later(name: str, sample: Tensor) -> Any:
    """Its future is complete once another rank has answered."""
    return rpc.rpc_async(name, work, args=(sample,)).then(lambda future: future.wait() + 1)


@_async_execution
def later_by(seconds: float) -> Future[float]:
    """Its future is complete after this time; no thread of RPC waits for it."""
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


class Scale:
    """A callable object, and one with a method."""

    def __init__(self, factor: int) -> None:
        self.factor = factor

    def __call__(self, number: int) -> int:
        return self.factor * number

    def times(self, number: int) -> int:
        return self.factor * number


def scale(factor: int, number: int) -> int:
    return factor * number


def gather(nest: dict[str, Any], *, weight: Tensor) -> dict[str, Any]:
    """Tensors at every depth, there and back."""
    return {"sum": [nest["deep"][0] + nest["deep"][1]["er"], (weight,)], "weight": weight * 2}


class TimesFactor(torch.nn.Module):
    def __init__(self, factor: float) -> None:
        super().__init__()
        self.factor = factor

    def forward(self, x: Tensor) -> Tensor:
        return x * self.factor


def script_module(factor: float) -> torch.jit.ScriptModule:
    """PyTorch's RPC sends those in a way of its own."""
    module: torch.jit.ScriptModule = _scripted(TimesFactor(factor))
    return module


def rref_of(value: object) -> "rpc.RRef[object]":
    return rpc.RRef(value)


def exception_of(message: str) -> Exception:
    """An exception that is a result."""
    return ValueError(message)


def sum_of(first: "rpc.RRef[Tensor]", second: "rpc.RRef[Tensor]") -> Tensor:
    return first.to_here() + second.to_here()


def _scripted(code: Any) -> Any:
    """TorchScript is deprecated, and RPC runs it all the same."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        return torch.jit.script(code)


@_scripted
def scripted(x: Tensor, y: Tensor) -> Tensor:
    return x * y + x


def count_items(items: Sequence[object]) -> int:
    return len(items)


def operators_of(func: Callable[..., object], *args: object) -> Counter[str]:
    """What Kineto records of one run of a function in this process."""
    func(*args)
    with torch.autograd.profiler.profile(use_kineto=True) as profiler:
        func(*args)
    events = profiler.function_events or ()
    return Counter(event.name for event in events if event.name.startswith("aten::"))


# Calls that go wrong.


class TwoArgumentsError(Exception):
    """Cannot be made again from its message alone."""

    def __init__(self, first: int, second: int) -> None:
        super().__init__(f"{first} {second}")


class Poison:
    """Cannot be unpickled."""

    def __reduce__(self) -> Any:
        return raise_value_error, ()


def raise_value_error() -> None:
    raise ValueError("no\nway")


def raise_key_error() -> None:
    raise KeyError("a key")


def raise_two_arguments() -> None:
    raise TwoArgumentsError(1, 2)


def nested_timeout(name: str) -> None:
    rpc.rpc_sync(name, nap, args=(0.3,), timeout=0.1)


def no_pickle() -> object:
    return threading.Lock()


@_async_execution
def no_future() -> int:
    return 1


# Work of a known kind; each gives what it used itself: wall and CPU seconds.


def _measured(work: Callable[[], None]) -> tuple[float, float]:
    wall, cpu = time.perf_counter(), time.thread_time()
    work()
    return time.perf_counter() - wall, time.thread_time() - cpu


def hash_for(seconds: float, core: int | None) -> tuple[float, float]:
    """Burns CPU without the GIL; on one core if asked to."""
    cores = os.sched_getaffinity(0)
    if core is not None:
        os.sched_setaffinity(0, {core})

    def burn() -> None:
        until = time.perf_counter() + seconds
        while time.perf_counter() < until:
            hashlib.sha256(BUFFER)

    try:
        return _measured(burn)
    finally:
        os.sched_setaffinity(0, cores)


def count_for(seconds: float) -> tuple[float, float]:
    """Burns CPU with the GIL."""

    def burn() -> None:
        until = time.perf_counter() + seconds
        while time.perf_counter() < until:
            pass

    return _measured(burn)


# What the driver asks of another rank.

_orders: "queue.SimpleQueue[tuple[Answer[Any], Callable[..., Any], tuple[Any, ...]] | None]"
_orders = queue.SimpleQueue()


def on_main(func: Callable[..., Any], *args: object) -> Any:
    """Have this process's main thread do it, and wait for that."""
    answer: Answer[Any] = Answer()
    _orders.put((answer, func, args))
    return answer.result()


def dismiss() -> None:
    """Let the main thread go on to the end."""
    _orders.put(None)


def follow_orders() -> None:
    """The main thread's part in the ranks that do not drive."""
    while (order := _orders.get()) is not None:
        _follow(*order)
        del order  # what it raised holds on to every frame that it came through


def _follow(answer: Answer[Any], func: Callable[..., Any], args: tuple[Any, ...]) -> None:
    try:
        answer.set_result(func(*args))
    except BaseException as error:
        answer.set_exception(error)


def call_each(names: Sequence[str], count: int) -> int:
    """Call each of the ranks so many times; gives the thread that did."""
    for name in names:
        for future in [rpc.rpc_async(name, work, args=(torch.ones(4),)) for _ in range(count)]:
            future.wait()
    return threading.get_native_id()


_hammering = threading.Event()
_hammers: list[threading.Thread] = []


def start_hammering(name: str, threads: int) -> None:
    """Call another rank without a pause from so many threads, each in another way."""
    _hammering.set()
    few, many = list(range(100)), list(range(300_000))  # some take longer to pickle
    ways: list[Callable[[], object]] = [
        lambda: rpc.rpc_sync(name, count_items, args=(few,)),
        lambda: rpc.remote(name, count_items, args=(many,)).to_here(),
        lambda: rpc.rpc_async(name, count_items, args=(many,)).wait(),
    ]

    def hammer(way: Callable[[], object]) -> None:
        while _hammering.is_set():
            way()

    _hammers.extend(threading.Thread(target=hammer, args=(way,)) for way in ways[:threads])
    for thread in _hammers:
        thread.start()


def stop_hammering() -> None:
    _hammering.clear()
    while _hammers:
        _hammers.pop().join()


class _Hidden:
    """An import hook that does not find the tuner."""

    def find_spec(self, name: str, *_: object) -> ModuleSpec | None:
        if name.partition(".")[0] == "tuner":
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
        return None


_hidden = _Hidden()


def hide_tuner() -> None:
    """As if it were not installed in this process."""
    sys.meta_path.insert(0, _hidden)


def show_tuner() -> None:
    sys.meta_path.remove(_hidden)


def tuner_modules() -> list[str]:
    """What of the tuner is imported in this process."""
    return sorted(name for name in sys.modules if name.partition(".")[0] == "tuner")


_profilers: list[torch.autograd.profiler.profile] = []


def start_profiler() -> None:
    """A person's own profiler of this process."""
    _profilers.append(torch.autograd.profiler.profile(use_kineto=True))
    _profilers[0].__enter__()  # type: ignore[no-untyped-call]


def stop_profiler() -> list[str]:
    """End it; the names of the operators that it has seen."""
    torch.neg(torch.ones(1))
    profiler = _profilers.pop()
    profiler.__exit__(None, None, None)  # type: ignore[no-untyped-call]
    return [event.name for event in profiler.function_events or ()]


_real_time_ns = time.time_ns


def set_clock_ahead(ns: int) -> None:
    """Have Python's Unix time in this process run ahead."""
    clock = (lambda: _real_time_ns() + ns) if ns else _real_time_ns
    # The recorder has its clock by name.
    from tuner.trace.record import client, server

    for module in (time, client, server):
        module.time_ns = clock  # type: ignore[attr-defined]


def _names_of_rpc() -> dict[str, int]:
    """Whatever can be called in RPC's modules, by name, and the id of what it is now."""
    places: dict[str, Any] = {"api": api, "internal": internal, "rpc": rpc, "RRef": PyRRef}
    return {
        f"{place}.{name}": id(value)
        for place, holder in places.items()
        for name, value in vars(holder).items()
        if callable(value)
    }


_names_at_start = _names_of_rpc()


def left_behind() -> list[str]:
    """What a tracer has not cleared away in this process."""
    gc.collect()  # errors and their frames hold each other
    now = _names_of_rpc()
    changed = {name for name, value in _names_at_start.items() if now.get(name) != value}
    files = []
    for each in Path("/proc/self/fd").iterdir():
        with suppress(FileNotFoundError):  # the listing's own
            files.append(str(each.readlink()))
    return [
        *sorted(changed),
        *(f"pickler.{name}" for name in vars(internal._internal_rpc_pickler) if name[0] != "_"),
        *(f"open: {name}" for name in files if name.endswith("schedstat")),
        # torch.autograd._profiler_enabled() tells of this thread only.
        *(["a profiler is on"] if torch.autograd.profiler._is_profiler_enabled else []),
    ]


def leave_with_parent() -> None:
    """Have the kernel end this process with the one that started it."""
    ctypes.CDLL(None).prctl(1, 9)
