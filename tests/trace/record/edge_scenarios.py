"""Scenarios of the traced program: where profiles begin and end, and where time goes."""

import os
import time
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

import torch
import torch.distributed.rpc as rpc
from torch.autograd.profiler_legacy import profile as _legacy_profile
from torch.distributed.rpc import rpc_async, rpc_sync

from tests.trace.record import rank_control, served
from tests.trace.record.served import work
from tests.trace.record.tools import (
    AHEAD_NS,
    DRIFT,
    NAMES,
    NAP_S,
    WORK_S,
    Facts,
    everywhere,
    profile_nothing,
    profiled,
    refusal,
)

# PyTorch has no types for it.
legacy_profile: Any = _legacy_profile

# A host that takes a CPU away from its guest is seen in some short calls, not in all.
REPEATS = 12


def a_rank_without_the_package() -> Facts:
    """If a rank lacks the package, no rank is traced."""
    imported = everywhere(rank_control.tuner_modules)
    rpc_sync("worker2", rank_control.hide_tuner)
    refused = refusal(profile_nothing)
    left = everywhere(rank_control.left_behind)
    rpc_sync("worker2", rank_control.show_tuner)
    return {"imported": imported, "refused": refused, "left": left}


def calls_at_the_edges() -> Facts:
    """Calls that are under way when the block begins, when it ends, and long after."""
    early = rpc_async("worker1", served.pass_gate_then_call, args=("early", "worker2"))
    rpc_sync("worker1", served.await_gate, args=("early",))
    with profiled("edges", drain_s=20.0):
        rpc_sync("worker1", served.open_gate, args=("early",))
        early.wait()
        ending = rpc_async("worker1", served.nap, args=(0.1,))
    ending.wait()
    with profiled("unfinished", drain_s=0.1):
        late = rpc_async("worker1", served.pass_gate, args=("late",))
        rpc_sync("worker1", served.await_gate, args=("late",))
    with profiled("after", drain_s=20.0):
        # Its number would be that of the late call, whose answer comes first.
        slow = rpc_async("worker1", served.pass_gate, args=("slow",))
        rpc_sync("worker1", served.open_gate, args=("late",))
        late.wait()
        rpc_sync("worker1", served.open_gate, args=("slow",))
        slow.wait()
    with profiled("again"):
        rpc_sync("worker1", served.scale, args=(2, 2))
    return {}


def profiles_in_profiles() -> Facts:
    """A second profile is refused and does not disturb the first."""
    facts: Facts = {}

    def block() -> None:
        with profiled("outer"):
            rpc_sync("worker1", served.scale, args=(1, 1))
            facts["inner"] = refusal(profile_nothing)
            rpc_sync("worker1", served.scale, args=(2, 2))
            facts["elsewhere"] = refusal(
                lambda: rpc_sync("worker1", rank_control.on_main, args=(profile_nothing,))
            )
            rpc_sync("worker1", served.scale, args=(3, 3))

    facts["outer"] = refusal(block)
    return facts


def a_profiler_of_the_user() -> Facts:
    """A rank's own profiler beside a profile without operators."""
    rpc_sync("worker2", rank_control.on_main, args=(rank_control.start_profiler,))
    with profiled("beside", operators=False):
        rpc_sync("worker2", work, args=(torch.ones(4),))
    seen = rpc_sync("worker2", rank_control.on_main, args=(rank_control.stop_profiler,))
    return {"seen": seen}


def a_profiler_in_another_thread() -> Facts:
    """The recorder of operators is made beside a profiler that runs in another thread."""
    from tuner.torch_private.operators import OperatorProfiler

    with torch.autograd.profiler.profile(use_kineto=True) as theirs, ThreadPoolExecutor() as pool:
        torch.neg(torch.ones(1))
        refused = pool.submit(refusal, OperatorProfiler).result()
    return {"refused": refused, "theirs": [event.name for event in theirs.function_events or ()]}


def profilers_in_the_block() -> Facts:
    """Rank 0 uses PyTorch's profilers, Kineto and the legacy one, while it is profiled."""
    facts: Facts = {}
    with profiled("kineto inside"):
        rpc_sync("worker1", work, args=(torch.ones(4),))
        facts["kineto"] = served.operators_of(torch.neg, torch.ones(1))

    def legacy() -> None:
        with legacy_profile() as profiler:
            rpc_sync("worker1", work, args=(torch.ones(4),))
        facts["legacy"] = [event.name for event in profiler.function_events or ()]

    facts["refused before"] = refusal(legacy)
    with profiled("legacy inside", operators=False):
        facts["refused"] = refusal(legacy)
    return facts


def a_pause() -> Facts:
    """A trace with a pause: what the tracer leaves during it, and what is recorded."""
    from tuner.trace.record.driver import TraceDriver

    def calls(number: int) -> None:
        rpc_sync("worker1", served.scale, args=(number, 1))
        rpc_sync("worker1", served.nested, args=("worker2", torch.ones(4)))

    driver = TraceDriver(operators=True, drain_s=1.0)
    driver.start()
    calls(1)
    driver.pause()
    paused = everywhere(rank_control.left_behind)
    calls(2)
    driver.resume()
    calls(3)
    recordings, _, _ = driver.stop()
    return {
        "paused": paused,
        "issued": [sorted(span.function for span in each.client_spans) for each in recordings],
        "served": [len(each.server_spans) for each in recordings],
        "operators": [
            sum(span.name == "aten::mul" for span in each.operators or ()) for each in recordings
        ],
    }


def blocks_that_raise() -> Facts:
    """The error that ends the block is the one that the user sees."""
    from tuner.trace.record.profile import profile

    prof = profile()

    def block() -> None:
        with prof:
            rpc_sync("worker1", served.scale, args=(1, 1))
            raise LookupError("of the user's own")

    raised = refusal(block)
    return {"raised": raised, "unread": refusal(profile().table), "calls": len(prof.calls)}


def hammered() -> Facts:
    """Profiles begin and end while two ranks call each other all the time."""

    def block() -> None:
        with profiled("hammered"):
            time.sleep(0.05)

    rpc_sync("worker1", rank_control.start_hammering, args=("worker2", 3))
    rpc_sync("worker2", rank_control.start_hammering, args=("worker1", 3))
    try:
        problems = [refusal(partial(profile_nothing, operators=False)) for _ in range(25)]
        problems.append(refusal(block))
    finally:
        rpc_sync("worker1", rank_control.stop_hammering)
        rpc_sync("worker2", rank_control.stop_hammering)
    return {"problems": [problem for problem in problems if problem != ("", "")]}


def clocks_that_differ() -> Facts:
    """Rank 2 acts as if it were on another host, with a clock that is ahead and goes faster."""
    rpc_sync("worker2", _become_another_host, args=(AHEAD_NS,))
    try:
        with profiled("clocks", operators=False):
            for _ in range(20):
                rpc_sync("worker2", served.where)
                rpc_sync("worker1", served.nested, args=("worker2", torch.ones(2)))
    finally:
        rpc_sync("worker2", _become_another_host, args=(0,))
    return {}


def _become_another_host(ahead_ns: int) -> None:
    from tuner.trace.record.clock import HOST_VARIABLE

    rank_control.set_clock(ahead_ns, DRIFT)
    os.environ[HOST_VARIABLE] = "elsewhere" if ahead_ns else ""


def eight_naps() -> Facts:
    """Eight equally long calls in parallel, on a server with four threads."""
    for each in [rpc_async("worker1", served.nap, args=(0.02,)) for _ in range(8)]:
        each.wait()  # now connections and threads exist
    with profiled("naps", operators=False):
        for each in [rpc_async("worker1", served.nap, args=(NAP_S,)) for _ in range(8)]:
            each.wait()
    return {}


def known_work() -> Facts:
    """Served functions that measure their own wall and CPU time."""
    burn, cpu = served.hash_for, min(os.sched_getaffinity(0))
    used: dict[str, list[tuple[float, float]]] = {}
    with profiled("work", operators=False):
        used["alone"] = [rpc_sync("worker1", burn, (WORK_S, None)) for _ in range(REPEATS)]
        used["asleep"] = [
            rpc_sync("worker1", served.measured_nap, (WORK_S,)) for _ in range(REPEATS)
        ]
        used["one CPU"] = []
        for _ in range(REPEATS):
            pair = [rpc_async("worker1", burn, (WORK_S, cpu)) for _ in range(2)]
            used["one CPU"] += [each.wait() for each in pair]
    return used


def the_end_of_rpc() -> Facts:
    """RPC is shut down inside of a profile's block."""
    for name in NAMES[1:]:
        rpc_sync(name, rank_control.dismiss)

    def block() -> None:
        from tuner.trace.record.profile import profile

        with profile():
            rpc.shutdown()

    return {"refused": refusal(block), "left": {"worker0": rank_control.left_behind()}}
