import pytest

from tests.trace.analyze.diagnosed import COMPUTE, said
from tests.trace.synthetic import Part, call, ranks, simulate, trace
from tuner.trace.analyze.diagnosis import diagnose
from tuner.trace.analyze.diagnosis_rules import gil_or_lock
from tuner.trace.analyze.server_evidence import gather

PYTHON = [Part("gil", 0.1)] * 30
"""Short turns with the GIL, as the interpreter gives them."""


@pytest.mark.parametrize("threads", [4, 16])
def test_python_that_takes_turns_with_the_gil(threads: int) -> None:
    said(
        simulate(PYTHON, threads=threads, at_once=6),
        "gil-or-lock",
        "Threads of worker1",
        "wait for the GIL or a lock",
        "used 1 logical CPU together",
        "more threads do not help.",
        "operators",
    )


def test_a_lock_only_seems_likely_where_all_calls_ran_beside_as_many_others() -> None:
    text = said(simulate(PYTHON, threads=4, at_once=4), "gil-or-lock", "seem to wait")
    assert "off the CPU for 75 % of its time" in text
    sure = said(simulate(PYTHON, threads=4, at_once=6), "gil-or-lock")
    assert "seem" not in sure


def test_operators_that_run_one_at_a_time_are_shown() -> None:
    parts = [Part("gil", 0.1), Part("operator", 0.02)] * 20
    said(simulate(parts, threads=4, at_once=6), "gil-or-lock", "operators with one of 1, used")


def test_python_that_keeps_the_gil_lets_calls_wait_though_threads_are_free() -> None:
    said(
        simulate(COMPUTE, threads=16, at_once=4, gil_throughout=True),
        "gil-or-lock",
        "one after another (parallelism 1 on 16 threads",
        "each waited 7.5 ms though threads were free",
        "the GIL, and more threads do not help",
    )


def test_a_lock_held_asleep() -> None:
    said(
        simulate([Part("lock", 5)], threads=4, at_once=8),
        "gil-or-lock",
        "wait for a lock",
        "used 0 logical CPUs together",
        "more threads do not help",
    )


def test_a_gil_that_each_call_holds_half_of_the_time_is_full_with_two_cpus_used() -> None:
    parts = [Part("gil", 0.1), Part("cpu", 0.1)] * 20
    said(simulate(parts, threads=4, at_once=6), "gil-or-lock", "used 1.9")


def test_one_thread_of_pure_python_shows_that_the_gil_would_bind_more() -> None:
    # No operator ran, though they were recorded: all of it is Python.
    busy = simulate((Part("cpu", 2.0),), threads=1, at_once=4, operators_recorded=True)
    assert diagnose(busy).rule == "gil-or-lock"
    assert "more threads do not help" in diagnose(busy).text
    unknown = simulate((Part("cpu", 2.0),), threads=1, at_once=4, operators_recorded=False)
    assert "if the calls release the GIL" in diagnose(unknown).text


def test_one_thread_of_python_and_short_operators_shows_that_the_gil_would_bind_more() -> None:
    parts = [Part("gil", 0.08), Part("operator", 0.02)] * 20
    said(
        simulate(parts, threads=1, at_once=4),
        "gil-or-lock",
        "ran its calls one after another",
        "but more threads do not help: for 100 % of their time they are in Python or in short",
    )


def test_calls_that_sleep_as_long_when_few_others_run_do_not_wait_for_each_other() -> None:
    # They use one CPU together by chance: each of four, a quarter of its time.
    parts = [Part("cpu", 1), Part("sleep", 3)]
    said(simulate(parts, threads=4, at_once=6), "queueing")


def test_calls_that_wait_for_calls_of_their_own_do_not_wait_for_each_other() -> None:
    parts = [Part("cpu", 1), Part("call", 3)]
    assert diagnose(simulate(parts, threads=4, at_once=4)).rule != "gil-or-lock"


def test_calls_that_compute_longer_alone_and_sleep_as_long_do_not_wait_for_each_other() -> None:
    crowded = [
        call(
            3 * i + who, 10 * i, 10 * i + 10, served_ms=(10 * i, 10 * i + 10), thread=11 + who,
            cpu_ms=0.3, run_queue_ms=0,
        )
        for i in range(80)
        for who in range(3)
    ]  # fmt: skip
    alone = [
        call(
            240 + i, 800 + 11 * i, 811 + 11 * i, served_ms=(800 + 11 * i, 810.6 + 11 * i),
            thread=11, cpu_ms=0.9, run_queue_ms=0,
        )
        for i in range(30)
    ]  # fmt: skip
    taken = trace([*crowded, *alone], processes=ranks(threads=4))
    found = gather(taken, 1)
    assert found.cpu is not None
    assert found.cpu.off_uncrowded_ratio == pytest.approx(0.41, abs=0.01)
    assert found.cpu.off_uncrowded_whole_ratio == pytest.approx(1.0, abs=0.01)
    assert gil_or_lock(found) == ()
