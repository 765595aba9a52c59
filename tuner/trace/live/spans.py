"""Spans of calls, taken in Python at both ends of each; runs in every process while it is traced.

Light on imports: a process that is sent its first traced call imports this module then. Short on
work: what can wait until the trace has ended does.
"""

import itertools
import threading
import time
from collections.abc import Callable
from contextlib import AbstractContextManager, ExitStack
from types import TracebackType
from typing import Any

from torch.futures import Future

from tuner.torch_private import (
    RPC_TIMEOUT_MARK,
    CallTarget,
    error_of,
    hooked_client,
    run_as_server,
    send_python,
)
from tuner.trace.live.recording import CALLS_PER_RANK, ClientSpan, ServerSpan
from tuner.trace.live.run_queue import RunQueueClock


class _Thread:
    """What the tracer knows of one thread."""

    __slots__ = ("id", "opened", "run_queue", "serving")

    def __init__(self, native_id: int) -> None:
        self.id = native_id
        self.run_queue = RunQueueClock()
        self.opened: _OpenCall | None = None
        """The call that is being issued."""
        self.serving: int | None = None
        """The id of the call that is being served."""


_threads: dict[int, _Thread] = {}


def _this_thread() -> _Thread:
    """The same object for as long as the thread lives.

    Not a threading.local: to Python, an RPC thread is another thread in every call that it runs.
    """
    native_id = threading.get_native_id()
    thread = _threads.get(native_id)
    if thread is None:
        thread = _threads[native_id] = _Thread(native_id)
    return thread


class _OpenCall:
    """A call from its begin to its end, on the client."""

    __slots__ = (
        "body",
        "call_id",
        "future",
        "issued_ns",
        "parent",
        "start_ns",
        "target",
        "thread",
    )

    def __init__(self, call_id: int, target: CallTarget, body: str) -> None:
        thread = _this_thread()
        self.call_id = call_id
        self.target = target
        self.body = body
        self.thread = thread.id
        self.parent = thread.serving
        self.future: Future[Any] | None = None
        self.issued_ns = 0
        self.start_ns = time.time_ns()

    @property
    def is_pending(self) -> bool:
        """Whether the call is still under way."""
        return self.future is None or not self.future.done()

    def span(self, end_ns: int | None, status: str, error: str) -> ClientSpan:
        """What is kept of it."""
        target = self.target
        return ClientSpan(
            self.call_id,
            target.kind,
            self.body,
            target.function,
            target.server,
            target.server_rank,
            self.thread,
            self.parent,
            self.start_ns,
            self.issued_ns,
            end_ns,
            status,
            error,
        )

    def unanswered(self) -> ClientSpan:
        """What is known of a call of which no answer has told: it is under way, or has failed.

        PyTorch fails it when its time limit has passed; of other failures the time is unknown.
        """
        if self.future is None or self.is_pending:
            return self.span(None, "unfinished", "")
        status, problem = _outcome(self.future)
        limit_ns = self.issued_ns + round(self.target.timeout_s * 1e9)
        return self.span(limit_ns if status == "timed-out" else None, status, problem)


class SpanRecorder:
    """Both ends of the calls of one process. At most one at a time; see `current`."""

    current: "SpanRecorder | None" = None

    def __init__(self, rank: int) -> None:
        self._numbers = itertools.count(rank * CALLS_PER_RANK)
        self._ended: list[tuple[_OpenCall, int, str, str]] = []
        self._open: dict[int, _OpenCall] = {}
        self._served: list[tuple[int, int, int, int, int, int | None]] = []
        self._serving: dict[int, tuple[int, int]] = {}
        self._done_ns: dict[int, int] = {}
        # itertools.count: next() on one is atomic, += on a number is not.
        self._issued: dict[tuple[str, str], itertools.count[int]] = {}
        self._arrived: dict[int, itertools.count[int]] = {}
        self._hooks = ExitStack()

    def listen(self) -> None:
        """Record the calls that this process serves."""
        if SpanRecorder.current is not None:
            raise RuntimeError("this process is being traced already")
        SpanRecorder.current = self

    def issue(self) -> None:
        """Record the calls that this process issues. Only once all ranks listen."""
        self._hooks.enter_context(hooked_client(self))

    def stop_issuing(self) -> None:
        """Record no new calls; those under way go on."""
        self._hooks.close()

    def stop_listening(self) -> None:
        """Record nothing any more."""
        self.stop_issuing()
        SpanRecorder.current = None
        _threads.clear()  # threads come and go between traces, and their files with them

    @property
    def pending(self) -> int:
        """Calls under way, issued or served here."""
        calls = list(self._open.values())
        return sum(call.is_pending for call in calls) + len(self._serving)

    def client_spans(self) -> list[ClientSpan]:
        """All calls issued; those that no answer has told of come last."""
        ended = [call.span(end_ns, status, error) for call, end_ns, status, error in self._ended]
        return ended + [call.unanswered() for call in list(self._open.values())]

    def server_spans(self) -> list[ServerSpan]:
        """All calls served; those under way come last, without an end."""
        served = [ServerSpan(*span) for span in self._served]
        running = list(self._serving.items())
        return served + [
            ServerSpan(call_id, thread, start_ns, None, None, None)
            for call_id, (thread, start_ns) in running
        ]

    def done_ns(self) -> dict[int, int]:
        """When the future of each served `async_execution` call was complete."""
        return dict(self._done_ns)

    def counts(self) -> tuple[dict[tuple[str, str], int], dict[int, int]]:
        """Calls issued by server and body, and requests arrived by rank; read once, at the end."""
        issued = {key: next(count) for key, count in self._issued.items()}
        return issued, {rank: next(count) for rank, count in self._arrived.items()}

    # The client's end: tuner.torch_private.ClientHooks.

    def call_python(
        self,
        target: CallTarget,
        func: Callable[..., Any],
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
    ) -> Future[Any]:
        """See `ClientHooks.call_python`: the answer tells of the call's end; see `answer`."""
        call_id = next(self._numbers)
        call = _OpenCall(call_id, target, "python")
        # The answer may be here before the next line is.
        self._open[call_id] = call
        try:
            future: Future[Any] = send_python(target, answer, (call_id, func, args, kwargs))
        except BaseException:
            del self._open[call_id]  # it could not be pickled, say, and was never a call
            raise
        call.issued_ns = time.time_ns()
        self._count_issued(target.server, "python")
        if call_id in self._open:
            call.future = future
        return future

    def opened(
        self, target: CallTarget, inner: AbstractContextManager[Any]
    ) -> AbstractContextManager[Any]:
        """See `ClientHooks.opened`."""
        return _Issuing(_OpenCall(next(self._numbers), target, ""), inner)

    def wrapped(
        self,
        func: Callable[..., Any],
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        method: str | None,
    ) -> tuple[Callable[..., Any], tuple[Any, ...], dict[str, Any]]:
        """See `ClientHooks.wrapped`: the function travels inside of ours, with the call's id."""
        call = _this_thread().opened
        if call is None:
            return func, args, kwargs
        if method is not None:
            call.target = call.target._replace(function=method)
        return served, (call.call_id, func, args, kwargs), {}

    def sent(self, body: str, future: Future[Any]) -> None:
        """See `ClientHooks.sent`."""
        call = _this_thread().opened
        if call is None:
            return
        call.body = body
        call.issued_ns = time.time_ns()
        self._count_issued(call.target.server, body)
        call.future = future
        self._open[call.call_id] = call

        def ended(future: Future[Any]) -> None:
            self.ended(call.call_id, time.time_ns(), *_outcome(future))

        future.add_done_callback(ended)

    def fetching(self, target: CallTarget, fetch: Callable[[], Any]) -> Any:
        """See `ClientHooks.fetching`."""
        call = _OpenCall(next(self._numbers), target, "fetch")
        call.issued_ns = call.start_ns
        self._count_issued(target.server, "fetch")
        self._open[call.call_id] = call
        status, problem = "ok", ""
        try:
            return fetch()
        except BaseException as error:
            status, problem = _status(error), _one_line(error)
            raise
        finally:
            self.ended(call.call_id, time.time_ns(), status, problem)

    def ended(self, call_id: int, end_ns: int, status: str, error: str) -> None:
        """A call has ended."""
        if (call := self._open.pop(call_id, None)) is not None:
            call.future = None  # and what it holds
            self._ended.append((call, end_ns, status, error))

    def _count_issued(self, server: str, body: str) -> None:
        _count(self._issued, (server, body))

    # The server's end.

    def serve(
        self, call_id: int, func: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Any:
        """Run a function that this process was sent."""
        _count(self._arrived, call_id // CALLS_PER_RANK)
        thread = _this_thread()
        outer, thread.serving = thread.serving, call_id
        waited_ns = thread.run_queue.read_ns()
        start_ns = time.time_ns()
        self._serving[call_id] = (thread.id, start_ns)
        cpu_ns = time.thread_time_ns()
        try:
            result = func(*args, **kwargs)
        finally:
            cpu_ns = time.thread_time_ns() - cpu_ns
            end_ns = time.time_ns()
            if waited_ns is not None and (now_ns := thread.run_queue.read_ns()) is not None:
                waited_ns = now_ns - waited_ns
            self._served.append((call_id, thread.id, start_ns, end_ns, cpu_ns, waited_ns))
            del self._serving[call_id]
            thread.serving = outer
        return result

    def done(self, call_id: int) -> None:
        """The future of a served `async_execution` call is complete."""
        self._done_ns[call_id] = time.time_ns()


def _count(counts: dict[Any, "itertools.count[int]"], key: object) -> None:
    """Count one more; safe in any number of threads."""
    try:
        next(counts[key])
    except KeyError:
        next(counts.setdefault(key, itertools.count()))


class _Issuing:
    """The context in which a call is issued: PyTorch's own, with the call at hand in it."""

    def __init__(self, call: _OpenCall, inner: AbstractContextManager[Any]) -> None:
        self._call = call
        self._inner = inner

    def __enter__(self) -> Any:
        thread = _this_thread()
        self._outer, thread.opened = thread.opened, self._call
        return self._inner.__enter__()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> bool | None:
        # What raised before it was sent, say while it was pickled, was never a call.
        _this_thread().opened = self._outer
        return self._inner.__exit__(kind, error, trace)


def served(
    call_id: int, func: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]
) -> Any:
    """What a traced client sends in place of `func` where the answer must be `func`'s own.

    An RRef keeps it, or it is a future of an `async_execution` function.
    """
    recorder = SpanRecorder.current
    if recorder is None:  # the trace has ended meanwhile
        return func(*args, **kwargs)
    result = recorder.serve(call_id, func, args, kwargs)
    if isinstance(result, Future):
        result.add_done_callback(lambda _: recorder.done(call_id))
    return result


def answer(
    call_id: int, func: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]
) -> Any:
    """What a traced client sends in place of any other `func`.

    The answer tells the client of the call's end as it is unpickled. A callback on the client's
    future would do, too, but costs two more turns of the GIL on a thread that has no state yet.
    """
    recorder = SpanRecorder.current
    if recorder is None:
        return func(*args, **kwargs)
    return _Answer(call_id, recorder.serve(call_id, run_as_server, (func, args, kwargs), {}))


class _Answer:
    """An answer that is unpickled as the plain value, and tells the recorder of it."""

    __slots__ = ("call_id", "value")

    def __init__(self, call_id: int, value: object) -> None:
        self.call_id = call_id
        self.value = value

    def __reduce__(self) -> tuple[Callable[[int, Any], Any], tuple[int, Any]]:
        return _answered, (self.call_id, self.value)


def _answered(call_id: int, value: Any) -> Any:
    if (recorder := SpanRecorder.current) is not None:
        error = error_of(value)
        recorder.ended(call_id, time.time_ns(), "raised" if error else "ok", error)
    return value


def _outcome(future: Future[Any]) -> tuple[str, str]:
    """The status of a call whose future is complete, and its error in one line."""
    try:
        future.value()
    except Exception as error:
        return _status(error), _one_line(error)
    return "ok", ""


def _status(error: BaseException) -> str:
    return "timed-out" if RPC_TIMEOUT_MARK in str(error) else "raised"


def _one_line(error: BaseException) -> str:
    lines = str(error).strip().split("\n")
    if "On WorkerInfo" in lines[0] and len(lines) > 1:
        return lines[1]  # the error as the server saw it; its traceback follows
    return f"{type(error).__name__}: {lines[0]}" if lines[0] else type(error).__name__
