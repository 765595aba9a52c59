"""Calls that raise, time out, or cannot be sent, run, or answered."""

import pytest

from tests.trace.record.conftest import ProgramRun
from tests.trace.record.seen_trace import SeenCall
from tests.trace.record.served import LONG_S

pytestmark = [pytest.mark.world, pytest.mark.thorough]
SCRIPTED = "__torch__.tests.trace.record.served.scripted"


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
    assert call.served_ns >= LONG_S * 1e9
    # A timeout inside a served function is no timeout of its caller.
    inner = ran.trace("failures").only("rpc_sync#nap(worker1 -> worker2)")
    outer = fails(ran, "nested_timeout")
    assert (inner.status, inner.parent_call) == ("timed-out", outer.call_id)
