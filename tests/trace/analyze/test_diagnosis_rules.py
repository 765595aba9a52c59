"""The rules of the diagnosis: both sides of their thresholds."""

from dataclasses import replace
from typing import Any

import pytest

from testing.synthetic import call, ranks, trace
from tests.trace.analyze.planted import waits_for_a_cpu
from tuner.trace.analyze.diagnosis import Rule, explain
from tuner.trace.analyze.diagnosis_rules import cpus_full, gil_or_lock, taken_by_others
from tuner.trace.analyze.gil_use import Held, Serving
from tuner.trace.analyze.server_evidence import Cpu, Evidence, Means, Use, gather

UNKNOWN = Held(float("nan"), 0)


def test_what_the_trace_s_own_processes_may_have_used_is_not_put_down_to_others() -> None:
    """The server is busy for half of the window: its processes may have used all CPUs then."""

    def half_busy(cpu_s: float) -> Evidence:
        found = gather(waits_for_a_cpu(0.4, cpu_s=cpu_s), 1)
        return replace(found, use=replace(found.use, busy_fraction=0.5))

    assert taken_by_others(half_busy(0.5)) == ()
    assert "used 0.8 of 2 logical CPUs. Other pro" in "".join(taken_by_others(half_busy(0.4)))


def test_calls_that_compute_longer_alone_and_sleep_as_long_do_not_wait_for_each_other() -> None:
    crowded = [
        call(3 * i + who, 10 * i, 10 * i + 10, served_ms=(10 * i, 10 * i + 10), thread=11 + who,
             cpu_ms=0.3, run_queue_ms=0)
        for i in range(80)
        for who in range(3)
    ]  # fmt: skip
    alone = [
        call(240 + i, 800 + 11 * i, 811 + 11 * i, served_ms=(800 + 11 * i, 810.6 + 11 * i),
             thread=11, cpu_ms=0.9, run_queue_ms=0)
        for i in range(30)
    ]  # fmt: skip
    found = gather(trace([*crowded, *alone], processes=ranks(threads=4)), 1)
    assert found.cpu is not None
    assert found.cpu.off_uncrowded_ratio == pytest.approx(0.41, abs=0.01)
    assert found.cpu.off_uncrowded_whole_ratio == pytest.approx(1.0, abs=0.01)
    assert gil_or_lock(found) == ()


TWO = {"use.parallelism": 2.0, "cpu.off_share": 0.5, "cpu.cpus_used": 1.0}
UNQUEUED = {"means.queue_us": 0}
Changes = dict[str, Any]


def ratios(value: float) -> Changes:
    return {"cpu.off_uncrowded_ratio": value, "cpu.off_uncrowded_whole_ratio": value}


@pytest.mark.parametrize(
    ("both", "here", "rule", "there", "other_rule"),
    [
        # What both sides have; evidence on one side of a threshold, and the rule; on the other.
        ({}, {"means.calls": 9}, "calls", {"means.calls": 10}, "queueing"),
        ({}, {"served_calls": 79}, "calls", {"served_calls": 81}, "queueing"),
        ({}, {"means.queue_us": 140}, "calls", {"means.queue_us": 160}, "queueing"),
        ({"use.busy_fraction": 0.1}, {"use.in_flight_fraction": 0.12}, "calls",
         {"use.in_flight_fraction": 0.14}, "queueing"),
        ({}, {"use.waited_full_share": 0.45}, "calls", {"use.waited_full_share": 0.55}, "queueing"),
        ({}, {"use.waited_full_share": 0.3}, "calls", {"use.waited_full_share": 0.2},
         "gil-or-lock"),
        ({"use.waited_full_share": 0.0}, {"means.transport_us": 550}, "calls",
         {"means.transport_us": 450}, "gil-or-lock"),
        ({"use.waited_full_share": 0.0}, {"use.waited_serving_share": 0.3}, "calls",
         {"use.waited_serving_share": 0.5}, "gil-or-lock"),
        ({"cpu.gil_share": 0.9}, {"use.busy_fraction": 0.29}, "calls",
         {"use.busy_fraction": 0.31}, "gil-or-lock"),
        ({}, {"cpu.gil_share": 0.66}, "queueing", {"cpu.gil_share": 0.68}, "gil-or-lock"),
        ({"cpu.cpus_used": 2.0, "cpu_count": 3}, {"use.parallelism": 2.1}, "calls",
         {"use.parallelism": 1.9}, "queueing"),
        (TWO | UNQUEUED, {"cpu.cpus_used": 0.7}, "calls", {"cpu.cpus_used": 0.8}, "gil-or-lock"),
        (TWO | UNQUEUED, {"cpu.off_share": 0.29}, "calls", {"cpu.off_share": 0.31}, "gil-or-lock"),
        (TWO, ratios(0.85), "queueing", ratios(0.75), "gil-or-lock"),
        (TWO | {"cpu.cpus_used": 0.1}, {"cpu.off_first_ratio": 0.7}, "queueing",
         {"cpu.off_first_ratio": 0.6}, "gil-or-lock"),
        ({}, {"cpu.run_queue_share": 0.19}, "queueing", {"cpu.run_queue_share": 0.21}, "cpus-full"),
        ({"host_cpus_used": 8.0}, {"cpu.run_queue_share": 0.09}, "queueing",
         {"cpu.run_queue_share": 0.11}, "cpus-full"),
        ({"cpu.run_queue_share": 0.15}, {"host_cpus_used": 7.1}, "queueing",
         {"host_cpus_used": 7.3}, "cpus-full"),
        ({}, {"cpu.cpus_used": 7.1}, "queueing", {"cpu.cpus_used": 7.3}, "cpus-full"),
        ({}, {"cpu.off_share": 0.79}, "queueing", {"cpu.off_share": 0.81}, "blocked-threads"),
        (UNQUEUED | {"cpu.off_share": 0.9}, {"use.full_share": 0.45}, "calls",
         {"use.full_share": 0.55}, "blocked-threads"),
        (UNQUEUED, {"means.served_us": 310}, "calls", {"use.busy_fraction": 0.49}, "calls"),
        # What uses more than one CPU is native code, which releases the GIL: no bound.
        ({"use.parallelism": 3.0, "cpu.gil_share": 0.9}, {"cpu.cpus_used": 1.3}, "calls",
         {"cpu.cpus_used": 3.0}, "queueing"),
    ],
)  # fmt: skip
def test_a_rule_speaks_on_one_side_of_its_threshold(
    both: Changes, here: Changes, rule: Rule, there: Changes, other_rule: Rule
) -> None:
    assert explain(evidence(both | here))[0] == rule
    assert explain(evidence(both | there))[0] == other_rule


@pytest.mark.parametrize(
    ("changes", "are_enough"),
    [
        ({}, False),  # 1.98 are used: 0.7 for calls, 0.2 by main threads, 1.08 by threads that poll
        ({"host_known_cpus": 0.3}, True),
        ({"use.waited_full_share": 0.2}, True),
        ({"cpu.cpus_used": 1.9}, True),
    ],
    ids=["threads that poll", "main threads", "free threads", "calls use them"],
)
def test_threads_that_poll_leave_the_cpus_to_more_threads(
    changes: Changes, are_enough: bool
) -> None:
    of_two: Changes = {
        "host_cpus_used": 1.98, "cpu_count": 2, "cpu.run_queue_share": 0.12,
        "host_known_cpus": 0.2, "cpu.cpus_used": 0.875,
    }  # fmt: skip
    said = cpus_full(evidence(of_two | changes))
    assert said[0].startswith("The logical CPUs are full")
    assert ("more threads do not help" in said[0]) == are_enough


def evidence(changes: Changes) -> Evidence:
    """A server with one thread, too few, that runs operators on 8 CPUs; with these changes."""
    found = Evidence(
        server="worker1", rank=1, threads=1, pool=1, calls=100, served_calls=100,
        means=Means(
            calls=100, latency_us=1000, transport_us=100, queue_us=400, served_us=500, pending_us=0
        ),
        use=Use(
            in_flight_fraction=0.9, busy_fraction=0.8, parallelism=1.0, parallelism_max=1,
            full_share=1.0, waited_full_share=0.9, waited_serving_share=0.9,
        ),
        cpu=Cpu(
            on_share=1.0, run_queue_share=0.0, off_share=0.0, off_uncrowded_ratio=None,
            off_uncrowded_whole_ratio=None, off_first_ratio=None, takes_turns=None, cpus_used=1.0,
            gil_share=0.0,
        ),
        gil=Serving(UNKNOWN, UNKNOWN, UNKNOWN, "others", ()),
        nested_share=0.0, operator_parallelism=None, host_cpus_used=None, cpu_count=8,
    )  # fmt: skip
    for name, value in changes.items():
        part, _, field = name.rpartition(".")
        new = replace(getattr(found, part), **{field: value}) if part else value
        found = replace(found, **{part or field: new})
    return found
