"""Callbacks of futures, within this process: no agent runs."""

import threading
import time
import traceback
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from torch.futures import Future, collect_all

from tuner.torch_private.callbacks import callback_hooks
from tuner.torch_private.calls import _replaced
from tuner.trace.model.spans import CallbackSpan
from tuner.trace.record import threads as record_threads
from tuner.trace.record.callbacks import Callbacks
from tuner.trace.record.journal import Journal
from tuner.trace.record.journal_reader import read_journal
from tuner.trace.record.threads import forget_threads, worker_thread

CLASS = Future.__mro__[1]


@contextmanager
def recording(callbacks: Callbacks) -> Iterator[None]:
    before = [CLASS.__dict__[name] for name in ("then", "add_done_callback")]
    with _replaced(CLASS, **callback_hooks(callbacks)):
        yield
    assert [CLASS.__dict__[name] for name in ("then", "add_done_callback")] == before


@pytest.fixture
def callbacks() -> Iterator[Callbacks]:
    found = Callbacks()
    with recording(found):
        yield found
    forget_threads()


def doubled(future: Any) -> Any:
    return 2 * future.value()


def pending() -> Any:
    """A future without a value; mypy knows none of its methods."""
    return Future()


def test_a_callback_is_work_of_the_thread_that_completes_the_future(callbacks: Callbacks) -> None:
    future = pending()
    then = future.then(partial(doubled))
    future.add_done_callback(lambda _: time.sleep(0.02))
    thread = threading.Thread(target=future.set_result, args=(21,))
    thread.start()
    thread.join()
    assert then.wait() == 42
    first, second = callbacks.spans()
    assert (first.function, first.call_id) == ("doubled", None)
    assert second.function.endswith("<lambda>")
    assert first.thread == second.thread == thread.native_id
    # Python is below both: `set_result`.
    assert [first.holds_thread, second.holds_thread] == [False, False]
    assert second.end_ns is not None
    assert second.cpu_ns is not None
    assert second.end_ns - second.start_ns >= 20_000_000 > second.cpu_ns


def test_one_of_a_complete_future_is_time_of_the_thread_that_adds_it(callbacks: Callbacks) -> None:
    future = pending()
    future.set_result(4)
    stacks: list[traceback.StackSummary] = []
    future.add_done_callback(lambda _: stacks.append(traceback.extract_stack()))
    assert not [frame for frame in stacks[0] if "torch_private" in frame.filename]
    assert future.then(doubled).wait() == 8
    assert callbacks.spans() == []


def test_no_frame_of_ours_is_in_what_a_callback_shows(callbacks: Callbacks) -> None:
    def warn(future: Any) -> None:
        stacks.append(traceback.extract_stack())
        warnings.warn("here", stacklevel=2)
        raise ValueError("broken")

    stacks: list[traceback.StackSummary] = []
    future = pending()
    then = future.then(warn)
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        future.set_result(1)
    with pytest.raises(RuntimeError, match="ValueError: broken") as raised:
        then.wait()
    files = [frame.filename for frame in stacks[0]]
    for shown in (*files, str(raised.value), warned[0].filename):
        assert "tuner/torch_private" not in shown
        assert "tuner/trace" not in shown
    (span,) = callbacks.spans()  # it raised, and ended
    assert span.end_ns is not None


@pytest.mark.parametrize("wrong", [5, None])
def test_pytorch_itself_refuses_what_is_no_callback(callbacks: Callbacks, wrong: Any) -> None:
    future = pending()
    with pytest.raises(TypeError, match="incompatible function arguments") as raised:
        future.then(wrong)
    files = [frame.filename for frame in traceback.extract_tb(raised.value.__traceback__)]
    assert not [file for file in files if "torch_private" in file]
    with pytest.raises(TypeError):
        future.add_done_callback()


def test_nested_callbacks_are_of_the_call_of_the_outer_one(callbacks: Callbacks) -> None:
    inner, outer = pending(), pending()
    callbacks.call_of[id(outer)] = 7
    after = inner.then(doubled)
    outer.then(lambda future: inner.set_result(future.value()))
    other = pending()
    other.then(doubled)
    outer.set_result(3)
    other.set_result(1)
    assert after.wait() == 6
    inner_one, outer_one, other_one = callbacks.spans()
    assert [span.call_id for span in (inner_one, outer_one, other_one)] == [7, 7, None]
    assert (inner_one.function, other_one.function) == ("doubled", "doubled")


def test_those_of_futures_made_of_others_are_recorded(callbacks: Callbacks) -> None:
    futures = [pending(), pending()]
    both = collect_all(futures).then(lambda done: [each.value() for each in done.value()])
    for future in futures:
        future.set_result(1)
    assert both.wait() == [1, 1]
    assert len(callbacks.spans()) == 1


def test_one_that_runs_has_no_end(callbacks: Callbacks) -> None:
    future, go_on = pending(), threading.Event()
    future.add_done_callback(lambda _: go_on.wait())
    thread = threading.Thread(target=future.set_result, args=(1,))
    thread.start()
    while not (spans := callbacks.spans()):
        time.sleep(0.001)
    go_on.set()
    thread.join()
    assert [span.end_ns for span in spans] == [None]
    assert [span.end_ns is None for span in callbacks.spans()] == [False]


def test_nothing_is_recorded_after_the_end(callbacks: Callbacks) -> None:
    future = pending()
    then = future.then(doubled)
    callbacks.is_recording = False
    future.set_result(2)
    assert then.wait() == 4
    assert callbacks.spans() == []


@pytest.mark.parametrize(
    ("name", "holds"), [("pt_thread_pool", True), ("pt_gloo_runloop", False), ("python", True)]
)
def test_a_thread_of_a_process_group_is_no_worker_thread(
    name: str, holds: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(record_threads, "kernel_says", lambda thread, what: f"{name}\n".encode())
    forget_threads()
    found = (worker_thread(), worker_thread())
    assert [thread is not None for thread in found] == [holds, holds]
    forget_threads()


def test_a_fork_of_the_process_records_nothing(callbacks: Callbacks) -> None:
    callbacks.pid += 1
    future = pending()
    then = future.then(doubled)
    future.set_result(2)
    assert then.wait() == 4
    assert callbacks.spans() == []


def test_they_come_back_from_a_journal_also_while_they_run(tmp_path: Path) -> None:
    journal = Journal(tmp_path / "one")
    callbacks = Callbacks(journal.callbacks, journal.text)
    future, go_on = pending(), threading.Event()
    with recording(callbacks):
        future.add_done_callback(lambda _: go_on.wait())
        future.add_done_callback(doubled)
        callbacks.call_of[id(future)] = 9
        future.then(doubled)
    thread = threading.Thread(target=future.set_result, args=(1,))
    thread.start()

    def read() -> list[CallbackSpan]:
        return read_journal(tmp_path / "one").callbacks

    while not read():
        callbacks.note_running(0, time.time_ns())
    assert [(span.call_id, span.end_ns) for span in read()] == [(None, None)]
    go_on.set()
    thread.join()
    found = read()
    assert [span.call_id for span in found] == [None, None, 9]
    assert all(span.end_ns for span in found)
    journal.callbacks.put(99, 12_345, 7, True, 1, 2, 3, 4, 5)  # no such text
    content = read_journal(tmp_path / "one")
    assert (len(content.callbacks), content.damaged) == (3, 1)
    forget_threads()
