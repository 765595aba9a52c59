"""The client's end of the calls of one process."""

import itertools
import threading
from collections import Counter, defaultdict, deque
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, ExitStack
from functools import partial
from time import monotonic, time_ns
from typing import Any
from weakref import WeakKeyDictionary

from torch.futures import Future

from tuner.daemon_threads import start_daemon
from tuner.torch_private.answers import RPC_TIMEOUT_MARK, bytes_of, error_line, error_of
from tuner.torch_private.callbacks import add_done_callback
from tuner.torch_private.calls import (
    CallTarget,
    checksum_of,
    hooked_client,
    limit_s,
    pickled_plainly,
)
from tuner.torch_private.sites import site_here
from tuner.trace.model.spans import CALLS_PER_RANK, ClientSpan, GilWait, OperatorSpan, Pause
from tuner.trace.record.callbacks import Callbacks
from tuner.trace.record.gil import GilProbe
from tuner.trace.record.pauses import Pauses
from tuner.trace.record.threads import in_turn, this_thread
from tuner.trace.record.wire import marked, request

# How often to look for calls that ended without an answer.
WATCH_S = 0.05
LONG_NS = 50_000  # it is noted that an answer took so long to unpickle
LARGE_BYTES = 1 << 16  # of a pickle: it is noted whether another one was the same
MOST_KNOWN = 1000
_NOT_KEPT: deque[Any] = deque(maxlen=0)
_ALL_READ: Mapping[str, bool] = defaultdict(lambda: True)
# Never reset: an answer to a call of an earlier trace must not end a call of a later one.
_next_number = in_turn(itertools.count().__next__)


class OpenCall:
    """A call that may still be under way."""

    __slots__ = (
        "answers_plainly", "body", "call_id", "end", "future", "is_marked", "issued_ns", "parent",
        "request_bytes", "request_tensors", "same_as", "site", "start_ns", "target", "thread",
        "timeout_s",
    )  # fmt: skip

    def __init__(self, rank: int, target: CallTarget, above: int = 0) -> None:
        """`above` is how many frames from here the program's is in most calls; 0 if that varies."""
        thread = this_thread()
        self.call_id = rank * CALLS_PER_RANK + _next_number()
        self.target = target
        self.thread = thread.id
        self.parent = thread.served_call
        # What PyTorch's own callback issues, the program does where it had that added.
        self.site = site_here(3, above and above + 1) or (
            thread.callback[8] if thread.callback else ""
        )
        """Where the program issues it, `main.py:42`; empty if that is not known."""
        self.body = ""
        """Empty until it is sent."""
        self.timeout_s: float | None = None
        self.request_bytes: int | None = None
        self.request_tensors: int | None = None
        self.same_as: int | None = None
        """An earlier call that has made or fetched what this one fetches, or has sent the same."""
        self.answers_plainly = False
        """Whether a Python function runs, and what it returns is the answer."""
        self.is_marked = False
        """Whether its answer notes its end: see `wire.marked`."""
        self.future: Future[Any] | None = None
        self.end: tuple[int | None, str, str] = (None, "unfinished", "")
        """The time, the status, and the error in one line."""
        self.issued_ns = 0
        self.start_ns = time_ns()

    @property
    def span(self) -> ClientSpan:
        """The call as a plain value."""
        target, (end_ns, status, error) = self.target, self.end
        return ClientSpan(
            self.call_id, target.kind, self.body, target.function, target.server,
            target.server_rank, self.thread, self.parent, self.start_ns, self.issued_ns, end_ns,
            status, error, self.timeout_s, self.request_bytes, site=self.site,
            defined=target.defined, request_tensors=self.request_tensors, same_as=self.same_as,
        )  # fmt: skip


class Client:
    """Records the calls that this process issues; `hooked_client` calls it."""

    def __init__(
        self, rank: int, reads: Mapping[str, bool] = _ALL_READ, callbacks: Callbacks | None = None,
        see_threads: Callable[[], None] = lambda: None,
    ) -> None:  # fmt: skip
        """`reads` says of every server, by its RPC name, whether it can read a mark.

        `see_threads` is called every WATCH_S seconds, for threads that may end.
        """
        self._reads = reads
        self._see_threads = see_threads
        self.callbacks = callbacks or Callbacks()
        self.first_call = rank * CALLS_PER_RANK + _next_number()
        """No call of this client has a smaller id."""
        self.is_issuing = False
        """Whether to record calls that begin now; those that have begun are recorded to the end."""
        self._rank = rank
        self.operators: list[OperatorSpan] = []
        """Those that are noted in Python."""
        self.gil: list[GilWait] = []
        """Samples of who holds the GIL of this process."""
        self.pauses: list[Pause] = []
        """Those in which a thread that issues calls was off the CPU."""
        self._look_at_pauses = Pauses(self.paused).look
        self._received_ns: dict[int, int] = {}
        self._first_of: WeakKeyDictionary[Any, int] = WeakKeyDictionary()
        self._first_with: dict[tuple[int, int], int] = {}
        self._open: dict[int, OpenCall] = {}
        # Lists, since they can be added to from any thread without a lock.
        self._kept: list[OpenCall] = []
        self._keep_sent: Callable[[OpenCall], None] = self._kept.append
        self._keep_ended: Callable[[OpenCall], None] = _NOT_KEPT.append
        self._counts: list[tuple[str, str, int]] = []
        self._hooks = ExitStack()
        self._is_over = threading.Event()
        self._watching: threading.Thread | None = None

    def start(self) -> None:
        """Record the calls that this process issues. All ranks must listen by then."""
        self.resume()
        self._watching = start_daemon(self._watch, "rpc-tuner watch", is_over=self._is_over)

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
        self.callbacks.is_recording = False
        self._is_over.set()
        if self._watching is not None and self._watching.is_alive():
            self._watching.join()

    @property
    def pending(self) -> int:
        """How many calls are under way, or their end is yet to be noted."""
        return sum(
            not call.is_marked or call.future is None or not call.future.done()
            for call in list(self._open.values())
        )

    def spans(self) -> list[ClientSpan]:
        """All calls issued; calls under way have no end."""
        self.end_silent_calls()
        return [
            call.span._replace(received_ns=self._received_ns.get(call.call_id))
            for call in list(self._kept)
        ]

    @property
    def issued(self) -> dict[tuple[str, str], int]:
        """The number of calls issued, by server and body, counted apart from the spans."""
        counts = Counter[tuple[str, str]]()
        for server, body, by in self._counts:
            counts[server, body] += by
        return counts

    def can_read(self, server: str) -> bool:
        """Whether this rank can read what `call_python` sends."""
        return self._reads[server]

    def call_python(
        self, target: CallTarget, worker: Any, function: bytes, args: Any, kwargs: Any,
        timeout_s: float, send: Callable[..., Any],
    ) -> Any:  # fmt: skip
        """Make an `rpc_sync` or `rpc_async` call of a plain Python function; returns its future.

        `function` is how a pickle names it, and no code of the program pickles its arguments.
        `send` is PyTorch's own, which sends a PythonUDF to a WorkerInfo. The answer notes the
        call's end: see `wire.received`.
        """
        # Ours, and PyTorch's function with its wrapper.
        call = OpenCall(self._rank, target, 5)
        call.body, call.timeout_s = "python", limit_s(timeout_s)
        self._begins(call)
        call.is_marked = True
        try:
            values, tensors = pickled_plainly(args, kwargs)
            pickled = request(call.call_id, function, values)
            future = send(worker, pickled, tensors, timeout_s, False)
            call.request_bytes = len(pickled) + bytes_of(tensors)
            call.request_tensors = len(tensors)
        except BaseException:
            self.not_sent(call)
            raise
        self.sent(call, future)
        return future

    def opened(self, target: CallTarget, inner: AbstractContextManager[Any]) -> "_Issuing":
        """Any other call begins; the context ends when it is issued, or could not be.

        On entry it returns what `inner` does, which is PyTorch's own profiling context.
        """
        return _Issuing(OpenCall(self._rank, target), inner)

    def issuing(self) -> OpenCall | None:
        """The call that this thread has opened; None if there is none."""
        call = this_thread().issuing_to
        return call if isinstance(call, OpenCall) else None

    def packed(self, call: OpenCall, pickled: bytes, tensors: list[Any]) -> None:
        """The request of a Python function, as PyTorch has pickled it."""
        call.request_bytes = len(pickled) + bytes_of(tensors)
        call.request_tensors = len(tensors)
        if len(pickled) >= LARGE_BYTES and not tensors:
            if len(self._first_with) >= MOST_KNOWN:
                self._first_with.clear()
            first = self._first_with.setdefault(checksum_of(pickled), call.call_id)
            call.same_as = first if first != call.call_id else None

    def holds(self, call: OpenCall, rref: Any) -> None:
        """The call makes the value of this RRef, or fetches it."""
        if (first := self._first_of.setdefault(rref, call.call_id)) != call.call_id:
            call.same_as = first

    def sending(self, call: OpenCall, pickled: bytes | None) -> bytes | None:
        """The call is about to be sent; returns what to send in place of its pickle, or that."""
        self._begins(call)
        if pickled is None or not self._reads[call.target.server]:
            return pickled
        with_mark = marked(pickled, call.call_id, call.answers_plainly)
        if with_mark is None:
            return pickled
        call.is_marked = call.answers_plainly
        return with_mark

    def _begins(self, call: OpenCall) -> None:
        """The call is to be sent: its answer may arrive before it is known to be."""
        self._counts.append((call.target.server, call.body, 1))
        self._open[call.call_id] = call
        self._keep_sent(call)

    def sent(self, call: OpenCall, future: Future[Any]) -> None:
        """The call was sent; `future` is complete once it is answered or has failed."""
        call.issued_ns = time_ns()
        if not call.is_marked:
            add_done_callback(future, partial(self._done, call.call_id))
            return
        self.callbacks.call_of[id(future)] = call.call_id
        call.future = future
        if call.call_id not in self._open:
            self._forget_future(call)  # it was answered

    def not_sent(self, call: OpenCall) -> None:
        """The call could not be sent."""
        self._counts.append((call.target.server, call.body, -1))
        del self._open[call.call_id]
        if call in self._kept:
            self._kept.remove(call)

    def noted(self, name: str, start_ns: int) -> None:
        """This thread has just left an operator that it entered then."""
        self.operators.append(OperatorSpan(name, this_thread().id, start_ns, time_ns(), True))

    def sampled(self, asked_ns: int, waited_ns: int, slept_ns: int) -> None:
        """The watch wanted the GIL then, and got it so much later."""
        self.gil.append(GilWait(asked_ns, waited_ns, slept_ns))

    def paused(self, at_ns: int, thread: int, why: str, site: str, is_open: bool) -> None:
        """A thread was seen off the CPU: see `Pause`."""
        self.pauses.append(Pause(at_ns, thread, why, site, is_open))

    def fetching(
        self, target: CallTarget, timeout_s: float, fetch: Callable[[], Any], rref: Any
    ) -> Any:
        """Fetch an RRef's value from its owner, and return it."""
        call = OpenCall(self._rank, target, 4)
        call.body, call.timeout_s = "fetch", timeout_s
        self.holds(call, rref)
        call.issued_ns = call.start_ns
        self._begins(call)
        status, problem = "ok", ""
        try:
            return fetch()
        except BaseException as error:
            status, problem = _status(error), error_line(error)
            raise
        finally:
            self.ended(call.call_id, time_ns(), status, problem)

    def answered(self, call_id: int, value: object) -> None:
        """The answer to a call has arrived: a value, or an exception."""
        end_ns = time_ns()
        self.callbacks.completed(call_id)
        error = error_of(value)
        self.ended(call_id, end_ns, "raised" if error else "ok", error)

    def _done(self, call_id: int, future: Future[Any]) -> None:
        """The future of a call whose answer does not note its end is complete."""
        end_ns = time_ns()
        self.callbacks.completed(call_id)
        self.ended(call_id, end_ns, *_outcome(future))

    def unpickled(self, call_id: int, began_ns: int) -> None:
        """An answer has been unpickled, which began then."""
        if time_ns() - began_ns >= LONG_NS:
            self.took_long_to_unpickle(call_id, began_ns)

    def took_long_to_unpickle(self, call_id: int, began_ns: int) -> None:
        """An answer took long to unpickle."""
        self._received_ns[call_id] = began_ns

    def ended(self, call_id: int, end_ns: int, status: str, error: str) -> None:
        """A call has ended."""
        if (call := self._open.pop(call_id, None)) is not None:
            call.end = (end_ns, status, error)
            self._forget_future(call)
            self._keep_ended(call)

    def _forget_future(self, call: OpenCall) -> None:
        """Do not keep the program's value alive."""
        if (future := call.future) is not None:
            self.callbacks.call_of.pop(id(future), None)
            call.future = None

    def _watch(self, is_over: threading.Event) -> None:
        probe, looked_s = GilProbe(self._sample), monotonic()
        while not probe.sleep(is_over):
            if monotonic() - looked_s >= WATCH_S:
                self._look()
                looked_s = monotonic()

    def _sample(self, asked_ns: int, waited_ns: int, slept_ns: int) -> None:
        self.sampled(asked_ns, waited_ns, slept_ns)
        if not waited_ns:  # else its thread may have been at work
            self._look_at_pauses(asked_ns)

    def _look(self) -> None:
        self.end_silent_calls()
        self._see_threads()

    def end_silent_calls(self) -> None:
        """Note the end of calls whose answer did not: they failed, or returned a script.

        A call that timed out ended at its time limit; the end of others is known to within WATCH_S.
        """
        for call in list(self._open.values()):
            if (future := call.future) is not None and future.done():
                end_ns = time_ns()
                status, problem = _outcome(future)
                if status == "timed-out":
                    limit_ns = call.issued_ns + round((call.timeout_s or 0.0) * 1e9)
                    # A client whose threads are all blocked notices the timeout later.
                    end_ns = limit_ns if end_ns - limit_ns < 2e9 * WATCH_S else end_ns
                self.ended(call.call_id, end_ns, status, problem)


class _Issuing:
    """The context in which a call is issued: PyTorch's own, and this thread knows the call."""

    def __init__(self, call: OpenCall, inner: AbstractContextManager[Any]) -> None:
        self._call = call
        self._inner = inner

    def __enter__(self) -> Any:
        thread = this_thread()
        self._outer, thread.issuing_to = thread.issuing_to, self._call
        return self._inner.__enter__()

    def __exit__(self, *raised: Any) -> bool | None:
        this_thread().issuing_to = self._outer
        return self._inner.__exit__(*raised)


def _outcome(future: Future[Any]) -> tuple[str, str]:
    """The status of a call whose future is complete, and its error in one line."""
    try:
        future.value()
    except Exception as error:
        return _status(error), error_line(error)
    return "ok", ""


def _status(error: BaseException) -> str:
    return "timed-out" if RPC_TIMEOUT_MARK in str(error) else "raised"
