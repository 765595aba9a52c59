from tests.trace.analyze.diagnosed import SLEEP, said
from tests.trace.synthetic import Part, simulate


def test_sleeping_calls_keep_others_waiting() -> None:
    said(
        simulate(SLEEP, threads=1, at_once=4),
        "blocked-threads",
        "one after another (parallelism 1 on 1 thread",
        "waited 7.5 ms for a thread (59 % of its latency): more threads help.",
        "off the CPU for 100 % of their time, asleep, or waiting for I/O or a call that is not "
        "recorded.",
    )


def test_eight_sleeps_on_four_threads() -> None:
    said(
        simulate([Part("sleep", 1000)], threads=4, at_once=8, steps=2),
        "blocked-threads",
        "ran its calls in parallel (parallelism 4 on 4 threads",
        "each waited 500 ms for a thread",
        "more threads help",
        "if they wait for a lock, more threads do not help.",
    )


def test_without_a_queue_the_calls_themselves_are_the_limit() -> None:
    said(
        simulate(SLEEP, threads=4, at_once=4),
        "blocked-threads",
        "hardly waited for a thread: the calls themselves are the limit",
    )


def test_it_says_if_they_wait_for_calls_of_their_own() -> None:
    said(
        simulate([Part("cpu", 0.1), Part("call", 5)], threads=2, at_once=8),
        "blocked-threads",
        "more threads help.",
        "off the CPU for 98 % of their time, waiting for calls of their own.",
    )
