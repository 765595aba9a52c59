"""Every kind of call, also those that fail: names, server's sides, operators, parents."""

from collections import Counter

import pytest
import torch

from tests.trace.record import served
from tests.trace.record.conftest import ProgramRun, SeenCall

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


# Calls that raise, time out, or cannot be sent, run, or answered.


def fails(ran: ProgramRun, function: str, kind: str = "rpc_sync") -> SeenCall:
    return ran.trace("failures").only(f"{kind}#{function}(worker0 -> worker1)")


def test_failures_are_the_same_with_and_without_a_profile(ran: ProgramRun) -> None:
    facts = ran.facts["calls_that_fail"]

    def told(failures: dict[str, tuple[str, str]]) -> dict[str, tuple[str, list[str]]]:
        # The tracebacks that follow contain frames of the tracer.
        return {
            name: (kind, message.split("Traceback")[0].split("\n\n")[0].splitlines()[:2])
            for name, (kind, message) in failures.items()
        }

    assert told(facts["traced"]) == told(facts["before"])
    assert facts["traced"]["raises"][0] == "ValueError"
    assert all(kind for kind, _ in facts["traced"].values())
    assert ran.trace("failures").facts["losses"] == []


def test_what_was_never_sent_is_no_call(ran: ProgramRun) -> None:
    names = ran.trace("failures").names()
    assert not any("lambda" in name or "worker9" in name for name in names)
    # The call of scale with a Poison was sent; the one with a lock was not.
    assert names["rpc_sync#scale(worker0 -> worker1)"] == 1
    assert sum(names.values()) == 15


@pytest.mark.parametrize(
    ("function", "error", "link"),
    [
        ("raise_value_error", r"ValueError('no\nway')", "exact"),
        ("raise_key_error", "KeyError('a key')", "exact"),
        ("raise_two_arguments", "TwoArgumentsError('1 2')", "exact"),
        # The server cannot unpickle it, so it never ran.
        ("only_here", "Can't get attribute 'only_here'", ""),
        ("function", "No module named 'only_here'", ""),
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
    ran: ProgramRun, function: str, error: str, link: str
) -> None:
    call = fails(ran, function)
    assert (call.status, call.link) == ("raised", link)
    assert error in call.error
    assert "\n" not in call.error
    assert (call.server_start_ns is None) == (not link)
    assert not link or call.served_ns <= call.latency_ns
    assert link != "inferred" or "aten::" in call.operators[0].name


def test_an_rref_raises_the_error_when_it_is_fetched(ran: ProgramRun) -> None:
    assert fails(ran, "raise_value_error", "rpc_remote").link == "exact"
    fetch = ran.trace("failures").only("to_here#(worker0)->(worker1)")
    assert fetch.status == "raised"
    assert fetch.error.startswith("ValueError('no")


def test_a_call_that_times_out_is_still_served(ran: ProgramRun) -> None:
    call = fails(ran, "nap")
    assert (call.status, call.link) == ("timed-out", "exact")
    assert "RPC ran for more than set timeout (100 ms)" in call.error
    assert 0.09e9 < call.latency_ns < call.served_ns
    assert call.served_ns >= served.LONG_S * 1e9
    # A timeout inside a served function is no timeout of its caller.
    inner = ran.trace("failures").only("rpc_sync#nap(worker1 -> worker2)")
    outer = fails(ran, "nested_timeout")
    assert (inner.status, inner.parent_call) == ("timed-out", outer.call_id)
