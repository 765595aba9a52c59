"""Who holds a GIL, and that it is what the driver waits for."""

from dataclasses import replace

import pytest

from testing.synthetic import Part, call, ns, ranks, simulate, trace
from tests.trace.analyze.planted import one_at_a_time, sampled
from tuner.trace.analyze.critical_path import critical_path
from tuner.trace.analyze.diagnosis import diagnose
from tuner.trace.analyze.gil_use import serving
from tuner.trace.model.spans import GilWait


@pytest.mark.parametrize("threads", [1, 4, 16])
def test_calls_that_hold_the_gil_are_the_limit_whoever_waits(threads: int) -> None:
    taken = sampled(one_at_a_time(threads), lambda at: True)
    found = diagnose(taken)
    assert found.text.startswith("The GIL of worker1 is the limit: for 9")
    assert "compute in Python, one at a time" in found.text
    assert "Make udf faster, or serve it from several processes." in found.text
    assert (found.rule, found.enough_threads) == ("gil-or-lock", ("worker1",))
    assert found.suggestions == ()


def test_native_code_that_lets_go_of_it_is_not_told_as_the_gil() -> None:
    taken = simulate([Part("cpu", 4.4)], threads=16, at_once=8, steps=20, cpus=2)
    found = diagnose(sampled(taken, lambda at: False))
    assert "The GIL" not in found.text
    assert not (critical_path(taken)["part"] == "gil").any()


def test_calls_that_are_ready_at_once_do_not_all_hold_the_gil() -> None:
    """Of many that run native code on two busy CPUs, one may lose its CPU while it has the GIL."""
    taken = simulate([Part("cpu", 4.4)], threads=16, at_once=8, steps=20, cpus=2)
    found = sampled(taken, lambda at: True)
    assert not serving(found, 1).is_limit
    assert "The GIL" not in diagnose(found).text


def test_a_main_thread_and_a_thread_beside_it_are_told_apart_from_calls() -> None:
    taken = simulate([Part("cpu", 0.1)], threads=4, at_once=1, steps=60, think_ms=1, way_ms=4)
    whole_s = (taken.window_ns[1] - taken.window_ns[0]) / 1e9
    by_main = serving(sampled(taken, lambda at: True, main_cpu_s=whole_s), 1)
    by_others = serving(sampled(taken, lambda at: True, main_cpu_s=0.0), 1)
    assert (by_main.by, by_others.by) == ("main", "others")
    assert by_main.is_limit
    assert not serving(sampled(taken, lambda at: False), 1).is_limit


def test_a_call_that_sleeps_beside_a_held_gil_does_not_wait_for_it() -> None:
    """It is woken once in 20 ms. A thread that waits for the GIL wakes every 5 ms."""
    taken = sampled(
        simulate([Part("sleep", 20)], threads=4, at_once=1, steps=30), lambda at: True,
        main_cpu_s=0.0,
    )  # fmt: skip

    def of_gil(slices: int) -> float:
        path = critical_path(replace(taken, calls=taken.calls.assign(slices=slices)))
        return float(path["share"][path["part"] == "gil"].sum())

    assert of_gil(1) == pytest.approx(0.25, abs=0.02)
    assert of_gil(4) > 0.95


def test_few_samples_say_nothing() -> None:
    taken = sampled(one_at_a_time(), lambda at: True)
    few = replace(taken.ranks[1], gil=taken.ranks[1].gil[:9])
    found = serving(replace(taken, ranks=(taken.ranks[0], few)), 1)
    assert not found.is_limit
    assert ranks()[0].gil == ()


def test_calls_that_hardly_compute_do_not_hold_a_gil_that_is_held_for_long() -> None:
    """One sample while it serves is no sign that calls do, where these take 2 % of the time."""
    calls = [
        call(
            n, 6 * n, 6 * n + 5.9, served_ms=(6 * n + 5.4, 6 * n + 5.5), cpu_ms=0.1, run_queue_ms=0
        )
        for n in range(60)
    ]
    waits = [GilWait(ns(5.42), ns(0.05), ns(5))]  # while the first one is served
    waits += [GilWait(ns(18 * n + 1), ns(4) if n % 5 else 0, ns(14)) for n in range(1, 20)]
    caller, server = ranks()
    server = replace(server, gil=tuple(waits), main_cpu_s=0.0, others_cpu_s=0.34)
    found = serving(trace(calls, processes=(caller, server), window_ms=(0, 360)), 1)
    assert (found.by, found.is_limit) == ("others", True)
