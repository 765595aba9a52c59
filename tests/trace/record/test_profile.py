"""`profile` itself: where it begins and ends, what it refuses, and that it leaves no trace."""

import pytest

from tests.trace.record.conftest import ProgramRun
from tests.trace.record.program import SCENARIOS
from tests.trace.record.tools import NAMES
from tuner.errors import TraceError
from tuner.trace.record.profile import profile

pytestmark = [pytest.mark.world, pytest.mark.thorough]


@pytest.mark.parametrize("scenario", [*(each.__name__ for each in SCENARIOS), "the_end_of_rpc"])
def test_the_program_runs_and_tracing_leaves_nothing_behind(ran: ProgramRun, scenario: str) -> None:
    facts = ran.facts[scenario]
    assert "error" not in facts, facts["error"]
    assert [left for left in facts["left"].values() if left] == []


# Calls at the edges of a profile.


def test_a_call_from_before_the_block_is_not_recorded(ran: ProgramRun) -> None:
    trace = ran.trace("edges")
    assert not trace.named("rpc_async#pass_gate_then_call(worker0 -> worker1)")
    # The call that it makes inside the block is recorded, but without a parent.
    assert trace.only("rpc_sync#where(worker1 -> worker2)").parent_call is None


def test_a_call_that_ends_soon_after_the_block_is_whole(ran: ProgramRun) -> None:
    trace = ran.trace("edges")
    call = trace.only("rpc_async#nap(worker0 -> worker1)")
    assert (call.status, call.link) == ("ok", "exact")
    assert call.served_ns >= 0.1e9
    assert call.latency_ns >= 0.1e9
    assert trace.facts["losses"] == []


def test_a_call_that_does_not_end_in_time_is_a_loss_and_no_error(ran: ProgramRun) -> None:
    trace = ran.trace("unfinished")
    call = trace.only("rpc_async#pass_gate(worker0 -> worker1)")
    assert (call.status, call.end_ns, call.server_end_ns) == ("unfinished", None, None)
    assert call.server_start_ns is not None
    assert trace.only("rpc_sync#await_gate(worker0 -> worker1)").status == "ok"
    assert trace.facts["losses"] == [
        "1 call of worker0 had no answer when the trace ended",
        "worker1 was still serving 1 call when the trace ended",
    ]


def test_an_answer_of_an_earlier_profile_ends_no_call_of_this_one(ran: ProgramRun) -> None:
    trace = ran.trace("after")
    assert trace.names() == {
        "rpc_async#pass_gate(worker0 -> worker1)": 1,
        "rpc_sync#open_gate(worker0 -> worker1)": 2,
    }
    # The late call's answer came before this one was let through its gate.
    call = trace.only("rpc_async#pass_gate(worker0 -> worker1)")
    _, opening = trace.named("rpc_sync#open_gate(worker0 -> worker1)")
    assert call.server_end_ns is not None
    assert opening.start_ns < call.server_end_ns <= call.end_ns
    assert ran.trace("again").names() == {"rpc_sync#scale(worker0 -> worker1)": 1}


def test_a_profile_in_a_profile_is_refused_and_does_no_harm(ran: ProgramRun) -> None:
    facts = ran.facts["profiles_in_profiles"]
    for refused in (facts["inner"], facts["elsewhere"]):
        assert "already being traced" in refused[1]
    assert facts["inner"][0] == "TraceError"
    assert facts["outer"] == ["", ""]
    assert len(ran.trace("outer").named("rpc_sync#scale(worker0 -> worker1)")) == 3


def test_in_a_pause_nothing_is_recorded_and_no_hook_is_left(ran: ProgramRun) -> None:
    facts = ran.facts["a_pause"]
    left = {each for rank in facts["paused"].values() for each in rank}
    # Files about its threads stay open, which costs nothing.
    assert [each for each in left if not each.startswith("open: ")] == []
    assert facts["issued"] == [["nested", "nested", "scale", "scale"], ["work", "work"], []]
    assert facts["served"] == [0, 4, 2]
    assert facts["operators"] == [0, 0, 1]  # operators before the pause are lost


def test_the_user_sees_the_error_that_ended_the_block(ran: ProgramRun) -> None:
    facts = ran.facts["blocks_that_raise"]
    assert facts["raised"] == ["LookupError", "of the user's own"]
    assert facts["calls"] == 1
    assert facts["unread"] == ["TraceError", "read the profile after its with block has ended"]


def test_profiles_that_begin_and_end_during_calls_are_complete(ran: ProgramRun) -> None:
    assert ran.facts["hammered"]["problems"] == []
    assert ran.trace("hammered").calls


def test_a_profile_before_init_rpc_is_refused() -> None:
    with pytest.raises(TraceError, match="trace after init_rpc"):
        profile()


def test_a_rank_without_the_package_is_named_and_no_rank_is_traced(ran: ProgramRun) -> None:
    facts = ran.facts["a_rank_without_the_package"]
    assert facts["imported"] == {name: [] for name in NAMES}
    kind, message = facts["refused"]
    assert kind == "TraceError"
    assert message.endswith("worker2: rpc-tuner is not installed there")
    kind, message = ran.facts["the_end_of_rpc"]["refused"]
    assert kind == "TraceError", message


# Profilers of the user.


def test_a_users_profiler_runs_beside_a_profile_without_operators(ran: ProgramRun) -> None:
    assert ran.trace("beside").only("rpc_sync#work(worker0 -> worker2)").link == "exact"
    assert "aten::neg" in ran.facts["a_profiler_of_the_user"]["seen"]


def test_operators_lost_to_a_users_profiler_are_a_stated_loss(ran: ProgramRun) -> None:
    assert ran.facts["profilers_in_the_block"]["kineto"] == {"aten::neg": 1}
    trace = ran.trace("kineto inside")
    if not any(each.name == "aten::neg" for each in trace.operators):
        assert any("worker0" in loss for loss in trace.facts["losses"])


def test_the_legacy_profiler_works_in_the_block(ran: ProgramRun) -> None:
    facts = ran.facts["profilers_in_the_block"]
    assert facts["refused"] == facts["refused before"] == ["", ""]
    assert any("rpc_sync#work(worker0 -> worker1)" in name for name in facts["legacy"])
    assert ran.trace("legacy inside").names() == {"rpc_sync#work(worker0 -> worker1)": 1}


def test_operators_are_not_recorded_if_a_users_profiler_runs_in_any_thread(ran: ProgramRun) -> None:
    facts = ran.facts["a_profiler_in_another_thread"]
    assert facts["refused"][0] == "RuntimeError"
    assert facts["theirs"].count("aten::neg") == 1
