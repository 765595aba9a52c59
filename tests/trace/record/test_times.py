"""Times of calls: of known length, of known work, and on different clocks."""

from statistics import median

import pytest

from tests.trace.record.conftest import ProgramRun
from tests.trace.record.seen_trace import SeenCall
from tests.trace.record.tools import AHEAD_NS, NAP_S, WORK_S
from tuner.trace.analyze.call_times import call_times
from tuner.trace.analyze.server_parallelism import parallelism

pytestmark = [pytest.mark.world, pytest.mark.thorough]


def test_another_hosts_times_are_brought_to_the_clock_of_the_first(ran: ProgramRun) -> None:
    trace = ran.trace("clocks")
    error_ns = trace.facts["clock_error_ns"]
    # Half of the quickest answers' time, of those before the trace or of those after it.
    assert 0 < error_ns < 100_000_000
    assert len(trace.calls) == 60
    for call in trace.calls:
        assert call.start_ns - error_ns <= call.server_start_ns <= call.start_ns + AHEAD_NS / 2
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


def work_calls(ran: ProgramRun, kind: str) -> list[tuple[SeenCall, float]]:
    """The calls of one kind of work, each with the CPU seconds that the function measured."""
    names = {
        "alone": "rpc_sync#hash_for", "asleep": "rpc_sync#_measured_nap",
        "one CPU": "rpc_async#hash_for",
    }  # fmt: skip
    calls = ran.trace("work").named(f"{names[kind]}(worker0 -> worker1)")
    used = [cpu_s for _, cpu_s in ran.facts["known_work"][kind]]
    assert len(calls) == len(used)
    return list(zip(sorted(calls, key=lambda call: call.call_id), used, strict=True))


@pytest.mark.parametrize("kind", ["alone", "asleep", "one CPU"])
def test_cpu_time_is_what_the_function_itself_measured(ran: ProgramRun, kind: str) -> None:
    beyond_ns = [call.cpu_ns - cpu_s * 1e9 for call, cpu_s in work_calls(ran, kind)]
    # The function's own time is a part of it; the rest is what the tracer does.
    assert min(beyond_ns) >= -1e3
    assert median(beyond_ns) < 2e6


def waits(ran: ProgramRun, kind: str) -> list[tuple[int, int, int]]:
    """On a CPU, waiting for one, and neither, in nanoseconds, of each call of a kind of work."""
    parts = []
    for call, _ in work_calls(ran, kind):
        off_ns = call.served_ns - call.cpu_ns - call.run_queue_ns
        parts.append((call.cpu_ns, call.run_queue_ns, off_ns))
    return parts


@pytest.mark.parametrize("kind", ["alone", "one CPU"])
def test_what_computes_either_runs_or_waits_for_a_cpu(ran: ProgramRun, kind: str) -> None:
    # What sleeps has a share of 1. A host that takes a CPU away adds to neither of the two: on
    # shared machines 0.08 was seen.
    neither = [off_ns / (cpu_ns + wait_ns + off_ns) for cpu_ns, wait_ns, off_ns in waits(ran, kind)]
    assert -0.05 < min(neither) < 0.4


def test_two_that_share_a_cpu_wait_for_it_half_of_the_time(ran: ProgramRun) -> None:
    assert median(wait_ns / (cpu_ns + wait_ns) for cpu_ns, wait_ns, _ in waits(ran, "one CPU")) > (
        0.35
    )


def test_what_sleeps_neither_runs_nor_waits(ran: ProgramRun) -> None:
    parts = waits(ran, "asleep")
    assert all(off_ns >= 0.99 * WORK_S * 1e9 for _, _, off_ns in parts)
    assert median(cpu_ns for cpu_ns, _, _ in parts) < 0.05 * WORK_S * 1e9
