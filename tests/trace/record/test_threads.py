"""CPU and run queue times, from two readings of the kernel's counters."""

import time

import pytest

from tuner.trace.record import threads
from tuner.trace.record.threads import Usage, waited_ns


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
    cpu_s, main = usage.read()
    assert cpu_s >= 0.05
    assert main is not None
    assert main[0] >= 0.03  # the kernel updates it with each tick


def test_where_the_kernel_does_not_measure_it_nothing_is_said_of_the_main_thread(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(threads, "_main_schedule", lambda: b"")
    assert Usage().read()[1] is None
