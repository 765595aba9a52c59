import dataclasses
from typing import Any

import pandas as pd
import pytest

from tests.trace.synthetic import Part, call, ranks, simulate, trace
from tuner.trace.analyze.diagnosis import Rule, diagnose, judge
from tuner.trace.analyze.evidence import Cpu, Evidence, Means, Use
from tuner.trace.model.facts import TraceRank
from tuner.trace.model.trace import Trace

COMPUTE = [Part("cpu", 5)]
SLEEP = [Part("sleep", 5)]
PYTHON = [Part("gil", 0.1)] * 30
"""Turns with the GIL, as the interpreter lets threads take."""


def said(taken: Trace, rule: Rule, *phrases: str) -> str:
    """The diagnosis, which is by that rule and holds the phrases in that order."""
    found = diagnose(taken)
    assert found.rule == rule, found.text
    rest = found.text
    for phrase in phrases:
        assert phrase in rest, f"no {phrase!r} in {rest!r}"
        rest = rest.split(phrase, 1)[1]
    assert len(found.sentences) <= 2
    return found.text


class TestQueueing:
    def test_calls_wait_while_one_is_computed_after_another(self) -> None:
        text = said(
            simulate(COMPUTE, threads=1, at_once=4),
            "queueing",
            "worker1 ran its calls one after another (1.0 at a time on 1 thread, busy 99 % of the "
            "time) while each waited 7.50 ms for a thread (59 % of its latency)",
            "more threads help if the calls release the GIL, as operators do.",
            "on the CPU for 100 % of their time",
        )
        assert "core" not in text

    def test_several_at_once_show_that_the_gil_is_no_bar(self) -> None:
        said(
            simulate(COMPUTE, threads=2, at_once=8),
            "queueing",
            "served 2.0 calls at once on 2 threads",
            "more threads help.",
        )

    def test_operators_show_how_far_the_gil_lets_them_gain(self) -> None:
        parts = [Part("gil", 0.02), Part("operator", 0.08)] * 20
        said(
            simulate(parts, threads=1, at_once=4),
            "queueing",
            "more threads help.",
            "no more than 5 at once can gain, as the GIL is held for 20 % of it",
        )

    def test_cores_bound_what_can_be_gained(self) -> None:
        said(
            simulate(COMPUTE, threads=2, at_once=8, cores=4),
            "queueing",
            "no more than 4 at once can gain, as the machine has 4 cores",
        )

    def test_cores_in_use_put_it_in_doubt(self) -> None:
        busy = ranks(threads=2, cpu_count=4, cpu_s=0.1 * 2)
        taken = simulate(COMPUTE, threads=2, at_once=8, steps=5, processes=busy)
        assert taken.window_ns[1] == pytest.approx(0.1e9, rel=0.05)
        said(taken, "queueing", "more threads help if they get a core (4.0 of 4 are in use).")

    def test_calls_without_cpu_times(self) -> None:
        waited = simulate(COMPUTE, threads=1, at_once=4).calls.assign(
            cpu_ns=None, run_queue_ns=None
        )
        said(
            dataclasses.replace(trace(), calls=waited, ranks=ranks(threads=1)),
            "queueing",
            "more threads help.",
            "the trace does not tell",
        )

    def test_a_pool_of_unknown_size_is_as_large_as_was_seen(self) -> None:
        taken = simulate(COMPUTE, threads=2, at_once=8, processes=ranks(threads=None))
        said(taken, "queueing", "served 2.0 calls at once on 2 threads")

    def test_the_busiest_server_is_named_among_several(self) -> None:
        taken = simulate(COMPUTE, threads=1, at_once=4)
        other = call(5000, 0, 9, served_ms=(1, 5), server_rank=2)
        said(
            with_calls(taken, other),
            "queueing",
            "worker1, the busiest of 2 servers, ran its calls one after",
        )


class TestGilOrLock:
    @pytest.mark.parametrize("threads", [4, 16])
    def test_python_that_takes_turns_with_the_gil(self, threads: int) -> None:
        said(
            simulate(PYTHON, threads=threads, at_once=6),
            "gil-or-lock",
            "Threads of worker1",
            "wait for the GIL or a lock",
            "calls at once used 1.00 cores together",
            "more threads do not help.",
            "operators",
        )

    def test_it_only_seems_so_where_all_calls_had_the_same_company(self) -> None:
        text = said(simulate(PYTHON, threads=4, at_once=4), "gil-or-lock", "seem to wait")
        assert "off the CPU for 75 % of its time" in text
        sure = said(simulate(PYTHON, threads=4, at_once=6), "gil-or-lock")
        assert "seem" not in sure

    def test_operators_that_run_one_at_a_time_are_shown(self) -> None:
        parts = [Part("gil", 0.1), Part("operator", 0.02)] * 20
        said(simulate(parts, threads=4, at_once=6), "gil-or-lock", "their operators ran 1.")

    def test_python_that_keeps_the_gil_throughout_leaves_calls_waiting_at_the_door(self) -> None:
        said(
            simulate(COMPUTE, threads=16, at_once=4, gil_throughout=True),
            "gil-or-lock",
            "one after another (1.0 at a time on 16 threads",
            "each waited 7.50 ms though threads were free",
            "the GIL, and more threads do not help",
        )

    def test_a_lock_held_asleep(self) -> None:
        said(
            simulate([Part("lock", 5)], threads=4, at_once=8),
            "gil-or-lock",
            "wait for a lock",
            "used 0.00 cores together",
            "more threads do not help",
        )

    def test_a_gil_that_is_held_half_of_the_time_is_full_with_two_cores_worth(self) -> None:
        parts = [Part("gil", 0.1), Part("cpu", 0.1)] * 20
        said(simulate(parts, threads=4, at_once=6), "gil-or-lock", "used 1.9")

    def test_one_thread_of_nothing_but_python_shows_it_ahead_too(self) -> None:
        # No operator ran, though they were recorded: all of it is Python.
        busy = simulate((Part("cpu", 2.0),), threads=1, at_once=4, operators_recorded=True)
        assert diagnose(busy).rule == "gil-or-lock"
        assert "more threads do not help" in diagnose(busy).text
        unknown = simulate((Part("cpu", 2.0),), threads=1, at_once=4, operators_recorded=False)
        assert "if the calls release the GIL" in diagnose(unknown).text

    def test_one_thread_of_python_between_operators_shows_it_ahead(self) -> None:
        parts = [Part("gil", 0.08), Part("operator", 0.02)] * 20
        said(
            simulate(parts, threads=1, at_once=4),
            "gil-or-lock",
            "ran its calls one after another",
            "but more threads do not help: for 100 % of their time they are in Python or in short",
        )

    def test_calls_that_sleep_as_long_in_little_company_do_not_wait_for_each_other(self) -> None:
        # One core's worth in all, by chance: a quarter of the time of four at once.
        parts = [Part("cpu", 1), Part("sleep", 3)]
        said(simulate(parts, threads=4, at_once=6), "queueing")

    def test_calls_that_wait_for_calls_of_their_own_do_not_wait_for_each_other(self) -> None:
        parts = [Part("cpu", 1), Part("call", 3)]
        assert diagnose(simulate(parts, threads=4, at_once=4)).rule != "gil-or-lock"


class TestCoresFull:
    def test_threads_wait_for_a_core(self) -> None:
        said(
            simulate([Part("cpu", 0.1)] * 30, threads=8, at_once=8, cores=2),
            "cores-full",
            "served, 7.9 at once, used 2.00 of 2 cores and were ready without a core for 75 % of",
            "more threads do not help",
        )

    def test_as_many_threads_as_cores_fill_them_without_waiting(self) -> None:
        said(simulate(COMPUTE, threads=2, at_once=8, cores=2), "cores-full", "2.00 of 2 cores")

    def test_other_processes_fill_them(self) -> None:
        said(waits_for_a_core(0.12, cpu_s=0.8), "no-clear-limit")
        said(
            waits_for_a_core(0.12, cpu_s=1.0),
            "cores-full",
            "All processes of the trace used 2.0 of 2 cores",
            "the shm transport polls on a core in each.",
        )

    def test_other_programs_fill_them(self) -> None:
        said(
            waits_for_a_core(0.4, cpu_s=0.4),
            "cores-full",
            "used 0.60 of 2 cores and were ready without a core for 40 % of their time",
            "All processes of the trace used 0.8 of 2 cores: other programs, or a limit",
        )

    def test_a_wait_for_a_core_that_is_not_the_longer_wait_is_not_the_limit(self) -> None:
        said(waits_for_a_core(0.25), "cores-full")
        said(waits_for_a_core(0.25, off=0.4), "no-clear-limit")


class TestBlockedThreads:
    def test_sleeping_calls_keep_others_waiting(self) -> None:
        said(
            simulate(SLEEP, threads=1, at_once=4),
            "blocked-threads",
            "one after another (1.0 at a time on 1 thread",
            "waited 7.50 ms for a thread (59 % of its latency): more threads help.",
            "off the CPU for 100 % of their time, asleep, or waiting for I/O.",
        )

    def test_eight_sleeps_on_four_threads(self) -> None:
        said(
            simulate([Part("sleep", 1000)], threads=4, at_once=8, steps=2),
            "blocked-threads",
            "served 4.0 calls at once on 4 threads",
            "each waited 500 ms for a thread",
            "more threads help",
            "if it is for a lock",
        )

    def test_without_a_queue_the_calls_themselves_are_the_limit(self) -> None:
        said(
            simulate(SLEEP, threads=4, at_once=4),
            "blocked-threads",
            "hardly waited for a thread: the calls themselves are the limit",
        )

    def test_it_says_if_they_wait_for_calls_of_their_own(self) -> None:
        said(
            simulate([Part("cpu", 0.1), Part("call", 5)], threads=2, at_once=8),
            "blocked-threads",
            "more threads help.",
            "off the CPU for 98 % of their time, waiting for calls of their own.",
        )


class TestCallerOrWire:
    def test_a_caller_that_does_other_things(self) -> None:
        said(
            simulate([Part("cpu", 1)], threads=4, at_once=1, think_ms=10, steps=20),
            "caller-or-wire",
            "The caller is the limit: worker1 served for 9 % of the time",
            "a call to it was under way for 11 %.",
        )

    def test_a_long_way(self) -> None:
        said(
            simulate([Part("cpu", 0.1)], threads=4, at_once=1, way_ms=2, steps=20),
            "caller-or-wire",
            "The wire is the limit",
            "Of a call's 4.10 ms, 4.00 ms (98 %) were the way",
        )

    def test_neither_alone(self) -> None:
        taken = simulate([Part("cpu", 1)], threads=4, at_once=1, way_ms=0.4, think_ms=1, steps=20)
        said(taken, "caller-or-wire", "The caller or the wire is the limit")

    def test_a_server_busy_with_a_queue_now_and_then_is_the_callers_too(self) -> None:
        taken = simulate(COMPUTE, threads=1, at_once=4, think_ms=400)
        said(taken, "caller-or-wire", "The caller is the limit: worker1 served for 5 %")

    def test_a_long_wait_for_a_future_is_not_the_wire(self) -> None:
        calls = [
            call(
                i,
                10 * i,
                10 * i + 9.9,
                served_ms=(10 * i + 0.1, 10 * i + 1),
                cpu_ms=0.9,
                run_queue_ms=0,
                done_ns=(10 * i + 9) * 1_000_000,
            )
            for i in range(20)
        ]
        said(trace(calls), "no-clear-limit", "8.00 ms until its result was complete")


class TestNoClearLimit:
    def test_no_calls(self) -> None:
        assert diagnose(trace()).numbers is None
        said(trace(), "no-clear-limit", "the trace cannot tell, for it holds no calls")

    def test_no_serving_known(self) -> None:
        calls = [call(i, i, i + 1) for i in range(50)]
        said(trace(calls), "no-clear-limit", "its server's side is known of no call")

    def test_too_few_calls(self) -> None:
        said(simulate(SLEEP, threads=1, at_once=3, steps=3), "no-clear-limit", "9 calls")
        said(simulate(SLEEP, threads=1, at_once=5, steps=2), "blocked-threads")

    def test_too_many_calls_of_which_only_one_side_is_known(self) -> None:
        taken = simulate(SLEEP, threads=1, at_once=4)
        unseen = [call(1000 + i, i, i + 1) for i in range(11)]
        said(with_calls(taken, *unseen), "no-clear-limit", "only 40 of the 51 calls to worker1")
        fetched = [call(1000 + i, i, i + 1, kind="to_here", body="fetch") for i in range(11)]
        said(with_calls(taken, *fetched), "blocked-threads")

    def test_spare_threads_are_named(self) -> None:
        said(
            simulate(COMPUTE, threads=4, at_once=1, steps=20),
            "no-clear-limit",
            "busy for 96 % of the time with 1.0 calls at once on 4 threads",
            "of a call's 5.20 ms, 0 us were the wait to be served",
            "At no time were more than 1 of its 4 threads at work: more do not help.",
        )

    @pytest.mark.parametrize(
        ("queued_ms", "rule"), [(0.1, "no-clear-limit"), (1.2, "no-clear-limit"), (1.6, "queueing")]
    )
    def test_a_queue_of_less_than_a_seventh_of_the_latency(
        self, queued_ms: float, rule: Rule
    ) -> None:
        calls = []
        for i in range(20):
            start = 16 * i
            calls += [
                call(
                    2 * i, start, start + 8, served_ms=(start, start + 8), cpu_ms=8, run_queue_ms=0
                ),
                call(
                    2 * i + 1,
                    start + 8 - 2 * queued_ms,
                    start + 16,
                    cpu_ms=8,
                    run_queue_ms=0,
                    served_ms=(start + 8, start + 16),
                ),
            ]
        said(trace(calls, processes=ranks(threads=1)), rule)

    @pytest.mark.parametrize(
        ("on_cpu", "rule"),
        [(0.3, "no-clear-limit"), (0.5, "gil-or-lock"), (0.7, "no-clear-limit")],
    )
    def test_two_calls_at_once_that_do_not_use_one_core(self, on_cpu: float, rule: Rule) -> None:
        said(in_pairs(on_cpu=on_cpu), rule)

    @pytest.mark.parametrize("share", [0.1, 0.19])
    def test_waits_for_a_core_as_schedulers_make_them(self, share: float) -> None:
        said(waits_for_a_core(share), "no-clear-limit")

    @pytest.mark.parametrize(("off", "rule"), [(0.75, "no-clear-limit"), (0.85, "blocked-threads")])
    def test_threads_that_are_not_blocked_throughout(self, off: float, rule: Rule) -> None:
        said(in_pairs(on_cpu=1 - off, threads=2), rule)

    def test_builtin_calls_without_cpu_times(self) -> None:
        calls = [
            call(
                i,
                10 * i,
                10 * i + 9,
                served_ms=(10 * i + 1, 10 * i + 8),
                body="builtin",
                link="inferred",
            )
            for i in range(20)
        ]
        said(trace(calls), "no-clear-limit", "busy for 7")

    def test_calls_without_length(self) -> None:
        calls = [call(i, i, i + 1, served_ms=(i, i), cpu_ms=0, run_queue_ms=0) for i in range(20)]
        assert diagnose(trace(calls)).rule == "caller-or-wire"


BORDERS: list[tuple[str, dict[str, Any], Rule, dict[str, Any], Rule]] = [
    # What it is about; on one side of a threshold, and the rule; on the other side, and the rule.
    ("few calls", {"means.calls": 9}, "no-clear-limit", {"means.calls": 10}, "queueing"),
    ("unseen calls", {"served_calls": 79}, "no-clear-limit", {"served_calls": 81}, "queueing"),
    ("queue", {"means.queue_us": 140}, "no-clear-limit", {"means.queue_us": 160}, "queueing"),
    (
        "queue that matters",
        {"use.in_flight_fraction": 0.12, "use.busy_fraction": 0.1},
        "caller-or-wire",
        {"use.in_flight_fraction": 0.14, "use.busy_fraction": 0.1},
        "queueing",
    ),
    (
        "queue behind a full pool",
        {"use.waited_full_share": 0.45},
        "no-clear-limit",
        {"use.waited_full_share": 0.55},
        "queueing",
    ),
    (
        "queue behind the GIL",
        {"use.waited_full_share": 0.3},
        "no-clear-limit",
        {"use.waited_full_share": 0.2},
        "gil-or-lock",
    ),
    (
        "queue on the way",
        {"use.waited_full_share": 0.0, "means.transport_us": 550},
        "no-clear-limit",
        {"use.waited_full_share": 0.0, "means.transport_us": 450},
        "gil-or-lock",
    ),
    (
        "queue while no call is served",
        {"use.waited_full_share": 0.0, "use.waited_serving_share": 0.3},
        "no-clear-limit",
        {"use.waited_full_share": 0.0, "use.waited_serving_share": 0.5},
        "gil-or-lock",
    ),
    (
        "GIL of an idle server",
        {"use.busy_fraction": 0.29, "cpu.gil_share": 0.9},
        "caller-or-wire",
        {"use.busy_fraction": 0.31, "cpu.gil_share": 0.9},
        "gil-or-lock",
    ),
    ("GIL ahead", {"cpu.gil_share": 0.66}, "queueing", {"cpu.gil_share": 0.68}, "gil-or-lock"),
    (
        "cores to gain",
        {"use.at_once": 2.1, "cpu.cores": 2.0, "cpu_count": 3},
        "no-clear-limit",
        {"use.at_once": 1.9, "cpu.cores": 2.0, "cpu_count": 3},
        "queueing",
    ),
    (
        "one core",
        {"use.at_once": 2.0, "cpu.off_share": 0.5, "cpu.cores": 0.7, "means.queue_us": 0},
        "no-clear-limit",
        {"use.at_once": 2.0, "cpu.off_share": 0.5, "cpu.cores": 0.8, "means.queue_us": 0},
        "gil-or-lock",
    ),
    (
        "off the CPU",
        {"use.at_once": 2.0, "cpu.off_share": 0.29, "means.queue_us": 0},
        "no-clear-limit",
        {"use.at_once": 2.0, "cpu.off_share": 0.31, "means.queue_us": 0},
        "gil-or-lock",
    ),
    (
        "company",
        {"use.at_once": 2.0, "cpu.off_share": 0.5, "cpu.off_uncrowded_ratio": 0.85},
        "queueing",
        {"use.at_once": 2.0, "cpu.off_share": 0.5, "cpu.off_uncrowded_ratio": 0.75},
        "gil-or-lock",
    ),
    (
        "first come",
        {"use.at_once": 2.0, "cpu.off_share": 0.5, "cpu.cores": 0.1, "cpu.off_first_ratio": 0.7},
        "queueing",
        {"use.at_once": 2.0, "cpu.off_share": 0.5, "cpu.cores": 0.1, "cpu.off_first_ratio": 0.6},
        "gil-or-lock",
    ),
    (
        "cores",
        {"cpu.run_queue_share": 0.19},
        "queueing",
        {"cpu.run_queue_share": 0.21},
        "cores-full",
    ),
    (
        "cores of a full machine",
        {"cpu.run_queue_share": 0.09, "host_cores": 8.0},
        "queueing",
        {"cpu.run_queue_share": 0.11, "host_cores": 8.0},
        "cores-full",
    ),
    (
        "a full machine",
        {"cpu.run_queue_share": 0.15, "host_cores": 7.1},
        "queueing",
        {"cpu.run_queue_share": 0.15, "host_cores": 7.3},
        "cores-full",
    ),
    ("cores of its own", {"cpu.cores": 7.1}, "queueing", {"cpu.cores": 7.3}, "cores-full"),
    ("blocked", {"cpu.off_share": 0.79}, "queueing", {"cpu.off_share": 0.81}, "blocked-threads"),
    (
        "all blocked",
        {"cpu.off_share": 0.9, "means.queue_us": 0, "use.full_share": 0.45},
        "no-clear-limit",
        {"cpu.off_share": 0.9, "means.queue_us": 0, "use.full_share": 0.55},
        "blocked-threads",
    ),
    (
        "little served",
        {"means.queue_us": 0, "means.served_us": 310},
        "no-clear-limit",
        {"means.queue_us": 0, "means.served_us": 290},
        "caller-or-wire",
    ),
    (
        "idle",
        {"means.queue_us": 0, "use.busy_fraction": 0.51},
        "no-clear-limit",
        {"means.queue_us": 0, "use.busy_fraction": 0.49},
        "caller-or-wire",
    ),
]


@pytest.mark.parametrize("border", BORDERS, ids=[border[0] for border in BORDERS])
def test_a_rule_speaks_on_one_side_of_its_threshold(border: Any) -> None:
    _, here, rule_here, there, rule_there = border
    assert judge(evidence(here)).rule == rule_here
    assert judge(evidence(there)).rule == rule_there


@pytest.mark.parametrize(
    ("changes", "phrase", "other_changes", "other_phrase"),
    [
        ({"cpu.cores": 0.6}, "for the GIL or a lock", {"cpu.cores": 0.4}, "for a lock, or what"),
        (
            {"cpu.off_first_ratio": 0.5},
            "worker1 wait",
            {"cpu.off_first_ratio": None, "cpu.cores": 1.0},
            "worker1 seem to wait",
        ),
    ],
)
def test_what_is_waited_for(
    changes: dict[str, Any], phrase: str, other_changes: dict[str, Any], other_phrase: str
) -> None:
    base = {"use.at_once": 2.0, "cpu.off_share": 0.5, "cpu.off_first_ratio": 0.5}
    assert phrase in judge(evidence(base | changes)).text
    assert other_phrase in judge(evidence(base | other_changes)).text


def test_a_bound_beyond_the_default_number_of_threads_is_not_named() -> None:
    assert "no more than 15 at once" in judge(evidence({"cpu_count": 15})).text
    assert "no more than" not in judge(evidence({"cpu_count": 17})).text


def test_a_gil_share_that_more_than_one_core_refutes_is_no_bound() -> None:
    native = {"use.at_once": 3.0, "cpu.cores": 3.0, "cpu.gil_share": 0.9}
    assert judge(evidence(native)).rule == "queueing"
    assert judge(evidence(native | {"cpu.cores": 1.3})).rule == "no-clear-limit"


def test_time_waiting_for_calls_at_once_counts_once() -> None:
    calls = [call(i, 10 * i, 10 * i + 10, served_ms=(10 * i, 10 * i + 10)) for i in range(10)]
    inner = [
        call(100 + i, 2 + i, 5 + i, parent_call=0, client_rank=1, server_rank=2) for i in (0, 1)
    ]
    beyond = call(200, 98, 130, parent_call=9, client_rank=1, server_rank=2)
    numbers = diagnose(trace([*calls, *inner, beyond])).numbers
    assert numbers is not None
    assert numbers.nested_share == pytest.approx((4 + 2) / 100)


def test_only_processes_of_the_servers_machine_use_its_cores() -> None:
    def cores(hosts: list[str], cpu_s: list[float | None]) -> float | None:
        processes = tuple(
            TraceRank(rank=rank, name=f"worker{rank}", host=host, cpu_s=used)
            for rank, (host, used) in enumerate(zip(hosts, cpu_s, strict=True))
        )
        served = [call(1, 0, 1000, served_ms=(0, 1000))]
        numbers = diagnose(trace(served, processes=processes)).numbers
        assert numbers is not None
        return numbers.host_cores

    assert cores(["a", "a", "b"], [0.5, 1.0, 4.0]) == 1.5
    assert cores(["b", "a", "b"], [0.5, 1.0, None]) == 1.0
    assert cores(["a", "a", "b"], [None, 1.0, 4.0]) is None


def test_the_numbers_are_there_to_check() -> None:
    numbers = diagnose(simulate([Part("sleep", 1000)], threads=4, at_once=8, steps=2)).numbers
    assert numbers is not None
    assert numbers.cpu is not None
    assert (numbers.server, numbers.servers, numbers.threads) == ("worker1", 1, 4)
    assert (numbers.calls, numbers.served_calls, numbers.means.calls) == (16, 16, 16)
    assert numbers.use.at_once == pytest.approx(4, abs=0.001)
    assert numbers.use.full_share == pytest.approx(1, abs=0.001)
    assert numbers.use.waited_full_share == pytest.approx(1, abs=0.001)
    assert numbers.means.queue_us == pytest.approx(500_000, rel=0.001)
    assert numbers.means.latency_us == pytest.approx(
        numbers.means.transport_us + numbers.means.queue_us + numbers.means.served_us
    )
    assert numbers.cpu.off_share == 1.0


def with_calls(taken: Trace, *more: dict[str, Any]) -> Trace:
    """The trace with more calls."""
    calls = pd.concat([taken.calls, trace(more).calls], ignore_index=True)
    return dataclasses.replace(taken, calls=calls)


def in_pairs(*, on_cpu: float, threads: int = 4) -> Trace:
    """Two calls at once, always, that are on the CPU for such a share of their time."""
    calls = [
        call(
            2 * i + who,
            10 * i,
            10 * i + 10,
            served_ms=(10 * i, 10 * i + 10),
            thread=11 + who,
            cpu_ms=10 * on_cpu,
            run_queue_ms=0,
        )
        for i in range(100)
        for who in (0, 1)
    ]
    return trace(calls, processes=ranks(threads=threads))


def waits_for_a_core(share: float, *, off: float = 0.0, cpu_s: float | None = None) -> Trace:
    """A second of calls one by one that wait for a core, and are off the CPU, for such shares."""
    calls = [
        call(
            i,
            10 * i,
            10 * i + 10,
            served_ms=(10 * i, 10 * i + 10),
            cpu_ms=10 * (1 - share - off),
            run_queue_ms=10 * share,
        )
        for i in range(100)
    ]
    return trace(calls, processes=ranks(threads=1, cpu_count=2, cpu_s=cpu_s))


def evidence(changes: dict[str, Any]) -> Evidence:
    """A server of one thread short of threads, of operators, on 8 cores; with changes."""
    parts: dict[str, Any] = {
        "means": Means(
            calls=100,
            latency_us=1000,
            transport_us=100,
            queue_us=400,
            served_us=500,
            pending_us=0,
        ),
        "use": Use(
            in_flight_fraction=0.9,
            busy_fraction=0.8,
            at_once=1.0,
            at_once_max=1,
            full_share=1.0,
            waited_full_share=0.9,
            waited_serving_share=0.9,
        ),
        "cpu": Cpu(
            on_share=1.0,
            run_queue_share=0.0,
            off_share=0.0,
            off_uncrowded_ratio=None,
            off_first_ratio=None,
            cores=1.0,
            gil_share=0.0,
        ),
    }
    own = {name: value for name, value in changes.items() if "." not in name}
    for name, value in changes.items():
        part, _, field = name.rpartition(".")
        if part:
            parts[part] = dataclasses.replace(parts[part], **{field: value})
    base = {
        "server": "worker1",
        "servers": 1,
        "threads": 1,
        "threads_seen": 1,
        "calls": 100,
        "served_calls": 100,
        "nested_share": 0.0,
        "operators_at_once": None,
        "host_cores": None,
        "cpu_count": 8,
    }
    fields: dict[str, Any] = {**base, **parts, **own}
    return Evidence(**fields)
