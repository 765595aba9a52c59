"""Times of calls: of known length, of known work, and on different clocks."""

from statistics import median

import pytest

from tests.trace.record.conftest import ProgramRun
from tests.trace.record.tools import AHEAD_NS, DRIFT, NAP_S, WORK_S
from tuner.trace.analyze.call_times import call_times
from tuner.trace.analyze.server_parallelism import parallelism

pytestmark = [pytest.mark.world, pytest.mark.thorough]


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


def spent(ran: ProgramRun, kind: str) -> list[tuple[float, float, float, float]]:
    """The nanoseconds of each call of one kind of work: on a CPU, as the tracer and as the function
    itself measured them, waiting for one, and neither."""
    functions = {"alone": "rpc_sync#hash_for", "asleep": "rpc_sync#measured_nap",
                 "one CPU": "rpc_async#hash_for"}  # fmt: skip
    calls = ran.trace("work").named(f"{functions[kind]}(worker0 -> worker1)")
    calls.sort(key=lambda call: call.call_id)
    return [
        (call.cpu_ns, own_s * 1e9, call.run_queue_ns,
         call.served_ns - call.cpu_ns - call.run_queue_ns)
        for call, (_, own_s) in zip(calls, ran.facts["known_work"][kind], strict=True)
    ]  # fmt: skip


@pytest.mark.parametrize("kind", ["alone", "asleep", "one CPU"])
def test_cpu_time_is_what_the_function_itself_measured(ran: ProgramRun, kind: str) -> None:
    beyond_ns = [cpu_ns - own_ns for cpu_ns, own_ns, _, _ in spent(ran, kind)]
    # The function's own time is a part of it; the rest is what the tracer does.
    assert min(beyond_ns) >= -1e3
    assert median(beyond_ns) < 2e6


@pytest.mark.parametrize("kind", ["alone", "one CPU"])
def test_what_computes_either_runs_or_waits_for_a_cpu(ran: ProgramRun, kind: str) -> None:
    # What sleeps has a share of 1. A host that takes a CPU away adds to neither of the two: on
    # shared machines 0.08 was seen.
    parts = spent(ran, kind)
    neither = min(off_ns / (cpu_ns + wait_ns + off_ns) for cpu_ns, _, wait_ns, off_ns in parts)
    assert -0.05 < neither < 0.4
    waited = median(wait_ns / (cpu_ns + wait_ns) for cpu_ns, _, wait_ns, _ in parts)
    assert kind == "alone" or waited > 0.35  # two that share a CPU wait half of the time


def test_what_sleeps_neither_runs_nor_waits(ran: ProgramRun) -> None:
    parts = spent(ran, "asleep")
    assert all(off_ns >= 0.99 * WORK_S * 1e9 for *_, off_ns in parts)
    assert median(cpu_ns for cpu_ns, *_ in parts) < 0.05 * WORK_S * 1e9
