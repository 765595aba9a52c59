"""CPU and run queue times, from two readings of the kernel's counters."""

import threading
import time

import pytest

from tests.known import known
from tuner.daemon_threads import start_daemon
from tuner.trace.record import threads
from tuner.trace.record.threads import Usage, in_turn, waited_ns


@pytest.mark.parametrize(
    ("before", "after", "most", "waited"),
    [
        (b"10 1000 1", b"20 1500 2", 800, 500),
        (b"10 1000 1", b"20 9000 2", 800, 800),  # more than there was: read outside of the call
        (b"10 1000 1", b"20 990 2", 800, 0),  # a clock that differs stepped it back
        (b"10 1000 1", b"20 18446744073709551000 2", 800, 0),  # to below 0
        (b"10 18446744073709551000 1", b"20 84 2", 800, 700),  # and from there on
        (b"10 1000 1", b"20 1500 2", -3, 0),  # it ran for longer than it lasted, by another clock
        (b"", b"20 1500 2", 800, None),
    ],
)
def test_the_wait_for_a_cpu(before: bytes, after: bytes, most: int, waited: int | None) -> None:
    assert waited_ns(before, after, at_most_ns=most) == waited


def test_the_main_threads_counter_rises_with_its_work() -> None:
    usage = Usage()
    until_s = time.process_time() + 0.05
    while time.process_time() < until_s:
        pass
    used = usage.read()
    assert used.cpu_s >= 0.05
    assert known(used.main)[0] >= 0.03  # the kernel updates it with each tick
    assert known(used.others)[0] < 0.03


@pytest.mark.parametrize("is_ours", [False, True])
def test_what_another_thread_used_is_known_though_it_has_ended(is_ours: bool) -> None:
    over, seen = threading.Event(), threading.Event()

    def compute() -> None:
        until_s = time.thread_time() + 0.05
        while time.thread_time() < until_s:
            pass
        over.set()
        assert seen.wait(10)

    usage = Usage()
    if is_ours:
        thread = start_daemon(lambda _: compute(), "ours")
    else:
        thread = threading.Thread(target=compute)
        thread.start()
    assert over.wait(10)
    usage.look()
    seen.set()
    thread.join()
    others_s, _ = known(usage.read().others)
    # One that was there before counts from then on, and our own are no part of the program.
    assert (others_s >= 0.03) is not is_ours
    assert known(Usage().read().others)[0] < 0.03


def test_where_the_kernel_does_not_measure_it_nothing_is_said_of_the_main_thread(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(threads, "_schedule", lambda thread: b"")
    assert Usage().read()[1:] == (None, None)


def test_without_a_gil_one_thread_at_a_time_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(threads, "has_gil", lambda: False)
    made = 0

    def count() -> int:
        nonlocal made
        before = made
        time.sleep(0)  # another thread goes on
        made = before + 1
        return made

    number, found = in_turn(count), list[int]()

    def call() -> None:
        found.extend(number() for _ in range(100))

    running = [threading.Thread(target=call) for _ in range(4)]
    for each in running:
        each.start()
    for each in running:
        each.join()
    assert sorted(found) == [*range(1, 401)]
    monkeypatch.setattr(threads, "has_gil", lambda: True)
    assert in_turn(count) is count  # it costs nothing
