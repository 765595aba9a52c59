"""Which threads count as waiting for the answer to a call; tested with real threads."""

import _thread
import asyncio
import os
import queue
import select
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any

import pytest
import torch.distributed.rpc as rpc
from torch.distributed.rpc import api, internal
from torch.futures import Future, collect_all, wait_all

from tuner import daemon_threads
from tuner.world.rank import thread_states


class PendingCall:
    """A future of the type that `rpc_async` gives, which is completed once `release` is called."""

    def __init__(self) -> None:
        self.made: Future[int] = Future()
        self.future: Any = self.made.then(lambda done: done.value())

    def release(self) -> None:
        self.made.set_result(1)


def waiting_threads(function: Callable[[], object], release: Callable[[], None]) -> Any:
    """What a probe counts while one thread serves this function, and has come to rest in it."""
    run_function: Any = internal._run_function
    request: Any = internal.PythonUDF(function, (), {})
    with resting(lambda: run_function(request), release):
        return thread_states.rpc_state()["waiting"]


@contextmanager
def resting(function: Callable[[], object], release: Callable[[], None]) -> Iterator[FrameType]:
    """The innermost frame of a thread, once it has been at one instruction for 20 ms."""
    thread = threading.Thread(target=function, daemon=True)
    thread.start()
    assert thread.ident is not None
    seen: object = None
    since_s = time.monotonic()
    while time.monotonic() - since_s < 0.02:
        frame = sys._current_frames()[thread.ident]
        if seen != (place := (frame.f_code, frame.f_lasti)):
            seen, since_s = place, time.monotonic()
        time.sleep(0.001)
    try:
        yield frame
    finally:
        release()
        thread.join()


class Held:
    """The ways in which a program may hold a future."""

    def __init__(self, future: Any) -> None:
        self.future, self.several, self.by_name, self.name = future, [future], {"a": future}, "a"


@pytest.mark.parametrize(
    "wait",
    [
        lambda held, future: held.future.wait(),
        lambda held, future: held.several[0].wait(),
        lambda held, future: held.by_name[held.name].wait(),
        lambda held, future: [each.wait() for each in (future, future)],
        lambda held, future: future.then(lambda done: done.value()).wait(),
        lambda held, future: wait_all([future]),
        lambda held, future: collect_all([future]).wait(),
        lambda held, future: rpc.rpc_sync("worker1", len),
        lambda held, future: rpc.rpc_async("worker1", len).wait(),
    ],
)
def test_a_thread_that_waits_for_a_future_counts(
    monkeypatch: pytest.MonkeyPatch, wait: Callable[[Held, Any], None]
) -> None:
    call = PendingCall()
    monkeypatch.setattr(api, "_is_current_rpc_agent_set", lambda: True)
    monkeypatch.setattr(api, "_invoke_rpc", lambda *args, **kwargs: call.future)
    assert waiting_threads(lambda: wait(Held(call.future), call.future), call.release) == 1


def test_a_future_that_python_made_counts() -> None:
    call = PendingCall()
    assert waiting_threads(lambda: call.made.wait(), call.release) == 1


class Gate:
    """A program's own object with a `wait` that is written in C, and a sum that is one."""

    def __init__(self) -> None:
        lock = threading.Lock()
        lock.acquire()
        self.wait, self.open = lock.acquire, lock.release
        self.slow = type("Slow", (), {"__add__": lock.acquire})()


@pytest.mark.parametrize(
    "function",
    [
        lambda gate, done: gate.wait(),  # not done.wait()
        lambda gate, done: (gate.wait(), done.wait()),
        lambda gate, done: gate.slow + done.wait(),
    ],
)
def test_a_thread_that_waits_for_something_else_does_not_count(
    function: Callable[[Gate, Any], object],
) -> None:
    gate, call = Gate(), PendingCall()
    call.release()
    assert waiting_threads(lambda: function(gate, call.future), gate.open) == 0


def test_a_property_is_not_evaluated() -> None:
    call, asked = PendingCall(), list[object]()

    class Holder:
        @property
        def future(self) -> Any:
            asked.append(self)
            return call.future

    holder = Holder()
    assert waiting_threads(lambda: holder.future.wait(), call.release) == 0
    assert asked == [holder]  # by the thread itself


def test_what_has_no_source_or_serves_no_request_does_not_count() -> None:
    call = PendingCall()
    names: dict[str, Any] = {"future": call.future}
    exec("def served(): future.wait()", names)  # noqa: S102 - nothing else has no source
    assert waiting_threads(names["served"], call.release) == 0
    call = PendingCall()
    with resting(lambda: call.future.wait(), call.release) as frame:
        assert thread_states.rpc_state()["waiting"] == 0
        assert not thread_states.may_go_on(frame)


def test_a_thread_of_the_agent_that_waits_in_a_callback_counts_apart() -> None:
    """C++ has started it: Python's `threading` does not know it, or as a dummy."""
    for know in (lambda: None, threading.current_thread):
        call, at_work = PendingCall(), threading.Event()

        def callback(know: Any = know, call: PendingCall = call, at: Any = at_work) -> None:
            know()
            at.set()
            call.future.wait()

        _thread.start_new_thread(callback, ())
        at_work.wait()
        time.sleep(0.05)
        state = thread_states.rpc_state()
        call.release()
        assert (state["waiting"], state["in_callbacks"]) == (1, 1)
        time.sleep(0.05)
        assert thread_states.rpc_state()["in_callbacks"] == 0


@pytest.mark.parametrize(
    ("function", "may"),
    [
        (lambda event, items: event.wait(), False),
        (lambda event, items: event.wait(5), True),
        (lambda event, items: items.get(), False),
        (lambda event, items: items.get(timeout=5), True),
        (lambda event, items: time.sleep(1), True),
        (lambda event, items: select.select([], [], [], 1), True),
        (lambda event, items: asyncio.run(asyncio.sleep(1)), True),
        (lambda event, items: threading.main_thread().join(1), True),
        (lambda event, items: subprocess.run(["sleep", "1"], check=True), True),
    ],
)
def test_a_thread_may_go_on_that_does_not_wait_for_another_one(
    function: Callable[[threading.Event, "queue.Queue[int]"], object], may: bool
) -> None:
    event, items = threading.Event(), queue.Queue[int]()

    def release() -> None:
        event.set()
        items.put(1)

    with resting(lambda: function(event, items), release) as frame:
        assert thread_states.may_go_on(frame) == may


def test_an_idle_thread_of_a_pool_waits_for_work() -> None:
    with ThreadPoolExecutor(1) as pool:
        ident = pool.submit(threading.get_ident).result()
        time.sleep(0.1)
        assert not thread_states.may_go_on(sys._current_frames()[ident])


def test_the_thread_that_answers_probes_leaves_when_its_process_ends(tmp_path: Path) -> None:
    ours, theirs = socket.socketpair()
    thread_states.Prober(tmp_path, lambda: ours, dict, lambda *event, **facts: None).begin("a", 0)
    (thread,) = [each for each in daemon_threads._running if each.name == "rpc-tuner probe"]
    daemon_threads._running[thread].set()
    thread.join(10)
    assert not thread.is_alive()
    theirs.close()


def test_cpu_time_that_cannot_be_read_is_none(tmp_path: Path) -> None:
    task = tmp_path / "7"
    task.mkdir()
    # A kernel may keep no such times.
    cases = [("python", "2000000000 5 7", 2.0), ("TP_LOOP", "2 5 7", 0.0), ("python", "", None)]
    for name, times, busy_s in cases:
        (task / "comm").write_text(f"{name}\n")
        (task / "schedstat").write_text(times)
        assert thread_states._busy_s(tmp_path) == busy_s
    (task / "schedstat").unlink()
    assert thread_states._busy_s(tmp_path) is None
    assert 0 < (thread_states._busy_s() or 0) <= 2 * os.times().elapsed  # of this process
