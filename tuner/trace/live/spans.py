"""Spans of calls, taken in Python at both ends of each; runs in every process while it is traced.

Light on imports: a process that is sent its first traced call imports this module then. Short on
work: what can wait until the trace has ended does.
"""

import itertools
import threading
import time
from collections import Counter
from collections.abc import Callable
from contextlib import AbstractContextManager, ExitStack
from types import TracebackType
from typing import Any

from torch.futures import Future

from tuner.torch_private import (
    RPC_TIMEOUT_MARK,
    CallTarget,
    can_be_wrapped,
    error_line,
    error_of,
    hooked_client,
    is_future,
    run_as_server,
    send_python,
)
from tuner.trace.live.recording import CALLS_PER_RANK, ClientSpan, ServerSpan
from tuner.trace.live.run_queue import RunQueueClock, waited_ns

# How often calls are looked through for such as have ended without telling.
WATCH_S = 0.02
# Never started anew: an answer to a call of an earlier trace must end none of a later one.
_numbers = itertools.count()


class _Thread:
    """What the tracer knows of one thread."""

    __slots__ = ("id", "opened", "run_queue", "serving")

    def __init__(self, native_id: int) -> None:
        self.id = native_id
        self.run_queue: RunQueueClock | None = None
        """Made when the thread first serves a call."""
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


class SpanRecorder:
    """Both ends of the calls of one process. At most one at a time; see `current`."""

    current: "SpanRecorder | None" = None

    def __init__(self, rank: int) -> None:
        self._rank = rank
        self.first_call = self._new_call_id()
        """No call of this recorder has a smaller id."""
        self._ended: list[tuple[_OpenCall, int, str, str]] = []
        self._open: dict[int, _OpenCall] = {}
        self.is_issuing = False
        self._served: list[tuple[int, int, int, int, int, bytes, bytes]] = []
        self._serving: dict[int, tuple[int, int]] = {}
        self._done_ns: dict[int, int] = {}
        # Lists, since they can be added to from any thread without a lock; counted at the end.
        self._counts: list[tuple[str, str, int]] = []
        self._arrived: list[int] = []
        self._hooks = ExitStack()
        self._is_over = threading.Event()

    def listen(self) -> None:
        """Record the calls that this process serves."""
        if SpanRecorder.current is not None:
            raise RuntimeError("this process is being traced already")
        SpanRecorder.current = self

    def issue(self) -> None:
        """Record the calls that this process issues. Only once all ranks listen."""
        self._hooks.enter_context(hooked_client(self))
        self.is_issuing = True
        threading.Thread(target=self._watch, name="rpc-tuner watch", daemon=True).start()

    def stop_issuing(self) -> None:
        """Record no new calls; those under way go on."""
        self.is_issuing = False

    def stop_listening(self) -> None:
        """Record nothing any more."""
        self.stop_issuing()
        self._hooks.close()
        self._is_over.set()
        SpanRecorder.current = None
        _threads.clear()  # threads come and go between traces, and their files with them

    @property
    def pending(self) -> int:
        """Calls under way, issued or served here."""
        calls = list(self._open.values())
        return sum(call.is_pending for call in calls) + len(self._serving)

    def client_spans(self) -> list[ClientSpan]:
        """All calls issued; those under way come last, without an end."""
        self._end_silent_calls()
        under_way = list(self._open.values())
        ended = [call.span(end_ns, status, error) for call, end_ns, status, error in self._ended]
        return ended + [call.span(None, "unfinished", "") for call in under_way]

    def server_spans(self) -> list[ServerSpan]:
        """All calls served, such of an earlier trace too; those under way come last, unended."""
        running = list(self._serving.items())
        served = [
            ServerSpan(
                call_id,
                thread,
                start_ns,
                end_ns,
                cpu_ns,
                # The readings lie just outside the span, and so may what they tell.
                waited_ns(before, after, at_most_ns=end_ns - start_ns - cpu_ns),
            )
            for call_id, thread, start_ns, end_ns, cpu_ns, before, after in self._served
        ]
        return served + [
            ServerSpan(call_id, thread, start_ns, None, None, None)
            for call_id, (thread, start_ns) in running
        ]

    def done_ns(self) -> dict[int, int]:
        """When the future of each served `async_execution` call was complete."""
        return dict(self._done_ns)

    def issued(self) -> dict[tuple[str, str], int]:
        """The number of calls issued, by server and body."""
        counts: Counter[tuple[str, str]] = Counter()
        for server, body, by in self._counts:
            counts[server, body] += by
        return dict(counts)

    def arrived(self) -> list[int]:
        """The id of each request that arrived, such of an earlier trace too."""
        return list(self._arrived)

    def _new_call_id(self) -> int:
        return self._rank * CALLS_PER_RANK + next(_numbers)

    # The client's end: tuner.torch_private.ClientHooks.

    def counted(self, server: str, body: str, by: int) -> None:
        """See `ClientHooks.counted`."""
        self._counts.append((server, body, by))

    def call_python(
        self,
        target: CallTarget,
        func: Callable[..., Any],
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
    ) -> Future[Any]:
        """See `ClientHooks.call_python`: the answer tells of the call's end; see `answer`."""
        call_id = self._new_call_id()
        call = _OpenCall(call_id, target, "python")
        # The answer may be here before the next line is.
        self._open[call_id] = call
        try:
            future: Future[Any] = send_python(target, answer, (call_id, func, args, kwargs))
        except BaseException:
            del self._open[call_id]  # it could not be pickled, say, and was never a call
            raise
        call.issued_ns = time.time_ns()
        if call_id in self._open:
            call.future = future
        return future

    def opened(
        self, target: CallTarget, inner: AbstractContextManager[Any]
    ) -> AbstractContextManager[Any]:
        """See `ClientHooks.opened`."""
        call = _OpenCall(self._new_call_id(), target, "")
        self._open[call.call_id] = call
        return _Issuing(call, inner, self._open)

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

    def issuing_to(self) -> str | None:
        """See `ClientHooks.issuing_to`."""
        call = _this_thread().opened
        return None if call is None else call.target.server

    def sent(self, body: str, future: Future[Any]) -> None:
        """See `ClientHooks.sent`."""
        call = _this_thread().opened
        assert call is not None
        call.body = body
        call.issued_ns = time.time_ns()
        call.future = future

        def ended(future: Future[Any]) -> None:
            self.ended(call.call_id, time.time_ns(), *_outcome(future))

        future.add_done_callback(ended)

    def fetching(self, target: CallTarget, fetch: Callable[[], Any]) -> Any:
        """See `ClientHooks.fetching`."""
        call = _OpenCall(self._new_call_id(), target, "fetch")
        call.issued_ns = call.start_ns
        self._open[call.call_id] = call
        status, problem = "ok", ""
        try:
            return fetch()
        except BaseException as error:
            status, problem = _status(error), error_line(error)
            raise
        finally:
            self.ended(call.call_id, time.time_ns(), status, problem)

    def ended(self, call_id: int, end_ns: int, status: str, error: str) -> None:
        """A call has ended."""
        if (call := self._open.pop(call_id, None)) is not None:
            call.future = None  # and what it holds
            self._ended.append((call, end_ns, status, error))

    def _watch(self) -> None:
        while not self._is_over.wait(WATCH_S):
            self._end_silent_calls()

    def _end_silent_calls(self) -> None:
        """Note the end of calls whose answer did not tell of it: most of them have failed.

        One that timed out ended at its time limit; of others the time is known to within WATCH_S.
        """
        for call in list(self._open.values()):
            if call.target.worker is not None and (future := call.future) and future.done():
                end_ns = time.time_ns()
                status, problem = _outcome(future)
                limit_ns = call.issued_ns + round(call.target.timeout_s * 1e9)
                # With all its threads blocked a client notices later that the time is over.
                if status == "timed-out" and end_ns - limit_ns < 2e9 * WATCH_S:
                    end_ns = limit_ns
                self.ended(call.call_id, end_ns, status, problem)

    # The server's end.

    def serve(
        self, call_id: int, func: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Any:
        """Run a function that this process was sent.

        On a server that is short of the GIL every line of this is paid for by all threads.
        """
        thread = _this_thread()
        outer, thread.serving = thread.serving, call_id
        if (run_queue := thread.run_queue) is None:
            run_queue = thread.run_queue = RunQueueClock()
        before = run_queue.read()
        start_ns = time.time_ns()
        self._serving[call_id] = (thread.id, start_ns)
        cpu_ns = time.thread_time_ns()
        try:
            return func(*args, **kwargs)
        finally:
            cpu_ns = time.thread_time_ns() - cpu_ns
            end_ns = time.time_ns()
            after = run_queue.read()
            self._served.append((call_id, thread.id, start_ns, end_ns, cpu_ns, before, after))
            del self._serving[call_id]
            thread.serving = outer

    def arrive(self, call_id: int) -> None:
        """Count a request."""
        self._arrived.append(call_id)

    def done(self, call_id: int) -> None:
        """The future of a served `async_execution` call is complete."""
        self._done_ns[call_id] = time.time_ns()


class _Issuing:
    """The context in which a call is issued: PyTorch's own, with the call at hand in it."""

    def __init__(
        self, call: _OpenCall, inner: AbstractContextManager[Any], open_calls: dict[int, _OpenCall]
    ) -> None:
        self._call = call
        self._inner = inner
        self._open_calls = open_calls

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
        _this_thread().opened = self._outer
        if not self._call.body:
            # It raised before it was sent, say while it was pickled, and was never a call.
            del self._open_calls[self._call.call_id]
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
    recorder.arrive(call_id)
    result = recorder.serve(call_id, func, args, kwargs)
    if is_future(result):
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
    recorder.arrive(call_id)
    value = run_as_server(recorder.serve, call_id, func, args, kwargs)
    return _Answer(call_id, value) if can_be_wrapped(value) else value


class _Answer:
    """An answer that is unpickled as the plain value, and tells the recorder of it."""

    __slots__ = ("call_id", "value")

    def __init__(self, call_id: int, value: object) -> None:
        self.call_id = call_id
        self.value = value

    def __reduce_ex__(self, protocol: Any) -> tuple[Callable[[int, Any], Any], tuple[int, Any]]:
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
        return _status(error), error_line(error)
    return "ok", ""


def _status(error: BaseException) -> str:
    return "timed-out" if RPC_TIMEOUT_MARK in str(error) else "raised"
