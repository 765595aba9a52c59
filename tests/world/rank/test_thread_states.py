"""Which threads count as waiting for the answer to a call; tested with real threads."""

import asyncio
import os
import queue
import select
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import FrameType, SimpleNamespace
from typing import Any

import pytest
import torch.distributed.rpc as rpc
from torch.distributed.rpc import api, internal
from torch.futures import Future, collect_all, wait_all

from tuner.world.rank import thread_states


class PendingCall:
    """A future of the type that `rpc_async` gives, which is completed once `release` is called."""

    def __init__(self) -> None:
        self._source: Future[int] = Future()
        self.future: Any = self._source.then(lambda done: done.value())

    def release(self) -> None:
        self._source.set_result(1)


def waiting_threads(function: Callable[[], object], release: Callable[[], None]) -> int:
    """What a probe counts while one thread serves this function, and has come to rest in it."""
    run_function: Any = internal._run_function
    request: Any = internal.PythonUDF(function, (), {})
    thread = threading.Thread(target=run_function, args=(request,))
    thread.start()
    try:
        _come_to_rest(thread)
        count = thread_states.rpc_state()["waiting"]
    finally:
        release()
        thread.join()
    assert isinstance(count, int)
    return count


def _come_to_rest(thread: threading.Thread) -> None:
    """Wait until the thread has been at one instruction for 20 ms."""
    assert thread.ident is not None
    seen: object = None
    since_s = time.monotonic()
    while time.monotonic() - since_s < 0.02:
        frame = sys._current_frames()[thread.ident]
        if seen != (place := (frame.f_code, frame.f_lasti)):
            seen, since_s = place, time.monotonic()
        time.sleep(0.001)


def wait_for_a_local(future: Any) -> None:
    future.wait()


def wait_for_an_attribute(future: Any) -> None:
    holder = SimpleNamespace(future=future)
    holder.future.wait()


def wait_for_an_item(future: Any) -> None:
    futures = [future]
    futures[0].wait()


def wait_for_the_value_of_a_key(future: Any) -> None:
    by_name, name = {"worker1": future}, "worker1"
    by_name[name].wait()


def wait_in_a_comprehension(future: Any) -> None:
    [each.wait() for each in (future, future)]


def wait_for_a_callback(future: Any) -> None:
    (
        future
        .then(lambda done: done.value())
        .wait()
    )  # fmt: skip


def wait_for_all(future: Any) -> None:
    wait_all([future])


def wait_for_a_collection(future: Any) -> None:
    collect_all([future]).wait()


@pytest.mark.parametrize(
    "wait",
    [
        wait_for_a_local,
        wait_for_an_attribute,
        wait_for_an_item,
        wait_for_the_value_of_a_key,
        wait_in_a_comprehension,
        wait_for_a_callback,
        wait_for_all,
        wait_for_a_collection,
    ],
)
def test_a_thread_that_waits_for_a_future_counts(wait: Callable[[Any], None]) -> None:
    call = PendingCall()
    assert waiting_threads(lambda: wait(call.future), call.release) == 1


def test_a_future_that_python_made_counts() -> None:
    future: Future[int] = Future()
    assert waiting_threads(lambda: future.wait(), lambda: future.set_result(1)) == 1


@pytest.mark.parametrize(
    "call",
    [lambda: rpc.rpc_sync("worker1", len), lambda: rpc.rpc_async("worker1", len).wait()],
    ids=["rpc_sync", "rpc_async"],
)
def test_a_call_whose_answer_is_awaited_at_once_counts(
    monkeypatch: pytest.MonkeyPatch, call: Callable[[], object]
) -> None:
    pending = PendingCall()
    monkeypatch.setattr(api, "_is_current_rpc_agent_set", lambda: True)
    monkeypatch.setattr(api, "_invoke_rpc", lambda *args, **kwargs: pending.future)
    assert waiting_threads(call, pending.release) == 1


class Gate:
    """A program's own object with a `wait` that is written in C."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._lock.acquire()
        self.wait = self._lock.acquire
        self.open = self._lock.release


def test_a_thread_that_waits_for_something_else_does_not_count() -> None:
    gate = Gate()
    assert waiting_threads(lambda: gate.wait(), gate.open) == 0
    event = threading.Event()
    assert waiting_threads(lambda: event.wait(), event.set) == 0


def test_another_wait_on_the_same_line_does_not_count() -> None:
    gate, call = Gate(), PendingCall()
    call.release()
    assert waiting_threads(lambda: (gate.wait(), call.future.wait()), gate.open) == 0
    assert waiting_threads(lambda: gate.wait(), gate.open) == 0  # not future.wait()


def test_what_is_done_with_an_answer_does_not_count() -> None:
    gate, call = Gate(), PendingCall()
    call.release()
    slow = type("Slow", (), {"__add__": gate.wait})()  # in C: no frame of its own
    assert waiting_threads(lambda: slow + call.future.wait(), gate.open) == 0


def test_a_property_is_not_evaluated() -> None:
    asked = []

    class Holder:
        @property
        def future(self) -> Any:
            asked.append(self)
            return call.future

    call, holder = PendingCall(), Holder()
    assert waiting_threads(lambda: holder.future.wait(), call.release) == 0
    assert len(asked) == 1  # by the thread itself


def test_a_function_without_source_does_not_count() -> None:
    call = PendingCall()
    names: dict[str, Any] = {"future": call.future}
    exec("def served(): future.wait()", names)  # noqa: S102 - nothing else has no source
    assert waiting_threads(names["served"], call.release) == 0


def test_a_thread_that_serves_no_request_does_not_count() -> None:
    call = PendingCall()
    thread = threading.Thread(target=wait_for_a_local, args=(call.future,))
    thread.start()
    _come_to_rest(thread)
    count = thread_states.rpc_state()["waiting"]
    call.release()
    thread.join()
    assert count == 0


class Threads:
    """Threads of a program, each of which has come to rest in a function of its own."""

    def __init__(self) -> None:
        self.never, self.queue = threading.Event(), queue.Queue[int]()

    def innermost(self, function: Callable[[], object]) -> FrameType:
        thread = threading.Thread(target=function, daemon=True)
        thread.start()
        assert thread.ident is not None
        before = None
        while True:
            time.sleep(0.05)
            frame = sys._current_frames()[thread.ident]
            if before == (frame, frame.f_lasti):
                return frame
            before = frame, frame.f_lasti

    def release(self) -> None:
        self.never.set()
        self.queue.put(1)
        self.queue.put(1)


@pytest.mark.parametrize(
    ("function", "may"),
    [
        (lambda threads: threads.never.wait(), False),
        (lambda threads: threads.never.wait(5), True),
        (lambda threads: threads.queue.get(), False),
        (lambda threads: threads.queue.get(timeout=5), True),
        (lambda threads: time.sleep(1), True),
        (lambda threads: select.select([], [], [], 1), True),
        (lambda threads: asyncio.run(asyncio.sleep(1)), True),
        (lambda threads: threading.main_thread().join(1), True),
        (lambda threads: subprocess.run(["sleep", "1"], check=True), True),
    ],
)
def test_a_thread_may_go_on_that_does_not_wait_for_another_one(
    function: Callable[[Threads], object], may: bool
) -> None:
    threads = Threads()
    try:
        assert thread_states.may_go_on(threads.innermost(lambda: function(threads))) == may
    finally:
        threads.release()


def test_an_idle_thread_of_a_pool_waits_for_work() -> None:
    with ThreadPoolExecutor(1) as pool:
        ident = pool.submit(threading.get_ident).result()
        time.sleep(0.1)
        assert not thread_states.may_go_on(sys._current_frames()[ident])


def test_the_answer_to_a_call_is_waited_for() -> None:
    call = PendingCall()
    threads = Threads()
    try:
        assert not thread_states.may_go_on(threads.innermost(lambda: call.future.wait()))
    finally:
        call.release()


def test_cpu_time_that_cannot_be_read_is_none(tmp_path: Path) -> None:
    task = tmp_path / "7"
    task.mkdir()
    (task / "comm").write_text("python\n")
    (task / "schedstat").write_text("2000000000 5 7\n")
    assert thread_states._busy_s(tmp_path) == 2.0
    (task / "comm").write_text("TP_LOOP\n")
    assert thread_states._busy_s(tmp_path) == 0.0
    (task / "comm").write_text("python\n")
    (task / "schedstat").unlink()
    assert thread_states._busy_s(tmp_path) is None
    (task / "schedstat").write_text("")  # a kernel that keeps no such times
    assert thread_states._busy_s(tmp_path) is None


def test_that_of_this_process_can_be_read() -> None:
    assert 0 < (thread_states._busy_s() or 0) <= 2 * os.times().elapsed
