"""The client's end of the calls of one process."""

import itertools
import threading
from collections import Counter
from collections.abc import Callable
from contextlib import AbstractContextManager, ExitStack
from time import time_ns
from types import TracebackType
from typing import Any

from torch.futures import Future

from tuner.daemon_threads import start_daemon
from tuner.torch_private.answers import RPC_TIMEOUT_MARK, error_line, error_of
from tuner.torch_private.calls import CallTarget, hooked_client, send_python, time_limit_s
from tuner.trace.model.spans import CALLS_PER_RANK, ClientSpan
from tuner.trace.record.threads import this_thread
from tuner.trace.record.wire import Request, served

# How often to look for calls that ended without an answer that tells so.
WATCH_S = 0.05
# Never reset: an answer to a call of an earlier trace must not end a call of a later one.
_numbers = itertools.count()


class OpenCall:
    """A call that may still be under way."""

    __slots__ = (
        "body",
        "call_id",
        "end",
        "future",
        "issued_ns",
        "parent",
        "start_ns",
        "target",
        "thread",
    )

    def __init__(self, call_id: int, target: CallTarget, body: str) -> None:
        thread = this_thread()
        self.call_id = call_id
        self.target = target
        self.body = body
        self.thread = thread.id
        self.parent = None if thread.serving is None else thread.serving[0]
        self.future: Future[Any] | None = None
        self.end: tuple[int | None, str, str] = (None, "unfinished", "")
        """The time, the status, and the error in one line."""
        self.issued_ns = 0
        self.start_ns = time_ns()

    @property
    def is_pending(self) -> bool:
        """Whether the call is under way, or its end is yet to be noted."""
        is_noted_elsewhere = self.target.worker is None
        return is_noted_elsewhere or self.future is None or not self.future.done()

    @property
    def span(self) -> ClientSpan:
        """The call as a plain value."""
        target, (end_ns, status, error) = self.target, self.end
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


class Client:
    """Records the calls that this process issues: `tuner.torch_private.calls.ClientHooks`."""

    def __init__(self, rank: int) -> None:
        self._rank = rank
        self.first_call = self._new_call_id()
        """No call of this client has a smaller id."""
        self.is_issuing = False
        """See `ClientHooks.is_issuing`."""
        self._open: dict[int, OpenCall] = {}
        # Lists, since they can be added to from any thread without a lock.
        self._sent: list[OpenCall] = []
        self._counts: list[tuple[str, str, int]] = []
        self._hooks = ExitStack()
        self._is_over = threading.Event()

    def start(self) -> None:
        """Record the calls that this process issues. All ranks must listen by then."""
        self.resume()
        start_daemon(self._watch, "rpc-tuner watch", is_over=self._is_over)

    def pause(self) -> None:
        """Record no call that begins from now on, and remove the hooks."""
        self.is_issuing = False
        self._hooks.close()

    def resume(self) -> None:
        """Record the calls that begin from now on."""
        self._hooks.enter_context(hooked_client(self))
        self.is_issuing = True

    def stop(self) -> None:
        """Record no further call, and no further end of a call."""
        self.pause()
        self._is_over.set()

    @property
    def pending(self) -> int:
        """Calls under way."""
        return sum(call.is_pending for call in list(self._open.values()))

    def spans(self) -> list[ClientSpan]:
        """All calls issued; calls under way have no end."""
        self.end_silent_calls()
        return [call.span for call in list(self._sent)]

    @property
    def issued(self) -> dict[tuple[str, str], int]:
        """The number of calls issued, by server and body."""
        counts: Counter[tuple[str, str]] = Counter()
        for server, body, by in self._counts:
            counts[server, body] += by
        return dict(counts)

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
        """See `ClientHooks.call_python`. The answer notes the call's end: see `wire.Request`."""
        call = OpenCall(self._new_call_id(), target, "python")
        return self._send(call, Request(call.call_id, func, args, kwargs))

    def _send(self, call: OpenCall, request: object) -> Future[Any]:
        """Send the request of a call of a plain Python function."""
        # The answer may arrive before `send_python` returns.
        self._open[call.call_id] = call
        self._note_sent(call)
        try:
            future: Future[Any] = send_python(call.target, request)
        except BaseException:
            # It was never a call: it could not be pickled, for example.
            del self._open[call.call_id]
            self._forget(call)
            raise
        call.issued_ns = time_ns()
        call.future = future
        if call.call_id not in self._open:
            call.future = None  # it was answered: do not keep the program's value alive
        return future

    def opened(
        self, target: CallTarget, inner: AbstractContextManager[Any]
    ) -> AbstractContextManager[Any]:
        """See `ClientHooks.opened`."""
        call = OpenCall(self._new_call_id(), target, "")
        self._open[call.call_id] = call
        return _Issuing(call, inner, self._open)

    def wrapped(
        self,
        func: Callable[..., Any],
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        method: str | None,
    ) -> tuple[Callable[..., Any], tuple[Any, ...], dict[str, Any]]:
        """See `ClientHooks.wrapped`. The function travels as an argument of `served`."""
        call = self._issuing()
        if call is None:
            return func, args, kwargs
        if method is not None:
            call.target = call.target._replace(function=method)
        return served, (call.call_id, func, args, kwargs), {}

    def issuing_to(self) -> str | None:
        """See `ClientHooks.issuing_to`."""
        call = self._issuing()
        return None if call is None else call.target.server

    @staticmethod
    def _issuing() -> "OpenCall | None":
        call = this_thread().issuing_to
        return call if isinstance(call, OpenCall) else None

    def sent(self, body: str, future: Future[Any]) -> None:
        """See `ClientHooks.sent`."""
        call = self._issuing()
        assert call is not None
        call.body = body
        call.issued_ns = time_ns()
        call.future = future
        self._note_sent(call)

        def ended(future: Future[Any]) -> None:
            self.ended(call.call_id, time_ns(), *outcome(future))

        future.add_done_callback(ended)

    def fetching(self, target: CallTarget, fetch: Callable[[], Any]) -> Any:
        """See `ClientHooks.fetching`."""
        call = OpenCall(self._new_call_id(), target, "fetch")
        call.issued_ns = call.start_ns
        self._open[call.call_id] = call
        self._note_sent(call)
        status, problem = "ok", ""
        try:
            return fetch()
        except BaseException as error:
            status, problem = _status(error), error_line(error)
            raise
        finally:
            self.ended(call.call_id, time_ns(), status, problem)

    def answered(self, call_id: int, value: object) -> None:
        """See `wire.ClientEnd.answered`."""
        end_ns = time_ns()
        error = error_of(value)
        self.ended(call_id, end_ns, "raised" if error else "ok", error)

    def ended(self, call_id: int, end_ns: int, status: str, error: str) -> None:
        """A call has ended."""
        if (call := self._open.pop(call_id, None)) is not None:
            call.end = (end_ns, status, error)
            call.future = None  # do not keep the value alive

    def _note_sent(self, call: OpenCall) -> None:
        """A call is being sent."""
        self._sent.append(call)

    def _forget(self, call: OpenCall) -> None:
        """A call that was noted was never sent."""
        self._sent.remove(call)

    def _watch(self, is_over: threading.Event) -> None:
        while not is_over.wait(WATCH_S):
            self._look()

    def _look(self) -> None:
        """What is done every WATCH_S seconds."""
        self.end_silent_calls()

    def end_silent_calls(self) -> None:
        """Note the end of calls whose answer did not: they failed, or returned a script.

        A call that timed out ended at its time limit; the end of others is known to within WATCH_S.
        """
        for call in list(self._open.values()):
            if call.target.worker is not None and (future := call.future) and future.done():
                end_ns = time_ns()
                status, problem = outcome(future)
                if status == "timed-out":
                    limit_ns = call.issued_ns + round(time_limit_s(call.target) * 1e9)
                    # A client whose threads are all blocked notices the timeout later.
                    end_ns = limit_ns if end_ns - limit_ns < 2e9 * WATCH_S else end_ns
                self.ended(call.call_id, end_ns, status, problem)

    def _new_call_id(self) -> int:
        return self._rank * CALLS_PER_RANK + next(_numbers)


class _Issuing:
    """The context in which a call is issued: PyTorch's own, and this thread knows the call."""

    def __init__(
        self, call: OpenCall, inner: AbstractContextManager[Any], open_calls: dict[int, OpenCall]
    ) -> None:
        self._call = call
        self._inner = inner
        self._open_calls = open_calls

    def __enter__(self) -> Any:
        thread = this_thread()
        self._outer, thread.issuing_to = thread.issuing_to, self._call
        return self._inner.__enter__()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> bool | None:
        this_thread().issuing_to = self._outer
        if not self._call.body:
            # It was never a call: it raised before it was sent, as in pickling.
            del self._open_calls[self._call.call_id]
        return self._inner.__exit__(kind, error, trace)


def outcome(future: Future[Any]) -> tuple[str, str]:
    """The status of a call whose future is complete, and its error in one line."""
    try:
        future.value()
    except Exception as error:
        return _status(error), error_line(error)
    return "ok", ""


def _status(error: BaseException) -> str:
    return "timed-out" if RPC_TIMEOUT_MARK in str(error) else "raised"
