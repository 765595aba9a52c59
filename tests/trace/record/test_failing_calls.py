"""Calls that raise, time out, or cannot be sent, run, or answered."""

import pytest

from tests.trace.record.conftest import ProgramRun
from tests.trace.record.seen_trace import SeenCall
from tests.trace.record.served import LONG_S

pytestmark = [pytest.mark.world, pytest.mark.thorough]
SCRIPTED = "__torch__.tests.trace.record.served.scripted"


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


def test_what_was_never_sent_is_no_call(ran: ProgramRun) -> None:
    names = ran.trace("failures").names()
    assert not any("lambda" in name or "worker9" in name for name in names)
    # The call of scale with a Poison was sent; the one with a lock was not.
    assert names["rpc_sync#scale(worker0 -> worker1)"] == 1
    assert sum(names.values()) == 15


def fails(ran: ProgramRun, function: str, kind: str = "rpc_sync") -> SeenCall:
    return ran.trace("failures").only(f"{kind}#{function}(worker0 -> worker1)")


@pytest.mark.parametrize(
    ("function", "error"),
    [
        ("raise_value_error", r"ValueError('no\nway')"),
        ("raise_key_error", "KeyError('a key')"),
        ("raise_two_arguments", "TwoArgumentsError('1 2')"),
    ],
)
def test_a_call_that_raises_keeps_its_error_and_its_server_span(
    ran: ProgramRun, function: str, error: str
) -> None:
    call = fails(ran, function)
    assert (call.status, call.error, call.link) == ("raised", error, "exact")
    assert call.served_ns <= call.latency_ns


@pytest.mark.parametrize(
    ("function", "error"),
    [
        ("only_here", "Can't get attribute 'only_here'"),
        ("function", "No module named 'only_here'"),
        ("scale", "ValueError: no"),
    ],
)
def test_what_the_server_cannot_unpickle_never_ran(
    ran: ProgramRun, function: str, error: str
) -> None:
    call = fails(ran, function)
    assert (call.status, call.link) == ("raised", "")
    assert error in call.error
    assert "\n" not in call.error
    assert call.server_start_ns is None


def test_an_answer_that_cannot_be_pickled_is_an_error_after_the_function(ran: ProgramRun) -> None:
    call = fails(ran, "no_pickle")
    assert (call.status, call.link) == ("raised", "exact")
    assert "cannot pickle '_thread.lock' object" in call.error
    assert call.server_end_ns is not None
    assert call.server_end_ns is not None


@pytest.mark.parametrize("function", ["aten::add", SCRIPTED])
def test_builtins_and_scripts_that_raise_have_their_operators(
    ran: ProgramRun, function: str
) -> None:
    call = fails(ran, function)
    assert (call.status, call.link) == ("raised", "inferred")
    assert call.error.startswith("RuntimeError: ")
    assert "aten::" in call.operators[0].name


def test_an_async_function_without_a_future_is_an_error(ran: ProgramRun) -> None:
    call = fails(ran, "no_future")
    assert call.status == "raised"
    assert "must return a torch.futures.Future" in call.error


def test_an_rref_raises_the_error_when_it_is_fetched(ran: ProgramRun) -> None:
    assert fails(ran, "raise_value_error", "rpc_remote").link == "exact"
    fetch = ran.trace("failures").only("to_here#(worker0)->(worker1)")
    assert fetch.status == "raised"
    assert fetch.error.startswith("ValueError('no")


def test_a_call_that_times_out_is_still_served(ran: ProgramRun) -> None:
    call = fails(ran, "nap")
    assert call.status == "timed-out"
    assert "RPC ran for more than set timeout (100 ms)" in call.error
    assert 0.09e9 < call.latency_ns < call.served_ns
    assert call.served_ns >= LONG_S * 1e9
    assert call.link == "exact"


def test_a_timeout_inside_a_served_function_is_no_timeout_of_its_caller(ran: ProgramRun) -> None:
    outer = fails(ran, "nested_timeout")
    inner = ran.trace("failures").only("rpc_sync#nap(worker1 -> worker2)")
    assert (inner.status, inner.parent_call) == ("timed-out", outer.call_id)
    assert outer.status == "raised"
    assert outer.error.startswith("RuntimeError('RPCErr:1:")


def test_calls_that_failed_are_no_loss(ran: ProgramRun) -> None:
    assert ran.trace("failures").facts["losses"] == []
