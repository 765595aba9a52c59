"""Spans of calls, taken in Python at both ends of each; runs in every process while it is traced.

Light on imports: a process that is sent its first traced call imports this module then.
"""

import ctypes
import itertools
import os
import threading
import time
from collections.abc import Callable
from contextlib import AbstractContextManager, ExitStack, nullcontext
from types import TracebackType
from typing import Any

from torch.futures import Future

from tuner.torch_private import (
    RPC_TIMEOUT_MARK,
    CallTarget,
    hooked_client,
    hooked_requests,
    method_of_proxy,
)
from tuner.trace.live.recording import CALLS_PER_RANK, ClientSpan, ServerSpan

# PyDLL keeps the GIL: a reading that gave it up would change the very thing it measures.
_pread = ctypes.PyDLL(None).pread
_pread.argtypes = (ctypes.c_int, ctypes.c_void_p, ctypes.c_size_t, ctypes.c_long)
_pread.restype = ctypes.c_ssize_t
_STATISTICS_BYTES = 64


class RunQueueClock:
    """How long one thread has been runnable and waited for a core; belongs to that thread."""

    def __init__(self) -> None:
        try:
            self._file = os.open("/proc/thread-self/schedstat", os.O_RDONLY | os.O_CLOEXEC)
        except OSError:
            self._file = -1
        self._buffer = ctypes.create_string_buffer(_STATISTICS_BYTES)
        self._address = ctypes.addressof(self._buffer)

    def read_ns(self) -> int | None:
        """Nanoseconds since the thread began; None where the kernel does not keep it."""
        length = _pread(self._file, self._address, _STATISTICS_BYTES, 0)
        return int(self._buffer.raw[:length].split()[1]) if length > 0 else None

    def __del__(self) -> None:
        if self._file >= 0:
            os.close(self._file)


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
        "function",
        "inner",
        "issued_ns",
        "outer",
        "parent",
        "recorder",
        "start_ns",
        "target",
        "thread",
    )

    def __init__(
        self, recorder: "SpanRecorder", target: CallTarget, inner: AbstractContextManager[Any]
    ) -> None:
        self.recorder = recorder
        self.target = target
        self.function = target.function
        self.inner = inner
        self.body = ""
        self.issued_ns = 0
        self.thread = _this_thread()
        self.parent = self.thread.serving
        self.call_id = recorder.new_call_id()
        self.start_ns = time.time_ns()

    def __enter__(self) -> Any:
        self.outer, self.thread.opened = self.thread.opened, self
        return self.inner.__enter__()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> bool | None:
        # What raised before it was sent, say while it was pickled, was never a call.
        self.thread.opened = self.outer
        return self.inner.__exit__(kind, error, trace)

    def ended(self, future: Future[Any]) -> None:
        """The client's future is complete: on an RPC thread, or at once where it was already."""
        end_ns = time.time_ns()
        try:
            future.value()
        except Exception as error:
            self.recorder.close_call(self, end_ns, _status(error), _one_line(error))
        else:
            self.recorder.close_call(self, end_ns, "ok", "")

    def span(self, end_ns: int | None, status: str, error: str) -> ClientSpan:
        """What is kept of it."""
        return ClientSpan(
            self.call_id,
            self.target.kind,
            self.body,
            self.function,
            self.target.server,
            self.target.server_rank,
            self.thread.id,
            self.parent,
            self.start_ns,
            self.issued_ns,
            end_ns,
            status,
            error,
        )


class SpanRecorder:
    """Both ends of the calls of one process. At most one at a time; see `current`."""

    current: "SpanRecorder | None" = None

    def __init__(self, rank: int) -> None:
        self._numbers = itertools.count(rank * CALLS_PER_RANK)
        self._closed_calls: list[ClientSpan] = []
        self._open_calls: dict[int, _OpenCall] = {}
        self._served: list[ServerSpan] = []
        self._serving: dict[int, tuple[int, int]] = {}
        self._done_ns: dict[int, int] = {}
        # itertools.count: next() on one is atomic, += on a number is not.
        self._issued: dict[tuple[str, str], itertools.count[int]] = {}
        self._arrived: dict[int, itertools.count[int]] = {}
        self._client_hooks, self._server_hooks = ExitStack(), ExitStack()

    def listen(self) -> None:
        """Record the calls that this process serves."""
        if SpanRecorder.current is not None:
            raise RuntimeError("this process is being traced already")
        SpanRecorder.current = self
        self._server_hooks.enter_context(hooked_requests(self._request_arrived))

    def issue(self) -> None:
        """Record the calls that this process issues. Only once all ranks listen."""
        self._client_hooks.enter_context(hooked_client(self))

    def stop_issuing(self) -> None:
        """Record no new calls; those under way go on."""
        self._client_hooks.close()

    def stop_listening(self) -> None:
        """Record nothing any more."""
        self.stop_issuing()
        self._server_hooks.close()
        SpanRecorder.current = None
        _threads.clear()  # threads come and go between traces, and their files with them

    @property
    def pending(self) -> int:
        """Calls under way, issued or served here."""
        return len(self._open_calls) + len(self._serving)

    def client_spans(self) -> list[ClientSpan]:
        """All calls issued; those under way come last, without an end."""
        return [
            *self._closed_calls,
            *(call.span(None, "unfinished", "") for call in list(self._open_calls.values())),
        ]

    def server_spans(self) -> list[ServerSpan]:
        """All calls served; those under way come last, without an end."""
        running = list(self._serving.items())
        return [
            *self._served,
            *(
                ServerSpan(call, thread, start, None, None, None)
                for call, (thread, start) in running
            ),
        ]

    def done_ns(self) -> dict[int, int]:
        """When the future of each served `async_execution` call was complete."""
        return dict(self._done_ns)

    def counts(self) -> tuple[dict[tuple[str, str], int], dict[int, int]]:
        """Calls issued by server and body, and requests arrived by rank; read once, at the end."""
        issued = {key: next(count) for key, count in self._issued.items()}
        return issued, {rank: next(count) for rank, count in self._arrived.items()}

    def new_call_id(self) -> int:
        """An id that no other call of any rank has."""
        return next(self._numbers)

    # The client's end: tuner.torch_private.ClientHooks.

    def opened(
        self, target: CallTarget, inner: AbstractContextManager[Any]
    ) -> AbstractContextManager[Any]:
        """See `ClientHooks.opened`."""
        return _OpenCall(self, target, inner)

    def wrapped(
        self, func: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> tuple[Callable[..., Any], tuple[Any, ...], dict[str, Any]]:
        """See `ClientHooks.wrapped`: the function goes inside of `served`, with the call's id."""
        call = _this_thread().opened
        if call is None:
            return func, args, kwargs
        call.function = method_of_proxy(func, args) or call.function
        return served, (call.call_id, func, args, kwargs), {}

    def sent(self, body: str, future: Future[Any]) -> None:
        """See `ClientHooks.sent`."""
        call = _this_thread().opened
        if call is None:
            return
        call.body = body
        call.issued_ns = time.time_ns()
        self._open_calls[call.call_id] = call
        self._count_issued(call.target.server, body)
        future.add_done_callback(call.ended)

    def fetching(self, server: str, server_rank: int, fetch: Callable[[], Any]) -> Any:
        """See `ClientHooks.fetching`."""
        call = _OpenCall(self, CallTarget("to_here", "", server, server_rank), _NOTHING)
        call.body, call.issued_ns = "fetch", call.start_ns
        self._open_calls[call.call_id] = call
        self._count_issued(server, "fetch")
        status, problem = "ok", ""
        try:
            return fetch()
        except BaseException as error:
            status, problem = _status(error), _one_line(error)
            raise
        finally:
            self.close_call(call, time.time_ns(), status, problem)

    def close_call(self, call: _OpenCall, end_ns: int, status: str, error: str) -> None:
        """A call has ended."""
        self._closed_calls.append(call.span(end_ns, status, error))
        del self._open_calls[call.call_id]

    def _count_issued(self, server: str, body: str) -> None:
        next(self._issued.setdefault((server, body), itertools.count()))

    # The server's end.

    def _request_arrived(self, func: Callable[..., Any], args: tuple[Any, ...]) -> None:
        if func is served:
            next(self._arrived.setdefault(args[0] // CALLS_PER_RANK, itertools.count()))

    def serve(
        self, call_id: int, func: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Any:
        """Run a function that this process was sent."""
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
            self._served.append(ServerSpan(call_id, thread.id, start_ns, end_ns, cpu_ns, waited_ns))
            del self._serving[call_id]
            thread.serving = outer
        if isinstance(result, Future):
            # An async_execution function: its answer comes later, from whichever thread.
            result.add_done_callback(lambda _: self._done_ns.__setitem__(call_id, time.time_ns()))
        return result


def served(
    call_id: int, func: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]
) -> Any:
    """What a traced client sends in place of `func`."""
    recorder = SpanRecorder.current
    if recorder is None:  # the trace has ended meanwhile
        return func(*args, **kwargs)
    return recorder.serve(call_id, func, args, kwargs)


_NOTHING = nullcontext()


def _status(error: BaseException) -> str:
    return "timed-out" if RPC_TIMEOUT_MARK in str(error) else "raised"


def _one_line(error: BaseException) -> str:
    lines = str(error).strip().split("\n")
    if "On WorkerInfo" in lines[0] and len(lines) > 1:
        return lines[1]  # the error as the server saw it; its traceback follows
    return f"{type(error).__name__}: {lines[0]}" if lines[0] else type(error).__name__
