"""What threads that issue calls wait for, as samples see it, and in which loops."""

import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tuner.trace.record.pauses import Pauses, _is_in_open_loop
from tuner.trace.record.threads import Thread, agent_threads, forget_threads, threads

TELLS = Path("/proc/self/wchan").read_text() != "" if Path("/proc/self/wchan").exists() else False


def seen(does: Callable[[], object]) -> list[tuple[str, str, bool]]:
    """What a thread that issues calls is seen to wait for while it does this."""
    found: list[tuple[int, str, str, bool]] = []
    known: list[Thread] = []
    began = threading.Event()

    def work() -> None:
        known.append(Thread(threading.get_native_id()))
        threads[known[0].id] = known[0]
        began.set()
        does()

    worker = threading.Thread(target=work)
    worker.start()
    began.wait()
    pauses = Pauses(lambda at_ns, *each: found.append(each))
    while worker.is_alive():
        time.sleep(0.01)
        pauses.look(0)
    forget_threads()
    return [each[1:] for each in found if each[0] == known[0].id]


def polls() -> None:
    until = time.monotonic() + 0.2
    while time.monotonic() < until:
        time.sleep(0.05)


@pytest.mark.skipif(not TELLS, reason="this kernel does not tell what a thread waits for")
def test_a_sleep_a_lock_and_a_loop_that_polls_are_told_apart() -> None:
    line = polls.__code__.co_firstlineno + 3
    slept = seen(polls)
    assert ("sleep", f"tests/trace/record/test_pauses.py:{line}", True) in slept
    once = seen(lambda: time.sleep(0.1))
    assert {(why, is_open) for why, _, is_open in once} == {("sleep", False)}
    held = threading.Lock()
    held.acquire()
    waits = seen(lambda: held.acquire(timeout=0.1))
    assert {why for why, _, _ in waits} == {"lock"}

    def waits_often() -> None:
        while not held.acquire(timeout=0.05):
            held.release()

    # Of no other pause it is asked in what loop it is.
    assert {is_open for _, _, is_open in seen(waits_often)} == {False}


@pytest.mark.skipif(not TELLS, reason="this kernel does not tell what a thread waits for")
def test_a_thread_that_computes_or_serves_is_not_told_of() -> None:
    until = time.monotonic() + 0.1

    def computes() -> None:
        while time.monotonic() < until:
            sum(number * number for number in range(1000))

    assert "sleep" not in {why for why, _, _ in seen(computes)}

    def serves() -> None:
        agent_threads[threading.get_ident()] = threads[threading.get_native_id()]
        time.sleep(0.1)

    assert not seen(serves)


def here() -> bool:
    return _is_in_open_loop(sys._getframe(1))


def in_a_for() -> bool:
    found = False
    for number in range(3):
        if number == 1:
            continue
        with open("/dev/null"):  # noqa: PTH123 - cleans up as the loop goes on
            found = here()
    return found


def in_a_while() -> bool:
    found, number = False, 0
    while number < 3:
        found, number = here(), number + 1
    return found


def in_a_for_with_a_break() -> bool:
    found = False
    for number in range(3):
        found = here()
        if number == 1:
            break
    return found


def in_a_for_that_returns() -> bool:
    for number in range(3):
        found = here()
        if number == 1:
            return found
    return False


def in_a_for_in_a_while() -> bool:
    while True:
        for _ in range(2):
            found = here()
        return found


def in_a_long_for() -> bool:
    """CPython begins it with an instruction that makes its jump longer."""
    found, n = False, 0
    for _ in range(3):
        found = here()
        n = (n * n + n) * (n * n + n) * (n * n + n) * (n * n + n) * (n * n + n) * (n * n + n)
        n = (n * n + n) * (n * n + n) * (n * n + n) * (n * n + n) * (n * n + n) * (n * n + n)
        n = (n * n + n) * (n * n + n) * (n * n + n) * (n * n + n) * (n * n + n) * (n * n + n)
        n = (n * n + n) * (n * n + n) * (n * n + n) * (n * n + n) * (n * n + n) * (n * n + n)
        n = (n * n + n) * (n * n + n) * (n * n + n) * (n * n + n) * (n * n + n) * (n * n + n)
    return found


def in_a_for_that_goes_on_after_errors() -> bool:
    """What handles these is moved behind what returns."""
    found = False
    for _ in range(3):
        found = here()
        try:
            int("")
        except ValueError:
            continue
    return found


def in_a_for_that_errors_end() -> bool:
    found = False
    try:
        for _ in range(3):
            with open("/dev/null"):  # noqa: PTH123
                found = here()
    except KeyboardInterrupt:
        return True
    return found


def in_a_for_that_an_error_of_its_own_ends() -> bool:
    found = False
    try:
        for _ in range(3):
            found = here()
            if found:
                raise StopIteration
    except StopIteration:
        return True
    return found


def where_a_for_handles_an_error() -> bool:
    found = False
    for _ in range(3):
        try:
            int("")
        except ValueError:
            found = here()
    return found


def where_a_for_handles_its_last_error() -> bool:
    for _ in range(3):
        try:
            int("")
            break
        except ValueError:
            found = here()
    return found


def behind_what_handles_an_error() -> bool:
    """It jumps back to here, as a loop does."""
    found = False
    try:
        int("")
    except ValueError:
        found = False
    return found or here()


def in_a_for_that_a_while_repeats() -> bool:
    """It polls several workers."""
    found, turns = False, 0
    while turns < 2:
        for _ in range(2):
            found = here()
        turns += 1
    return found


def in_a_for_of_what_a_while_calls() -> bool:
    found, turns = False, 0
    while turns < 2:
        found, turns = in_a_for(), turns + 1
    return found


def in_a_while_in_a_for() -> bool:
    found = False
    for turns in range(2):
        while turns < 2:
            found, turns = here(), turns + 1
    return found


def nap() -> bool:
    return here()


def in_what_a_while_calls() -> bool:
    found = False
    while not found:
        found = nap()
    return found


def behind_a_while() -> bool:
    number = 0
    while number < 3:
        number += 1
    return here()


@pytest.mark.parametrize(
    ("of", "is_open"),
    [(in_a_for, False), (in_a_while, True), (in_a_for_with_a_break, True),
     (in_a_for_that_returns, True), (in_a_for_in_a_while, False), (in_what_a_while_calls, True),
     (in_a_for_that_errors_end, False), (in_a_for_that_an_error_of_its_own_ends, True),
     (in_a_long_for, False), (in_a_for_that_goes_on_after_errors, False),
     (where_a_for_handles_an_error, False), (where_a_for_handles_its_last_error, True),
     (in_a_for_that_a_while_repeats, True),
     (in_a_for_of_what_a_while_calls, True), (in_a_while_in_a_for, True)],
)  # fmt: skip
def test_a_loop_is_open_that_goes_on_until_something_happens(
    of: Callable[[], bool], is_open: bool
) -> None:
    assert of() == is_open


def test_what_comes_behind_a_loop_is_in_that_which_calls_it() -> None:
    for _ in range(1):
        assert not behind_a_while()
        assert not behind_what_handles_an_error()
    done = False
    while not done:
        assert behind_a_while()
        done = True
