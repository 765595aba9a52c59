"""Times of calls: of known length, of known work, and on different clocks."""

from statistics import median

import pytest

from tests.trace.record.program_run import ProgramRun
from tests.trace.record.seen_trace import SeenCall
from tests.trace.record.tools import AHEAD_NS, NAP_S
from tuner.trace.analyze.call_times import call_times
from tuner.trace.analyze.parallelism import parallelism

pytestmark = pytest.mark.world


def test_another_hosts_times_are_brought_to_the_clock_of_the_first(ran: ProgramRun) -> None:
    trace = ran.trace("clocks")
    error_ns = trace.facts["clock_error_ns"]
    assert 0 < error_ns < 20_000_000
    assert len(trace.calls) == 60
    for call in trace.calls:
        assert call.server_start_ns is not None
        assert call.start_ns - error_ns <= call.server_start_ns <= call.start_ns + AHEAD_NS / 2
    assert trace.facts["losses"] == []


def test_one_host_has_no_clock_error(ran: ProgramRun) -> None:
    assert ran.trace("kinds").facts["clock_error_ns"] == 0


def test_eight_overlapping_calls_are_eight_calls(ran: ProgramRun) -> None:
    calls = ran.trace("naps").named("rpc_async#nap(worker0 -> worker1)")
    assert len({call.id for call in calls}) == 8
    assert all(call.end_ns is not None and calls[-1].start_ns < call.end_ns for call in calls)


def test_eight_naps_on_four_threads(ran: ProgramRun) -> None:
    trace = ran.frames("naps")
    (row,) = parallelism(trace).itertuples(index=False, name="Row")
    assert (row.server, row.threads, row.max, row.calls) == ("worker1", 4, 4, 8)
    assert row.mean_while_busy == pytest.approx(4.0, rel=0.1)
    times = call_times(trace.calls).sort_values("queue_us")
    nap_us = NAP_S * 1e6
    # The medians, since a host may stop a CPU of its guest during one of the naps.
    first, second = times.iloc[:4].median(), times.iloc[4:].median()
    assert first["queue_us"] < 0.03 * nap_us
    assert second["queue_us"] == pytest.approx(nap_us, rel=0.03)
    for half in (first, second):
        assert half["off_cpu_us"] == pytest.approx(nap_us, rel=0.03)
        assert half["on_cpu_us"] < 0.01 * nap_us


def work_calls(ran: ProgramRun, kind: str) -> list[tuple[SeenCall, float]]:
    """The calls of one kind of work, each with the CPU seconds that the function measured."""
    names = {
        "alone": "rpc_sync#hash_for", "asleep": "rpc_sync#_measured_nap",
        "one CPU": "rpc_async#hash_for", "gil": "rpc_async#count_for",
    }  # fmt: skip
    calls = ran.trace("work").named(f"{names[kind]}(worker0 -> worker1)")
    used = [cpu_s for _, cpu_s in ran.facts["known_work"][kind]]
    assert len(calls) == len(used)
    return list(zip(sorted(calls, key=lambda call: call.id), used, strict=True))


@pytest.mark.parametrize("kind", ["alone", "asleep", "one CPU", "gil"])
def test_cpu_time_is_what_the_function_itself_measured(ran: ProgramRun, kind: str) -> None:
    for call, cpu_s in work_calls(ran, kind):
        assert call.cpu_ns == pytest.approx(cpu_s * 1e9, rel=0.02, abs=1e6)


@pytest.mark.parametrize("kind", ["alone", "one CPU"])
def test_what_computes_either_runs_or_waits_for_a_cpu(ran: ProgramRun, kind: str) -> None:
    # On a busy machine it waits longer.
    known = [
        (call.cpu_ns + call.run_queue_ns) / call.served_ns
        for call, _ in work_calls(ran, kind)
        if call.cpu_ns is not None and call.run_queue_ns is not None
    ]
    assert max(known) == pytest.approx(1.0, abs=0.03)


def test_two_that_share_a_cpu_wait_for_it_half_of_the_time(ran: ProgramRun) -> None:
    calls = [call for call, _ in work_calls(ran, "one CPU")]
    shares = [(call.run_queue_ns or 0) / call.served_ns for call in calls]
    assert median(shares) >= 0.4


def test_what_sleeps_neither_runs_nor_waits(ran: ProgramRun) -> None:
    ((call, _),) = work_calls(ran, "asleep")
    assert call.cpu_ns is not None
    assert call.run_queue_ns is not None
    assert call.cpu_ns < 0.01 * call.served_ns
    assert call.served_ns - call.cpu_ns - call.run_queue_ns > 0.9 * call.served_ns


def test_two_that_share_the_gil_are_off_the_cpu_in_turn(ran: ProgramRun) -> None:
    calls = [call for call, _ in work_calls(ran, "gil")]
    starts = [call.server_start_ns or 0 for call in calls]
    ends = [call.server_end_ns or 0 for call in calls]
    both_ns = min(ends) - max(starts)
    assert both_ns > 0.2e9
    off_ns = [call.served_ns - (call.cpu_ns or 0) - (call.run_queue_ns or 0) for call in calls]
    cpu_ns = [call.cpu_ns or 0 for call in calls]
    assert sum(cpu_ns) <= 1.05 * (max(ends) - min(starts))
    # One of them always waits for the GIL; on a busy machine partly in the run queue, since it
    # wakes up to ask for the GIL.
    assert sum(off_ns) >= 0.15 * both_ns
