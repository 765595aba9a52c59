"""Every kind of call, also those that fail: names, server's sides, operators, parents.

`test_in_a_world.py` runs these tests.
"""

import inspect
import re
import sys
import threading
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.distributed.autograd as dist_autograd
import torch.distributed.rpc as rpc
from torch import Tensor
from torch.distributed.rpc import remote, rpc_async, rpc_sync  # as user code imports them

from tests.trace.record import served
from tests.trace.record.conftest import Profiled, SeenTrace, profiled
from tests.trace.record.rank_control import refusal
from tests.trace.record.served import work

pytestmark = pytest.mark.usefixtures("_world")

# PyTorch has no types for it.
autograd: Any = dist_autograd


def plain(value: Any) -> Any:
    """A result, with lists in place of tensors."""
    if isinstance(value, Tensor):
        return value.tolist()
    if isinstance(value, dict):
        return {key: plain(each) for key, each in value.items()}
    return [plain(each) for each in value] if isinstance(value, list | tuple) else value


def gradient() -> Any:
    """Of a value that two other ranks have a part in."""
    with autograd.context() as context:
        x = torch.ones(3, requires_grad=True)
        near = rpc_sync("worker1", work, args=(x,))
        far = remote("worker2", work, args=(x * 2,)).to_here()
        autograd.backward(context, [(near + far).sum()])
        return autograd.get_gradients(context)[x]


def every_kind() -> dict[str, Any]:
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
        "partial": rpc_sync(server, partial(served.scale, 3), args=(4,)),
        "rref arguments": rpc_sync(server, served.sum_of, args=(first, second)),
        "rref arguments elsewhere": rpc_sync("worker2", served.sum_of, args=(first, second)),
        "rref result": rpc_sync(server, served.rref_of, args=(x,)).to_here(),
        "exception result": repr(rpc_sync(server, ValueError, args=("a",))),
        "script module": rpc_sync(server, served.script_module)(x - 1),
        "of python": rpc_sync(server, max, args=(3, 4)),
        "then": rpc_async(server, work, (x,)).then(lambda done: done.wait() * 2).wait(),
        "gradient": gradient(),
    }


@pytest.fixture(scope="module")
def kinds(_ranks: None) -> Profiled:
    """The calls of every kind have the same results with a profile and then without one."""
    with profiled() as found:
        traced = plain(every_kind())
    untraced = plain(every_kind())
    assert traced == untraced
    assert untraced["proxies"] == [6, 8, 11, 15]
    assert untraced["script module"] == [0, 0, 1, 2]
    assert untraced["gradient"] == [20.0] * 3
    return found


SCRIPTED = "__torch__.tests.trace.record.served.scripted"
KINDS = {
    **dict.fromkeys((f"{call}(worker0 -> worker1)" for call in (
        "rpc_remote#work", "rpc_sync#aten::add", "rpc_remote#aten::mul",
        f"rpc_sync#{SCRIPTED}", f"rpc_remote#{SCRIPTED}", "rpc_sync#nested", "rpc_sync#later",
        "rpc_async#later_by", "rpc_remote#later_by", "rpc_remote#Adder", "rpc_sync#Adder.add",
        "rpc_async#Adder.add", "rpc_remote#Adder.add", "rpc_sync#Adder.add_later",
        # A proxy asks for the type of its object, once.
        "rpc_async#_rref_typeof_on_owner", "rpc_sync#partial", "rpc_sync#sum_of",
        "rpc_sync#rref_of", "rpc_sync#ValueError", "rpc_sync#max", "rpc_sync#script_module",
    )), 1),
    "rpc_async#work(worker0 -> worker1)": 5,
    "rpc_sync#work(worker0 -> worker1)": 2,
    "rpc_sync#work(worker0 -> worker2)": 2,
    "rpc_sync#scale(worker0 -> worker0)": 1,
    "rpc_remote#work(worker0 -> worker0)": 1,
    "rpc_remote#work(worker0 -> worker2)": 1,
    "rpc_sync#work(worker1 -> worker2)": 1,
    "rpc_async#work(worker1 -> worker2)": 1,
    "rpc_sync#sum_of(worker0 -> worker2)": 1,
    # Two of one value, and of a product, a script, later_by, Adder.add, and rref_of one each.
    "to_here#(worker0)->(worker1)": 7,
    "to_here#(worker2)->(worker1)": 2,
    "to_here#(worker0)->(worker2)": 1,
}  # fmt: skip


def test_every_call_is_recorded_once_with_a_server_side_where_it_can_be_known(
    kinds: Profiled,
) -> None:
    assert kinds.trace.names() == KINDS
    assert kinds.trace.facts["losses"] == []
    links = {"python": "exact", "builtin": "inferred", "script": "inferred", "fetch": ""}
    for call in kinds.trace.calls:
        assert (call.status, call.error, call.link) == ("ok", "", links[call.body]), call
        assert (call.server_start_ns is None) == (call.body == "fetch")
        if call.body == "builtin":
            assert call.operators[0].name == call.name.partition("#")[2].partition("(")[0]
        if call.body == "script":
            assert [operator.name for operator in call.operators] == ["aten::mul", "aten::add"]


def test_calls_made_inside_served_functions_name_them(kinds: Profiled) -> None:
    trace = kinds.trace
    parents = {
        "rpc_sync#work(worker1 -> worker2)": trace.only("rpc_sync#nested(worker0 -> worker1)"),
        "rpc_async#work(worker1 -> worker2)": trace.only("rpc_sync#later(worker0 -> worker1)"),
        "to_here#(worker2)->(worker1)": trace.only("rpc_sync#sum_of(worker0 -> worker2)"),
    }
    for call in trace.calls:
        parent = parents.get(call.name)
        assert call.parent_call == (None if parent is None else parent.call_id), call
        if parent is not None:
            assert call.client_rank == parent.server_rank
            assert call.client_thread == parent.server_thread
            assert parent.server_start_ns <= call.start_ns <= parent.server_end_ns


def test_each_call_has_the_line_that_issues_it_and_where_its_function_is_defined(
    kinds: Profiled,
) -> None:
    here, there = Path(__file__).name, Path(served.__file__).name
    for call in kinds.trace.calls:
        site_file, _, line = call.site.rpartition(":")
        module = served if call.client_rank else sys.modules[__name__]
        assert Path(site_file).name == (there if call.client_rank else here)
        source = inspect.getsource(module).splitlines()[int(line) - 1]
        assert re.search(r"rpc_sync|rpc_async|remote|to_here|adder\.", source), call
    defined = {call.name: call.defined for call in kinds.trace.calls}
    functions: dict[str, Any] = {
        "rpc_sync#nested(worker0 -> worker1)": served.nested,
        "rpc_sync#later(worker0 -> worker1)": served.later,
        "rpc_sync#Adder.add(worker0 -> worker1)": served.Adder.add,
        "rpc_sync#Adder.add_later(worker0 -> worker1)": served.Adder.add_later,
    }
    for name, function in functions.items():
        _, line = inspect.getsourcelines(function)
        assert defined[name].endswith(f"{there}:{line}")
    nowhere = {"rpc_sync#aten::add", f"rpc_sync#{SCRIPTED}", "rpc_sync#max", "rpc_sync#ValueError"}
    assert {defined[f"{name}(worker0 -> worker1)"] for name in nowhere} == {""}
    assert defined["to_here#(worker0)->(worker1)"] == ""


def test_a_fetch_names_the_call_that_made_its_rref(kinds: Profiled) -> None:
    name_of = {call.call_id: call.name for call in kinds.trace.calls}
    made = [
        name_of.get(call.same_as, "")
        for call in kinds.trace.calls if call.name == "to_here#(worker0)->(worker1)"
    ]  # fmt: skip
    names = ("work", "work", "aten::mul", SCRIPTED, "later_by", "Adder.add")
    # One is what a function has returned.
    assert sorted(made) == sorted(["", *(f"rpc_remote#{n}(worker0 -> worker1)" for n in names)])
    others = [call for call in kinds.trace.calls if call.body != "fetch"]
    assert {call.same_as for call in others} == {None}


def test_the_future_of_an_async_function_is_done_after_it(kinds: Profiled) -> None:
    calls = kinds.trace.calls
    asynchronous = [call for call in calls if "later" in call.name]
    assert [call for call in calls if call.done_ns is not None] == asynchronous
    assert len(asynchronous) == 4
    by_time = [call for call in asynchronous if "later_by" in call.name]
    for call in by_time:
        assert call.done_ns - call.server_start_ns >= 50_000_000
        assert call.latency_ns >= 50_000_000
    # A function that loses its CPU before it returns is overtaken by its future: one may be.
    assert max(call.done_ns - call.server_end_ns for call in by_time) >= 25_000_000


def test_the_profile_can_be_read_in_every_way(kinds: Profiled) -> None:
    prof = kinds.prof
    assert len(prof.calls) == len(kinds.trace.calls)
    assert len(prof.operators) == len(kinds.trace.operators)
    assert prof.table()
    for read in (prof.latency, prof.breakdown, prof.parallelism, prof.critical_path):
        assert len(read())
    assert prof.diagnosis().text


# Calls that raise, time out, or cannot be sent, run, or answered.


def only_here() -> None:
    """A function that the other ranks do not have, in a module that they have."""


def every_failure() -> dict[str, tuple[str, list[str]]]:
    """The type and the beginning of each error; the traceback that follows has our frames, too."""
    server, x = "worker1", torch.ones(4)
    failing: dict[str, Callable[[], object]] = {
        "raises": lambda: rpc_sync(server, served.raise_value_error),
        "remote": lambda: remote(server, served.raise_value_error).to_here(),
        "times out": lambda: rpc_sync(server, time.sleep, (served.LONG_S,), timeout=0.1),
        "nested times out": lambda: rpc_sync(server, served.nested_timeout, args=("worker2",)),
        "argument": lambda: rpc_sync(server, served.scale, args=(3, threading.Lock())),
        "lambda": lambda: rpc_sync(server, lambda: 1),
        "function is not there": lambda: rpc_sync(server, only_here),
        "poison": lambda: rpc_sync(server, served.scale, args=(3, served.Poison())),
        "result": lambda: rpc_sync(server, served.no_pickle),
        "builtin": lambda: rpc_sync(server, torch.add, args=(x, torch.ones(3))),
        "script": lambda: rpc_sync(server, served.scripted, args=(x, torch.ones(3))),
        "nobody": lambda: rpc_sync("worker9", work, args=(x,)),
        "no function": lambda: rpc_sync(server, 3),
        "no future": lambda: rpc_sync(server, served.no_future),
    }
    found = {name: refusal(call) for name, call in failing.items()}
    return {
        name: (kind, message.split("Traceback")[0].split("\n\n")[0].splitlines()[:2])
        for name, (kind, message) in found.items()
    }


@pytest.fixture(scope="module")
def failures(_ranks: None) -> SeenTrace:
    """The errors are the same without and with a profile."""
    only_here.__module__ = served.__name__
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(served, "only_here", only_here, raising=False)
        before = every_failure()
        with profiled() as found:
            traced = every_failure()
    assert traced == before
    assert traced["raises"][0] == "ValueError"
    assert all(kind for kind, _ in traced.values())
    return found.trace


def test_what_was_never_sent_is_no_call(failures: SeenTrace) -> None:
    names = failures.names()
    assert failures.facts["losses"] == []
    assert not any("lambda" in name or "worker9" in name for name in names)
    # An RRef raises the error when it is fetched.
    made = failures.only("rpc_remote#raise_value_error(worker0 -> worker1)")
    fetch = failures.only("to_here#(worker0)->(worker1)")
    assert (made.link, fetch.status) == ("exact", "raised")
    assert fetch.error.startswith("ValueError('no")
    # The call of scale with a Poison was sent; the one with a lock was not.
    assert names["rpc_sync#scale(worker0 -> worker1)"] == 1
    assert sum(names.values()) == 12


@pytest.mark.parametrize(
    ("function", "error", "link"),
    [
        ("raise_value_error", r"ValueError('no\nway')", "exact"),
        # The server cannot unpickle it, so it never ran.
        ("only_here", "Can't get attribute 'only_here'", ""),
        ("scale", "ValueError: no", ""),
        # Its answer cannot be pickled.
        ("no_pickle", "cannot pickle '_thread.lock' object", "exact"),
        ("aten::add", "RuntimeError: ", "inferred"),
        (SCRIPTED, "RuntimeError: ", "inferred"),
        ("no_future", "must return a torch.futures.Future", "exact"),
        ("nested_timeout", "RuntimeError('RPCErr:1:", "exact"),
    ],
)
def test_a_call_that_raises_keeps_its_error_and_its_server_span(
    failures: SeenTrace, function: str, error: str, link: str
) -> None:
    call = failures.only(f"rpc_sync#{function}(worker0 -> worker1)")
    assert (call.status, call.link) == ("raised", link)
    assert error in call.error
    assert "\n" not in call.error
    assert (call.server_start_ns is None) == (not link)
    assert not link or call.served_ns <= call.latency_ns
    assert link != "inferred" or "aten::" in call.operators[0].name


def test_a_call_that_times_out_is_still_served(failures: SeenTrace) -> None:
    call = failures.only("rpc_sync#sleep(worker0 -> worker1)")
    assert (call.status, call.link) == ("timed-out", "exact")
    assert "RPC ran for more than set timeout (100 ms)" in call.error
    assert 0.09e9 < call.latency_ns < call.served_ns
    assert call.served_ns >= served.LONG_S * 1e9
    # A timeout inside a served function is no timeout of its caller.
    inner = failures.only("rpc_sync#sleep(worker1 -> worker2)")
    outer = failures.only("rpc_sync#nested_timeout(worker0 -> worker1)")
    assert (inner.status, inner.parent_call) == ("timed-out", outer.call_id)
