"""`profile`: where it begins and ends, what it refuses, its times, and that it leaves no trace."""

from collections.abc import Sequence
from itertools import pairwise
from statistics import median

import pytest

from tests.trace.perfetto_rules import broken_rules
from tests.trace.record.conftest import ProgramRun, SeenCall
from tests.trace.record.program import SCENARIOS
from tests.trace.record.tools import AHEAD_NS, DRIFT, NAMES, NAP_S, THREADS, WORK_S
from tuner.errors import TraceError
from tuner.trace.analyze.call_times import call_times
from tuner.trace.analyze.server_parallelism import parallelism
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
    assert min(call.served_ns, call.latency_ns) >= 0.1e9
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
    assert opening.start_ns < call.server_end_ns <= call.end_ns
    assert ran.trace("again").names() == {"rpc_sync#scale(worker0 -> worker1)": 1}


def test_a_profile_in_a_profile_is_refused_and_does_no_harm(ran: ProgramRun) -> None:
    facts = ran.facts["profiles_in_profiles"]
    assert "already being traced" in facts["inner"][1]
    assert "already being traced" in facts["elsewhere"][1]
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


def test_without_rpc_or_the_package_on_every_rank_nothing_is_traced(ran: ProgramRun) -> None:
    with pytest.raises(TraceError, match="trace after init_rpc"):
        profile()
    facts = ran.facts["a_rank_without_the_package"]
    assert facts["imported"] == {name: [] for name in NAMES}
    assert facts["refused"][0] == ran.facts["the_end_of_rpc"]["refused"][0] == "TraceError"
    assert facts["refused"][1].endswith("worker2: rpc-tuner is not installed there")


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


# Times: of known length, of known work, and on different clocks.


def test_another_hosts_times_are_brought_to_the_clock_of_the_first(ran: ProgramRun) -> None:
    trace = ran.trace("clocks")
    error_ns = trace.facts["clock_error_ns"]
    assert len(trace.calls) == 60
    for call in trace.calls:
        assert call.start_ns - error_ns <= call.server_start_ns <= call.start_ns + AHEAD_NS / 2
        assert call.server_end_ns <= call.end_ns + error_ns
    # The bounds before and after differ by the drift, of which the half-width is half.
    lasted_ns = max(call.end_ns for call in trace.calls) - min(c.start_ns for c in trace.calls)
    assert 0.8 * lasted_ns * DRIFT / 2 <= error_ns < 100_000_000
    assert trace.facts["losses"] == []


def test_eight_naps_on_four_threads(ran: ProgramRun) -> None:
    trace = ran.trace("naps").frames
    assert trace.clock_error_ns == 0
    (row,) = parallelism(trace).itertuples(index=False, name="Row")
    assert (row.server, row.threads, row.max, row.calls) == ("worker1", 4, 4, 8)
    # Below 4 where a host stopped a CPU of its guest, and one nap lasted longer than the others.
    assert row.mean_while_busy == pytest.approx(3.5, abs=0.51)
    in_order = trace.calls.sort_values("server_start_ns")
    times, nap_us = call_times(in_order), NAP_S * 1e6
    # A nap is never too short; of its lateness the median is judged.
    assert (times["off_cpu_us"] >= 0.999 * nap_us).all()
    assert times["off_cpu_us"].median() < 1.5 * nap_us
    assert times["on_cpu_us"].median() < 0.02 * nap_us
    assert times["queue_us"].iloc[:4].min() < 0.1 * nap_us
    assert 0.9 * nap_us < times["queue_us"].iloc[4:].median() < 1.5 * nap_us


@pytest.mark.parametrize(
    ("kind", "function"),
    [("alone", "rpc_sync#hash_for"), ("asleep", "rpc_sync#measured_nap"),
     ("one CPU", "rpc_async#hash_for")],
)  # fmt: skip
def test_where_the_time_of_known_work_goes(ran: ProgramRun, kind: str, function: str) -> None:
    calls = ran.trace("work").named(f"{function}(worker0 -> worker1)")
    calls.sort(key=lambda call: call.call_id)
    measured = ran.facts["known_work"][kind]
    beyond_ns = [c.cpu_ns - own_s * 1e9 for c, (_, own_s) in zip(calls, measured, strict=True)]
    # What the function itself measured is a part of its CPU time; the rest the tracer used.
    assert min(beyond_ns) >= -1e3
    assert median(beyond_ns) < 2e6
    off_ns = [call.served_ns - call.cpu_ns - call.run_queue_ns for call in calls]
    if kind == "asleep":
        assert min(off_ns) >= 0.99 * WORK_S * 1e9
        assert median(call.cpu_ns for call in calls) < 0.05 * WORK_S * 1e9
        return
    # A host that takes a CPU away adds to neither: on shared machines a share of 0.08 was seen.
    neither = min(off / call.served_ns for off, call in zip(off_ns, calls, strict=True))
    assert -0.05 < neither < 0.4
    waited = median(call.run_queue_ns / (call.cpu_ns + call.run_queue_ns) for call in calls)
    assert kind == "alone" or waited > 0.35  # two that share a CPU wait half of the time


# What holds for every trace.

TRACES = (
    "kinds", "failures", "others", "places", "edges", "unfinished", "after", "again", "outer",
    "beside", "kineto inside", "legacy inside", "gradients", "hammered", "clocks", "naps", "work",
)  # fmt: skip


@pytest.mark.parametrize("name", TRACES)
def test_a_trace_fits_together(ran: ProgramRun, name: str) -> None:
    trace = ran.trace(name)
    error_ns = trace.frames.clock_error_ns
    # Within the error of its clocks an arrow may point back.
    broken = [each for each in broken_rules(trace.document) if not each.endswith("back in time")]
    assert (broken if error_ns else broken_rules(trace.document)) == []
    assert [rank.name for rank in trace.frames.ranks] == list(NAMES)
    for rank in trace.frames.ranks:
        assert rank.num_worker_threads == THREADS
        assert (rank.pid, "main") in rank.threads
        assert (rank.cpu_s or 0) > 0
    for call in trace.calls:
        times_come_in_their_order(call, error_ns)
        the_parts_of_serving_fit_into_its_time(call)
        for each in call.operators:
            assert (each.rank, each.thread) == (call.server_rank, call.server_thread)
            assert each.link == call.link
            assert call.server_start_ns <= each.start_ns <= each.end_ns <= call.server_end_ns
    a_thread_serves_one_call_at_a_time(trace.calls)


def times_come_in_their_order(call: SeenCall, error_ns: int) -> None:
    """Those of different clocks may be wrong by `error_ns`."""
    assert (call.end_ns is None) == (call.status == "unfinished"), call
    assert call.start_ns <= call.issued_ns
    assert call.end_ns is None or call.start_ns < call.end_ns
    if call.server_start_ns is None:
        return
    assert call.start_ns <= call.server_start_ns + error_ns
    if call.server_end_ns is not None:
        assert call.server_start_ns <= call.server_end_ns
        assert call.done_ns is None or call.server_start_ns <= call.done_ns
    if call.status in ("ok", "raised") and call.body == "python":
        assert max(call.server_end_ns, call.done_ns or 0) <= call.end_ns + error_ns


def the_parts_of_serving_fit_into_its_time(call: SeenCall) -> None:
    if call.body != "python" or call.server_end_ns is None:
        assert (call.cpu_ns, call.run_queue_ns) == (None, None)
        return
    # The two clocks may differ by some parts in a million.
    assert 0 < call.cpu_ns <= 1.001 * call.served_ns
    # The clocks are read one after another, and the thread may lose its CPU in between.
    assert 0 <= call.run_queue_ns <= call.served_ns - call.cpu_ns + 5_000_000


def a_thread_serves_one_call_at_a_time(calls: Sequence[SeenCall]) -> None:
    ended = [call for call in calls if call.server_end_ns is not None]
    ended.sort(key=lambda call: (call.server_rank, call.server_thread, call.server_start_ns))
    for one, other in pairwise(ended):
        if (one.server_rank, one.server_thread) == (other.server_rank, other.server_thread):
            assert one.server_end_ns <= other.server_start_ns
