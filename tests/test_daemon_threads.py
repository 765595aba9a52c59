"""Daemon threads that leave before Python finalises."""

import json
import subprocess
import sys
import threading

import pytest

from tuner import daemon_threads
from tuner.daemon_threads import start_daemon


def printed_by(code: str) -> str:
    ended = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=120, check=False
    )
    assert ended.returncode == 0, ended.stderr
    return ended.stdout


def test_they_leave_after_what_a_program_does_at_its_end() -> None:
    code = """
import atexit
from tuner.daemon_threads import start_daemon

def watch(is_over):
    is_over.wait()
    print("the thread left")

start_daemon(watch, "watch")
atexit.register(print, "the program's own end")
"""
    assert printed_by(code).splitlines() == ["the program's own end", "the thread left"]


def test_one_that_stays_holds_nobody_up() -> None:
    code = """
import time
from tuner import daemon_threads

daemon_threads.LEAVE_S = 0.1
daemon_threads.start_daemon(lambda is_over: time.sleep(1000), "busy")
"""
    assert printed_by(code) == ""


def test_none_starts_when_all_leave() -> None:
    code = """
import atexit
from tuner import daemon_threads

atexit.unregister(daemon_threads.leave)
atexit.register(lambda: print(daemon_threads.start_daemon(print, "late").is_alive()))
atexit.register(daemon_threads.leave)
"""
    assert printed_by(code) == "False\n"


def test_one_whose_owner_ends_it_is_forgotten() -> None:
    is_over = threading.Event()
    thread = start_daemon(threading.Event.wait, "own", is_over=is_over)
    assert thread in daemon_threads._running
    is_over.set()
    thread.join()
    assert thread not in daemon_threads._running


@pytest.mark.world
@pytest.mark.thorough
def test_a_rank_that_ends_in_the_middle_of_probes_is_not_aborted() -> None:
    # Before there was a registry of threads, one end in four was.
    command = [sys.executable, "-m", "tests.world.rank.many_ends", "15"]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=300, check=True)
    assert json.loads(ended.stdout) == {"0": 15}, ended.stderr
