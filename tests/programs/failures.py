"""Calls that fail in every way, and a driver that prints all that it can see of it."""

import sys
import traceback
import warnings
from collections.abc import Callable
from functools import partial

import torch.distributed.rpc as rpc
import torch.multiprocessing as mp
from torch.distributed.rpc.functions import async_execution


class ShardError(Exception):
    def __init__(self, shard: int, reason: str) -> None:
        super().__init__(f"shard {shard}: {reason}")


def two_arguments() -> None:
    raise ShardError(3, "gone")


def local_class() -> None:
    class HiddenError(Exception):
        pass

    raise HiddenError("local")


def stops() -> object:
    return next(iter(()))


def exits() -> None:
    raise SystemExit(3)


def interrupts() -> None:
    raise KeyboardInterrupt


def lines() -> None:
    raise RuntimeError("first line\nsecond line\nOn WorkerInfo( third")


def chained() -> None:
    try:
        int("a")
    except ValueError as error:
        raise LookupError("outer") from error


def numbers() -> object:
    return (number for number in range(3))


def warned(stacklevel: int = 2) -> list[str]:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        warnings.warn("careful", stacklevel=stacklevel)
    return [str(each) for each in caught] + traceback.format_stack()


@async_execution  # type: ignore[untyped-decorator]
def later(fails: bool) -> object:
    if fails:
        raise KeyError("no future")
    return rpc.rpc_async("worker1", max, args=(1, 2))


class Counter:
    def add(self, by: int) -> int:
        if by < 0:
            raise ValueError(f"cannot add {by}")
        return by


class Careless:
    """Its pickling warns, and fails where it is asked to."""

    def __init__(self, fails: bool) -> None:
        self.fails = fails

    def __getstate__(self) -> dict[str, bool]:
        for level in (1, 2, 3):
            warnings.warn("pickled", stacklevel=level)
        print(f"pickles, and fails: {self.fails}")
        if self.fails:
            raise TypeError("not this one")
        return self.__dict__


def same(value: object) -> object:
    return value


FAILING = (two_arguments, local_class, stops, exits, interrupts, lines, chained, numbers)
calls = 0


def attempt(name: str, action: Callable[[], object], number: int = 1) -> None:
    """Do it, and print what comes of it: values, errors, tracebacks."""
    global calls
    calls += number
    try:
        print(name, "->", action())
    except BaseException as error:
        print(name, "->", type(error), repr(error), sep="\n")
        traceback.print_exc(file=sys.stdout)


def awaited(func: Callable[[], object]) -> object:
    return rpc.rpc_async("worker1", func).wait()


def fetched(func: Callable[[], object]) -> object:
    return rpc.remote("worker1", func).to_here()


def drive() -> None:
    for func in FAILING:
        name = func.__name__
        attempt(f"{name} sync", partial(rpc.rpc_sync, "worker1", func))
        attempt(f"{name} async", partial(awaited, func))
        attempt(f"{name} remote", partial(fetched, func), 2)
    attempt("warned", lambda: "".join(rpc.rpc_sync("worker1", warned)))
    attempt("warned", lambda: "".join(rpc.rpc_sync("worker1", warned, kwargs={"stacklevel": 3})))
    attempt("later", lambda: rpc.rpc_sync("worker1", later, args=(False,)), 2)
    attempt("later fails", lambda: rpc.rpc_sync("worker1", later, args=(True,)))
    # Not sent, and so no call.
    attempt("unpicklable", lambda: rpc.rpc_sync("worker1", max, args=(numbers(), 1)), 0)
    attempt("unpicklable remote", lambda: rpc.remote("worker1", max, args=(numbers(),)), 0)
    attempt("nobody", lambda: rpc.rpc_sync("worker9", max, args=(1, 2)), 0)
    attempt("no function", lambda: rpc.rpc_async("worker1", 3), 0)
    warnings.simplefilter("always")
    attempt("careless", lambda: type(rpc.rpc_sync("worker1", same, args=(Careless(False),))))
    attempt("careless fails", lambda: rpc.rpc_sync("worker1", same, args=(Careless(True),)), 0)
    attempt("in a dict", lambda: rpc.rpc_sync("worker1", same, kwargs={"value": {1: [2.0]}}))
    print(rpc.rpc_sync, rpc.api._invoke_rpc.__qualname__, rpc.PyRRef.to_here.__name__, rpc.dist)
    counter = rpc.remote("worker1", Counter)
    attempt("type and method", lambda: counter.rpc_sync().add(3), 3)
    attempt("method fails", lambda: counter.rpc_sync().add(-3))
    attempt("async method fails", lambda: counter.rpc_async().add(-3).wait())
    attempt("remote method fails", lambda: counter.remote().add(-3).to_here(), 2)
    attempt("callback", lambda: rpc.rpc_async("worker1", max, args=(1, 2)).then(broken).wait())
    print(f"calls: {calls}", flush=True)


def broken(future: object) -> None:
    raise LookupError("in a callback")


def run(rank: int, port: str) -> None:
    options = rpc.TensorPipeRpcBackendOptions(
        init_method=f"tcp://127.0.0.1:{port}", num_worker_threads=4
    )
    rpc.init_rpc(f"worker{rank}", rank=rank, world_size=2, rpc_backend_options=options)
    if rank == 0:
        drive()
    rpc.shutdown()


if __name__ == "__main__":
    mp.spawn(run, args=(sys.argv[1],), nprocs=2)
