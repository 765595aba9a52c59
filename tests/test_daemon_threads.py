"""Daemon threads that leave before Python finalises."""

import gc
import subprocess
import sys
import threading
import weakref
from concurrent.futures import Future

import pytest

from tuner import daemon_threads
from tuner.daemon_threads import frames_of_others, start_daemon

AFTER_THE_PROGRAMS_END = """
def watch(is_over):
    is_over.wait()
    print("the thread left")

daemon_threads.start_daemon(watch, "watch")
atexit.register(print, "the program's own end")
"""
ONE_THAT_STAYS = """
daemon_threads.LEAVE_S = 0.1
daemon_threads.start_daemon(lambda is_over: time.sleep(1000), "busy")
"""
WHEN_ALL_LEAVE = """
atexit.unregister(daemon_threads.leave)
atexit.register(lambda: print(daemon_threads.start_daemon(print, "late").is_alive()))
atexit.register(daemon_threads.leave)
"""


@pytest.mark.parametrize(
    ("code", "printed"),
    [
        (AFTER_THE_PROGRAMS_END, ["the program's own end", "the thread left"]),
        (ONE_THAT_STAYS, []),  # it holds nobody up
        (WHEN_ALL_LEAVE, ["False"]),  # none starts
    ],
)
def test_they_leave_at_the_end_of_a_program(code: str, printed: list[str]) -> None:
    code = f"import atexit, time\nfrom tuner import daemon_threads\n{code}"
    command = [sys.executable, "-c", code]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert (ended.returncode, ended.stdout.splitlines()) == (0, printed), ended.stderr


def test_one_whose_owner_ends_it_is_forgotten() -> None:
    is_over = threading.Event()
    thread = start_daemon(threading.Event.wait, "own", is_over=is_over)
    assert thread in daemon_threads._running
    is_over.set()
    thread.join()
    assert thread not in daemon_threads._running


def test_looking_at_the_frames_of_others_keeps_nothing_of_them() -> None:
    """Else all that a program has in its functions lived until the garbage is collected."""
    held, over = threading.Event(), threading.Event()
    kept = list[weakref.ref[Future[None]]]()

    def hold() -> None:
        value = Future[None]()
        kept.append(weakref.ref(value))
        held.set()
        over.wait()

    def look() -> set[int]:
        frames = frames_of_others()
        return {*frames}

    thread = threading.Thread(target=hold)
    gc.disable()
    try:
        thread.start()
        held.wait()
        seen = look()
        over.set()
        thread.join()
        assert kept[0]() is None
    finally:
        gc.enable()
    assert thread.ident in seen
    assert threading.get_ident() not in seen
