"""`profile`: where it begins and ends, what it refuses, its times, and profilers beside it.

`test_in_a_world.py` runs these tests.
"""

import os
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from statistics import median
from typing import Any

import pytest
import torch
import torch.distributed.rpc as rpc
from torch.autograd.profiler_legacy import profile as _legacy_profile
from torch.distributed.rpc import rpc_async, rpc_sync

from testing.golden_files import rows
from tests.trace.record import rank_control, served
from tests.trace.record.conftest import SeenCall, SeenTrace, profiled
from tests.trace.record.rank_control import NAMES, everywhere, left_behind, profile_nothing, refusal
from tests.trace.record.served import work
from tuner.torch_private.operators import OperatorProfiler
from tuner.trace.files.reader import read_trace
from tuner.trace.record.driver import TraceDriver
from tuner.trace.record.profile import profile

pytestmark = pytest.mark.usefixtures("_world")

# PyTorch has no types for it.
legacy_profile: Any = _legacy_profile


def test_where_a_rank_lacks_the_package_no_rank_is_traced() -> None:
    rpc_sync("worker2", rank_control.hide_tuner)
    kind, message = refusal(profile_nothing)
    assert everywhere(left_behind) == {name: [] for name in NAMES}
    rpc_sync("worker2", rank_control.show_tuner)
    assert kind == "TraceError"
    assert message.endswith("worker2: rpc-tuner is not installed there")


# Calls at the edges of a profile.


def test_calls_at_the_beginning_and_the_end() -> None:
    early = rpc_async("worker1", served.pass_gate_then_call, args=("early", "worker2"))
    rpc_sync("worker1", served.await_gate, args=("early",))
    with profiled(drain_s=20.0) as found:
        rpc_sync("worker1", served.open_gate, args=("early",))
        early.wait()
        ending = rpc_async("worker1", time.sleep, args=(0.1,))
    ending.wait()
    # A call from before the block is not recorded. What it calls inside is, without a parent.
    assert not found.trace.named("rpc_async#pass_gate_then_call(worker0 -> worker1)")
    assert found.trace.only("rpc_sync#scale(worker1 -> worker2)").parent_call is None
    # A call that ends soon after the block is whole.
    call = found.trace.only("rpc_async#sleep(worker0 -> worker1)")
    assert (call.status, call.link) == ("ok", "exact")
    assert min(call.served_ns, call.latency_ns) >= 0.1e9
    assert found.trace.facts["losses"] == []


def test_a_call_that_does_not_end_in_time_is_a_loss_and_no_error_in_this_profile_or_the_next() -> (
    None
):
    gate = "rpc_async#pass_gate(worker0 -> worker1)"
    with profiled(drain_s=0.1) as found:
        late = rpc_async("worker1", served.pass_gate, args=("late",))
        rpc_sync("worker1", served.await_gate, args=("late",))
    call = found.trace.only(gate)
    assert (call.status, call.end_ns, call.server_end_ns) == ("unfinished", None, None)
    assert call.server_start_ns is not None
    assert found.trace.only("rpc_sync#await_gate(worker0 -> worker1)").status == "ok"
    assert found.trace.facts["losses"] == [
        "1 call of worker0 had no answer when the trace ended",
        "worker1 was still serving 1 call when the trace ended",
    ]
    with profiled(drain_s=20.0) as found:
        # Its number would be that of the late call, whose answer comes first.
        slow = rpc_async("worker1", served.pass_gate, args=("slow",))
        rpc_sync("worker1", served.open_gate, args=("late",))
        late.wait()
        rpc_sync("worker1", served.open_gate, args=("slow",))
        slow.wait()
    assert found.trace.names() == {gate: 1, "rpc_sync#open_gate(worker0 -> worker1)": 2}
    call = found.trace.only(gate)
    _, opening = found.trace.named("rpc_sync#open_gate(worker0 -> worker1)")
    assert opening.start_ns < call.server_end_ns <= call.end_ns


def test_a_profile_in_a_profile_is_refused_and_does_no_harm() -> None:
    with profiled() as found:
        rpc_sync("worker1", served.scale, args=(1, 1))
        inner = refusal(profile_nothing)
        rpc_sync("worker1", served.scale, args=(2, 2))
        elsewhere = refusal(lambda: rpc_sync("worker1", profile_nothing))
        rpc_sync("worker1", served.scale, args=(3, 3))
    assert inner[0] == "TraceError"
    assert "already being traced" in inner[1]
    assert "already being traced" in elsewhere[1]
    assert len(found.trace.named("rpc_sync#scale(worker0 -> worker1)")) == 3


def test_in_a_pause_nothing_is_recorded_and_no_hook_is_left() -> None:
    def calls(number: int) -> None:
        rpc_sync("worker1", served.scale, args=(number, 1))
        rpc_sync("worker1", served.nested, args=("worker2", torch.ones(4)))

    driver = TraceDriver(operators=True, drain_s=1.0)
    driver.start()
    calls(1)
    driver.pause()
    paused = everywhere(left_behind)
    calls(2)
    driver.resume()
    calls(3)
    recordings, _, _ = driver.stop()
    # Files about its threads stay open, which costs nothing.
    assert [each for rank in paused.values() for each in rank if not each.startswith("open:")] == []
    issued = [sorted(span.function for span in recording.client_spans) for recording in recordings]
    assert issued == [["nested", "nested", "scale", "scale"], ["work", "work"], []]
    assert [len(recording.server_spans) for recording in recordings] == [0, 4, 2]
    # Operators before the pause are lost.
    names = [[span.name for span in recording.operators or ()] for recording in recordings]
    assert [name.count("aten::mul") for name in names] == [0, 0, 1]


def test_the_user_sees_the_error_that_ended_the_block() -> None:
    prof = profile()

    def block() -> None:
        with prof:
            rpc_sync("worker1", served.scale, args=(1, 1))
            raise LookupError("of the user's own")

    assert refusal(block) == ("LookupError", "of the user's own")
    assert len(prof.calls) == 1
    unread = "read the profile after its with block has ended"
    assert refusal(profile().table) == ("TraceError", unread)


def test_profiles_that_begin_and_end_during_calls_are_complete() -> None:
    """Two ranks call each other all the time."""
    rpc_sync("worker1", rank_control.start_hammering, args=("worker2",))
    rpc_sync("worker2", rank_control.start_hammering, args=("worker1",))
    try:
        for _ in range(25):
            profile_nothing(operators=False)
        with profiled() as found:
            time.sleep(0.05)
    finally:
        rpc_sync("worker1", rank_control.stop_hammering)
        rpc_sync("worker2", rank_control.stop_hammering)
    # They are made by threads that serve nobody.
    assert {call.parent_call for call in found.trace.calls} == {None}
    assert {call.client_rank for call in found.trace.calls} == {1, 2}


# Profilers of the user.


def test_operators_are_not_recorded_if_a_users_profiler_runs_in_any_thread() -> None:
    with torch.autograd.profiler.profile(use_kineto=True) as theirs, ThreadPoolExecutor() as pool:
        torch.neg(torch.ones(1))
        refused = pool.submit(refusal, OperatorProfiler).result()
        # A profile without operators runs beside it.
        with profiled(operators=False) as found:
            rpc_sync("worker1", work, args=(torch.ones(4),))
    assert found.trace.only("rpc_sync#work(worker0 -> worker1)").link == "exact"
    assert refused[0] == "RuntimeError"
    assert [event.name for event in theirs.function_events or ()].count("aten::neg") == 1


def test_operators_lost_to_a_users_profiler_are_a_stated_loss() -> None:
    with profiled() as found:
        rpc_sync("worker1", work, args=(torch.ones(4),))
        assert served.operators_of(torch.neg, torch.ones(1)) == {"aten::neg": 1}
    if not any(operator.name == "aten::neg" for operator in found.trace.operators):
        assert any("worker0" in loss for loss in found.trace.facts["losses"])


def test_the_legacy_profiler_works_in_the_block_and_what_it_writes_is_read(tmp_path: Path) -> None:
    path, name = tmp_path / "trace.json", "rpc_sync#work(worker0 -> worker1)"

    def legacy() -> None:
        with legacy_profile() as profiler:
            rpc_sync("worker1", work, args=(torch.ones(4),))
            torch.ones(2).abs()
        profiler.export_chrome_trace(path)
        trace = read_trace(path)
        assert rows(trace.calls, "name", "client_rank", "server_rank") == [(name, 0, 1)]
        called = dict(rows(trace.operators, "name", "call_name"))
        assert (called["aten::mul"], called["aten::abs"]) == (name, "")
        assert [rank.name for rank in trace.ranks] == ["worker0", "worker1"]

    legacy()
    with profiled(operators=False) as found:
        legacy()
    assert found.trace.names() == {name: 1}


# Times: of known length, of known work, and on different clocks.

AHEAD_NS, DRIFT = 7_000_000_000, 0.02
WORK_S = 0.05
# A host that takes a CPU away from its guest is seen in some short calls, not in all.
REPEATS = 12


def test_another_hosts_times_are_brought_to_the_clock_of_the_first() -> None:
    """Rank 2 acts as if it were on another host, with a clock that is ahead and goes faster."""
    rpc_sync("worker2", rank_control.become_another_host, args=(AHEAD_NS, DRIFT))
    try:
        with profiled(operators=False) as found:
            for _ in range(20):
                rpc_sync("worker2", served.scale, args=(1, 1))
                rpc_sync("worker1", served.nested, args=("worker2", torch.ones(2)))
    finally:
        rpc_sync("worker2", rank_control.become_another_host, args=(0, 0.0))
    calls, error_ns = found.trace.calls, found.trace.frames.clock_error_ns
    assert len(calls) == 60
    for call in calls:
        assert call.start_ns - error_ns <= call.server_start_ns <= call.start_ns + AHEAD_NS / 2
        assert call.server_end_ns <= call.end_ns + error_ns
    # The bounds before and after differ by the drift, of which the half-width is half.
    lasted_ns = max(call.end_ns for call in calls) - min(call.start_ns for call in calls)
    assert 0.8 * lasted_ns * DRIFT / 2 <= error_ns < 100_000_000
    assert found.trace.facts["losses"] == []


def spent_as_measured(trace: SeenTrace, used: list[float]) -> list[int]:
    """The nanoseconds that each call neither ran nor waited for a CPU; its CPU time is right."""
    calls: list[SeenCall] = sorted(trace.calls, key=lambda call: call.call_id)
    beyond_ns = [call.cpu_ns - cpu_s * 1e9 for call, cpu_s in zip(calls, used, strict=True)]
    # What the function itself measured is a part of it; the rest the tracer used.
    assert min(beyond_ns) >= -1e3
    assert median(beyond_ns) < 2e6
    return [call.served_ns - call.cpu_ns - call.run_queue_ns for call in calls]


def test_what_computes_either_runs_or_waits_for_a_cpu() -> None:
    """Two calls at once on one CPU."""
    used: list[float] = []
    asked = WORK_S, min(os.sched_getaffinity(0))
    with profiled(operators=False) as found:
        for _ in range(REPEATS):
            both = [rpc_async("worker1", served.hash_for, asked) for _ in range(2)]
            used += [each.wait() for each in both]
    calls = found.trace.calls
    off_ns = spent_as_measured(found.trace, used)
    # A host that takes a CPU away adds to neither: on shared machines a share of 0.08 was seen.
    assert -0.05 < min(off_ns) / (WORK_S * 1e9) < 0.4
    waited = median(call.run_queue_ns / (call.cpu_ns + call.run_queue_ns) for call in calls)
    assert waited > 0.35  # each waits half of the time


def test_what_sleeps_neither_runs_nor_waits() -> None:
    with profiled(operators=False) as found:
        used = [rpc_sync("worker1", served.measured_nap, (WORK_S,)) for _ in range(REPEATS)]
    assert min(spent_as_measured(found.trace, used)) >= 0.99 * WORK_S * 1e9
    assert median(call.cpu_ns for call in found.trace.calls) < 0.05 * WORK_S * 1e9


def test_rpc_that_ends_in_the_block_is_an_error_and_leaves_nothing() -> None:
    """The last test: there is no RPC after it."""
    for name in NAMES[1:]:
        rpc_sync(name, rank_control.dismiss)

    def block() -> None:
        with profile():
            rpc.shutdown()

    assert refusal(block)[0] == "TraceError"
    assert refusal(profile) == (
        "TraceError", "RPC is not running in this process: trace after init_rpc"
    )  # fmt: skip
