"""Scenarios of the traced program: every kind of call, failing calls, calls of other ranks."""

import sys
import threading
import types
from collections.abc import Callable
from functools import partial
from typing import Any

import torch
import torch.distributed.autograd as dist_autograd
import torch.distributed.rpc as rpc
from torch.distributed.rpc import remote, rpc_async, rpc_sync  # as user code imports them

from tests.trace.record import rank_control, served
from tests.trace.record.served import work
from tests.trace.record.tools import Facts, plain, profiled, refusal

# PyTorch has no types for it.
autograd: Any = dist_autograd


READINGS = ("table", "key_averages", "latency", "breakdown", "parallelism", "critical_path",
            "diagnosis")  # fmt: skip


def every_kind_of_call() -> Facts:
    """The same calls, first with and then without a profile."""
    with profiled("kinds") as prof:
        results = [plain(_every_kind())]
    results.append(plain(_every_kind()))
    return {
        "results": results,
        "calls": len(prof.calls),
        "operators": len(prof.operators),
        "refused": {name: refusal(getattr(prof, name)) for name in READINGS},
    }


def _every_kind() -> dict[str, Any]:
    x, server = torch.arange(4.0), "worker1"
    first, second = remote(server, work, args=(x,)), remote(server, torch.mul, args=(x, 2))
    adder = remote(server, served.Adder, args=(5,))
    mine = remote("worker0", work, args=(x,))
    return {
        "sync": rpc_sync(server, work, args=(x,)),
        "async": [each.wait() for each in [rpc_async(server, work, (x * k,)) for k in range(4)]],
        "remote": [first.to_here(), first.to_here()],
        "by rank": rpc.rpc_sync(2, work, args=(x,)),
        "by info": rpc.rpc_sync(rpc.get_worker_info("worker2"), work, args=(x,)),
        "self": [rpc_sync("worker0", served.scale, args=(3, 4)), mine.to_here()],
        "builtin": [rpc_sync(server, torch.add, args=(x, 1)), second.to_here()],
        "script": [
            rpc_sync(server, served.scripted, args=(x, x)),
            remote(server, served.scripted, args=(x, x)).to_here(),
        ],
        "nested": rpc_sync(server, served.nested, args=("worker2", x)),
        "async execution": [
            rpc_sync(server, served.later, args=("worker2", x)),
            rpc_async(server, served.later_by, args=(0.05,)).wait(),
            remote(server, served.later_by, args=(0.05,)).to_here(),
        ],
        "proxies": [
            adder.rpc_sync().add(1),
            adder.rpc_async().add(2).wait(),
            adder.remote().add(3).to_here(),
            adder.rpc_sync().add_later(4),
        ],
        "nest": rpc_sync(
            server, served.gather, args=({"deep": [x, {"er": x}]},), kwargs={"weight": x}
        ),
        "callables": [
            rpc_sync(server, partial(served.scale, 3), args=(4,)),
            rpc_sync(server, served.Scale(3), args=(4,)),
            rpc_sync(server, served.Scale(3).times, args=(4,)),
        ],
        "rref arguments": rpc_sync(server, served.sum_of, args=(first, second)),
        "rref arguments elsewhere": rpc_sync("worker2", served.sum_of, args=(first, second)),
        "rref result": rpc_sync(server, served.rref_of, args=(x,)).to_here(),
        "exception result": repr(rpc_sync(server, served.exception_of, args=("a",))),
        "of python": rpc_sync(server, max, args=(3, 4)),
        "then": rpc_async(server, work, (x,)).then(lambda done: done.wait() * 2).wait(),
    }


def a_script_module_comes_back() -> Facts:
    """PyTorch's RPC sends such an answer in a way of its own."""
    found = []

    def block() -> None:
        with profiled("script module"):
            found.append(
                plain(rpc_sync("worker1", served.script_module, args=(3.0,))(torch.ones(2)))
            )

    refused = refusal(block)
    found.append(plain(rpc_sync("worker1", served.script_module, args=(3.0,))(torch.ones(2))))
    return {"refused": refused, "found": found}


def calls_that_fail() -> Facts:
    """The same failures, first without and then with a profile."""
    before = _every_failure()
    with profiled("failures"):
        traced = _every_failure()
    return {"before": before, "traced": traced}


def _every_failure() -> dict[str, tuple[str, str]]:
    server, x = "worker1", torch.ones(4)
    failing: dict[str, Callable[[], object]] = {
        "raises": lambda: rpc_sync(server, served.raise_value_error),
        "key": lambda: rpc_sync(server, served.raise_key_error),
        "two arguments": lambda: rpc_sync(server, served.raise_two_arguments),
        "remote": lambda: remote(server, served.raise_value_error).to_here(),
        "times out": lambda: rpc_sync(server, served.nap, (served.LONG_S,), timeout=0.1),
        "nested times out": lambda: rpc_sync(server, served.nested_timeout, args=("worker2",)),
        "argument": lambda: rpc_sync(server, served.scale, args=(3, threading.Lock())),
        "lambda": lambda: rpc_sync(server, lambda: 1),
        "function is not there": lambda: rpc_sync(server, served.only_here),  # type: ignore[attr-defined]
        "module is not there": lambda: rpc_sync(server, sys.modules["only_here"].function),
        "poison": lambda: rpc_sync(server, served.scale, args=(3, served.Poison())),
        "result": lambda: rpc_sync(server, served.no_pickle),
        "builtin": lambda: rpc_sync(server, torch.add, args=(x, torch.ones(3))),
        "script": lambda: rpc_sync(server, served.scripted, args=(x, torch.ones(3))),
        "nobody": lambda: rpc_sync("worker9", work, args=(x,)),
        "no function": lambda: rpc_sync(server, 3),
        "no future": lambda: rpc_sync(server, served.no_future),
    }
    return {name: refusal(call) for name, call in failing.items()}


def define_what_only_this_rank_has() -> None:
    """A function in a module that all ranks have, and a module that they do not have."""
    _only_here.__module__, _only_here.__qualname__ = served.__name__, "only_here"
    served.only_here = _only_here  # type: ignore[attr-defined]
    module = sys.modules["only_here"] = types.ModuleType("only_here")

    def function() -> None:
        pass

    function.__module__, function.__qualname__ = module.__name__, "function"
    module.function = function  # type: ignore[attr-defined]


def _only_here() -> None:
    """A function that the other ranks do not have."""


def calls_of_other_ranks() -> Facts:
    """Calls that ranks 1 and 2 make on their own, and calls from other threads of rank 0."""
    threads: dict[str, int] = {}

    def call(number: int) -> None:
        threads[str(number)] = threading.get_native_id()
        for _ in range(3):
            rpc_sync("worker2", served.scale, args=(number, 2))

    with profiled("others"):
        mains = {
            name: rpc_sync(name, rank_control.on_main, args=(rank_control.call_each, names, 5))
            for name, names in (("worker1", ("worker0", "worker2")), ("worker2", ("worker1",)))
        }
        callers = [threading.Thread(target=call, args=(number,)) for number in range(4)]
        for each in callers:
            each.start()
        for each in callers:
            each.join()
    return {"mains": mains, "threads": threads}


def places_of_calls() -> Facts:
    """Served functions that return where and when they ran."""
    with profiled("places", operators=False):
        found = [rpc_sync(name, served.where) for name in ("worker1", "worker2", "worker0") * 5]
    return {"where": found}


def gradients_through_rpc() -> Facts:
    """Distributed autograd, without and with a profile."""
    found = [_gradient()]
    with profiled("gradients"):
        found.append(_gradient())
    return {"found": found}


def _gradient() -> Any:
    with autograd.context() as context:
        x = torch.ones(3, requires_grad=True)
        near = rpc_sync("worker1", work, args=(x,))
        far = remote("worker2", work, args=(x * 2,)).to_here()
        autograd.backward(context, [(near + far).sum()])
        return plain(autograd.get_gradients(context)[x])
