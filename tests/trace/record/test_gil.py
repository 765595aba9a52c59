"""Samples of who holds the GIL of a process."""

import hashlib
import sys
import threading
import time
from collections.abc import Callable

import pytest

from tuner.trace.record.gil import GilProbe

HAS_GIL = getattr(sys, "_is_gil_enabled", lambda: True)()


def share_held(busy: Callable[[], object]) -> float:
    """The share of samples that waited while another thread did this over and over."""
    waits: list[int] = []
    is_over = threading.Event()

    def work() -> None:
        while not is_over.is_set():
            busy()

    worker = threading.Thread(target=work)
    worker.start()
    probe = GilProbe(lambda asked_ns, waited_ns, slept_ns: waits.append(waited_ns))
    until = time.monotonic() + 0.4
    while time.monotonic() < until:
        assert not probe.sleep(is_over)
    is_over.set()
    worker.join()
    assert probe.sleep(is_over)
    return sum(wait > 0 for wait in waits) / len(waits)


@pytest.mark.skipif(not HAS_GIL, reason="this interpreter has no GIL")
def test_a_thread_that_computes_in_python_holds_the_gil() -> None:
    assert share_held(lambda: sum(number * number for number in range(10_000))) > 0.6


def test_native_code_that_lets_go_of_it_does_not() -> None:
    data = bytes(1 << 22)
    assert share_held(lambda: hashlib.sha256(data).digest()) < 0.4


def test_a_thread_that_sleeps_does_not() -> None:
    assert share_held(lambda: time.sleep(0.01)) < 0.3
