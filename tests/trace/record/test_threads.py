"""CPU and run queue times, from two readings of the kernel's counters."""

import _thread
import os
import subprocess
import sys
import threading
import time

import pytest

from testing.known import known
from tuner.daemon_threads import start_daemon
from tuner.trace.record import threads as record_threads
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
    monkeypatch.setattr(record_threads, "_schedule", lambda thread: b"")
    assert Usage().read()[1:] == (None, None, None)


OPERATORS = """
import sys, time, torch
from tuner.trace.record.threads import Usage
torch.set_num_threads(int(sys.argv[1]))
def compute(seconds):
    until_s = time.monotonic() + seconds
    while time.monotonic() < until_s:
        torch.ones(300_000).exp()
    time.sleep(0.2)
compute(0.3)
usage = Usage()
idle = usage.read()
usage.begin()
compute(0.1)
used = usage.read()
print(idle.pool[0], used.pool[0], used.main[0], used.cpu_s)
"""


def pools_of(threads: int) -> list[float]:
    """CPU seconds of the pool of operators that wait and that run, of their thread, and of all."""
    command = [sys.executable, "-c", OPERATORS, str(threads)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return [*map(float, done.stdout.split())]


def test_what_the_threads_of_operators_use_is_known_beside_the_thread_that_runs_these() -> None:
    before_s, pool_s, main_s, whole_s = pools_of(2)
    assert before_s < 0.005
    assert pool_s > 0.01
    # Counters of threads rise with each tick only.
    assert pool_s + main_s < whole_s + 0.02
    assert pools_of(1)[:2] == [0.0, 0.0]


@pytest.mark.parametrize("is_in_pool", [False, True])
def test_a_thread_that_waits_elsewhere_later_had_waited_for_its_pool(
    is_in_pool: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As one that C++ has started, and Python does not know."""
    found, over, computed = list[int](), threading.Event(), threading.Event()

    def compute() -> None:
        found.append(threading.get_native_id())
        until_s = time.thread_time() + 0.05
        while time.thread_time() < until_s:
            pass
        computed.set()
        over.wait(10)

    usage = Usage()
    _thread.start_new_thread(compute, ())
    assert computed.wait(10)
    # So does the main thread, which Python knows.
    waiting = {os.getpid(): True, found[0]: True}
    monkeypatch.setattr(record_threads, "waiting_threads", lambda code: waiting)
    usage.look()
    waiting[found[0]] = is_in_pool
    pool_s, _ = known(usage.read().pool)
    over.set()
    assert pool_s < 0.09
    assert (pool_s >= 0.03) is is_in_pool


def test_where_the_kernel_does_not_say_who_waits_nothing_is_said_of_pools(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(record_threads, "waiting_threads", lambda code: {})
    used = Usage().read()
    assert used.others is not None
    assert used.pool is None


def test_without_a_gil_one_thread_at_a_time_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(record_threads, "has_gil", lambda: False)
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
    monkeypatch.setattr(record_threads, "has_gil", lambda: True)
    assert in_turn(count) is count  # it costs nothing
