import dataclasses

import pytest

from tests.trace.analyze.diagnosed import COMPUTE, said
from tests.trace.synthetic import Part, ranks, simulate, trace


def test_calls_wait_while_one_is_computed_after_another() -> None:
    text = said(
        simulate(COMPUTE, threads=1, at_once=4),
        "queueing",
        "worker1 ran its calls one after another (parallelism 1 on 1 thread, busy 99 % of "
        "the time) while each waited 7.5 ms for a thread (59 % of its latency)",
        "more threads help if the calls release the GIL, as operators do.",
        "on the CPU for 100 % of their time",
    )
    assert "CPUs" not in text


def test_a_parallelism_of_two_shows_that_the_gil_is_no_bar() -> None:
    said(
        simulate(COMPUTE, threads=2, at_once=8),
        "queueing",
        "ran its calls in parallel (parallelism 2 on 2 threads",
        "more threads help.",
    )


def test_operators_show_how_far_the_gil_lets_them_gain() -> None:
    parts = [Part("gil", 0.02), Part("operator", 0.08)] * 20
    said(
        simulate(parts, threads=1, at_once=4),
        "queueing",
        "more threads help.",
        "the parallelism cannot exceed 5, as the GIL is held for 20 % of their time",
    )


def test_cpus_bound_what_can_be_gained() -> None:
    said(
        simulate(COMPUTE, threads=2, at_once=8, cpus=4),
        "queueing",
        "the parallelism cannot exceed 4, as the machine has 4 logical CPUs",
    )


def test_cpus_in_use_put_it_in_doubt() -> None:
    busy = ranks(threads=2, cpu_count=4, cpu_s=0.1 * 2)
    taken = simulate(COMPUTE, threads=2, at_once=8, steps=5, processes=busy)
    assert taken.window_ns[1] == pytest.approx(0.1e9, rel=0.05)
    said(
        taken,
        "queueing",
        "more threads help if they get a CPU (3.96 of 4 logical CPUs are in use).",
    )


def test_calls_without_cpu_times() -> None:
    waited = simulate(COMPUTE, threads=1, at_once=4).calls.assign(cpu_ns=None, run_queue_ns=None)
    said(
        dataclasses.replace(trace(), calls=waited, ranks=ranks(threads=1)),
        "queueing",
        "more threads help.",
        "The trace does not tell whether they were on the CPU while they ran.",
    )


def test_a_pool_of_unknown_size_has_as_many_threads_as_were_seen() -> None:
    taken = simulate(COMPUTE, threads=2, at_once=8, processes=ranks(threads=None))
    said(taken, "queueing", "ran its calls in parallel (parallelism 2 on 2 threads")
