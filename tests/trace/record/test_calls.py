"""Every kind of call, wherever it is made: names, server's sides, operators, parents."""

from collections import Counter

import pytest
import torch

from tests.trace.record import served
from tests.trace.record.conftest import ProgramRun

pytestmark = [pytest.mark.world, pytest.mark.thorough]


def test_results_are_the_same_with_and_without_a_profile(ran: ProgramRun) -> None:
    traced, untraced = ran.facts["every_kind_of_call"]["results"]
    assert traced == untraced
    assert untraced["proxies"] == [6, 8, 11, 15]
    script = ran.facts["a_script_module_comes_back"]
    assert script["refused"] == ["", ""]
    assert script["found"] == [[3.0, 3.0], [3.0, 3.0]]
    untraced, traced = ran.facts["gradients_through_rpc"]["found"]
    assert traced == untraced == [20.0] * 3
    assert ran.trace("gradients").names() == {
        "rpc_sync#work(worker0 -> worker1)": 1,
        "rpc_remote#work(worker0 -> worker2)": 1,
        "to_here#(worker0)->(worker2)": 1,
    }


SCRIPTED = "__torch__.tests.trace.record.served.scripted"
KINDS = {
    **dict.fromkeys((f"{call}(worker0 -> worker1)" for call in (
        "rpc_sync#work", "rpc_remote#work", "rpc_sync#aten::add", "rpc_remote#aten::mul",
        f"rpc_sync#{SCRIPTED}", f"rpc_remote#{SCRIPTED}", "rpc_sync#nested", "rpc_sync#later",
        "rpc_async#later_by", "rpc_remote#later_by", "rpc_remote#Adder", "rpc_sync#Adder.add",
        "rpc_async#Adder.add", "rpc_remote#Adder.add", "rpc_sync#Adder.add_later",
        # A proxy asks for the type of its object, once.
        "rpc_async#_rref_typeof_on_owner", "rpc_sync#gather", "rpc_sync#partial",
        "rpc_sync#Scale", "rpc_sync#Scale.times", "rpc_sync#sum_of", "rpc_sync#rref_of",
        "rpc_sync#exception_of", "rpc_sync#max",
    )), 1),
    "rpc_async#work(worker0 -> worker1)": 5,
    "rpc_sync#work(worker0 -> worker2)": 2,
    "rpc_sync#scale(worker0 -> worker0)": 1,
    "rpc_remote#work(worker0 -> worker0)": 1,
    "rpc_sync#work(worker1 -> worker2)": 1,
    "rpc_async#work(worker1 -> worker2)": 1,
    "rpc_sync#sum_of(worker0 -> worker2)": 1,
    # Two of one value, and of a product, a script, later_by, Adder.add, and rref_of one each.
    "to_here#(worker0)->(worker1)": 7,
    "to_here#(worker2)->(worker1)": 2,
}  # fmt: skip


def test_every_call_is_recorded_once_with_pytorchs_own_name(ran: ProgramRun) -> None:
    assert ran.trace("kinds").names() == KINDS


def test_every_call_has_a_server_side_where_it_can_be_known(ran: ProgramRun) -> None:
    trace = ran.trace("kinds")
    assert trace.facts["losses"] == []
    links = {"python": "exact", "builtin": "inferred", "script": "inferred", "fetch": ""}
    for call in trace.calls:
        assert (call.status, call.error, call.link) == ("ok", "", links[call.body]), call
        assert (call.server_start_ns is None) == (call.body == "fetch")
        if call.body == "builtin":
            assert call.operators[0].name == call.name.partition("#")[2].partition("(")[0]
        if call.body == "script":
            assert [each.name for each in call.operators] == ["aten::mul", "aten::add"]


def test_a_function_has_exactly_its_operators_in_every_call(ran: ProgramRun) -> None:
    expected = served.operators_of(served.work, torch.ones(4))
    assert expected == {"aten::mul": 1, "aten::add": 1, "aten::relu": 1, "aten::clamp_min": 1}
    calls = [call for call in ran.trace("kinds").calls if "#work(" in call.name]
    assert len(calls) == 12
    for call in calls:
        assert Counter(each.name for each in call.operators) == expected


def test_operators_that_no_call_ran_belong_to_none(ran: ProgramRun) -> None:
    trace = ran.trace("kinds")
    loose: dict[str, set[int]] = {}
    for each in trace.operators:
        if each.call_id is None:
            loose.setdefault(each.name, set()).add(each.rank)
    assert loose["aten::empty"] == loose["aten::set_"] == {0, 1, 2}  # tensors are received
    assert loose["aten::mul"] == {0}  # the program's own, and what `then` ran
    assert loose["aten::add"] == {1}  # what `then` ran in `later`


def test_calls_made_inside_served_functions_name_them(ran: ProgramRun) -> None:
    trace = ran.trace("kinds")
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


def test_the_future_of_an_async_function_is_done_after_it(ran: ProgramRun) -> None:
    trace = ran.trace("kinds")
    asynchronous = [call for call in trace.calls if "later" in call.name]
    assert len(asynchronous) == 4
    for call in trace.calls:
        assert (call.done_ns is not None) == (call in asynchronous), call
    after_ns = []
    for call in asynchronous:
        if "later_by" in call.name:
            assert call.done_ns - call.server_start_ns >= 50_000_000
            assert call.latency_ns >= 50_000_000
            after_ns.append(call.done_ns - call.server_end_ns)
    # A function that loses its CPU before it returns is overtaken by its future: one may be.
    assert len(after_ns) == 2
    assert max(after_ns) >= 25_000_000


def test_the_profile_can_be_read_in_every_way(ran: ProgramRun) -> None:
    facts, trace = ran.facts["every_kind_of_call"], ran.trace("kinds")
    assert (facts["calls"], facts["operators"]) == (len(trace.calls), len(trace.operators))
    assert {name: refused for name, refused in facts["refused"].items() if any(refused)} == {}


# Calls of other ranks and threads.


def test_calls_that_other_ranks_make_by_themselves(ran: ProgramRun) -> None:
    trace, mains = ran.trace("others"), ran.facts["calls_of_other_ranks"]["mains"]
    for client, server in (("worker1", "worker0"), ("worker1", "worker2"), ("worker2", "worker1")):
        calls = trace.named(f"rpc_async#work({client} -> {server})")
        assert len(calls) == 5
        for call in calls:
            assert call.parent_call is None  # the main thread serves nobody
            assert call.client_thread == mains[client]
            assert len(call.operators) == 4


def test_calls_from_other_threads_name_their_thread(ran: ProgramRun) -> None:
    threads = ran.facts["calls_of_other_ranks"]["threads"]
    assert len(set(threads.values())) == 4
    calls = ran.trace("others").named("rpc_sync#scale(worker0 -> worker2)")
    assert Counter(call.client_thread for call in calls) == dict.fromkeys(threads.values(), 3)


def test_served_functions_agree_on_where_and_when_they_ran(ran: ProgramRun) -> None:
    trace, told = ran.trace("places"), ran.facts["places_of_calls"]["where"]
    assert len(trace.calls) == len(told) == 15
    ranks = {rank["rank"]: rank for rank in trace.facts["ranks"]}
    for call, (pid, thread, time_ns) in zip(trace.calls, told, strict=True):
        assert ranks[call.server_rank]["pid"] == pid
        assert call.server_thread == thread
        at_ns = time_ns - trace.facts["base_time_ns"]
        assert call.server_start_ns <= at_ns <= call.server_end_ns
