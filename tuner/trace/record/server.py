"""The server's end of the calls of one process."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from functools import partial
from itertools import starmap
from os import pread
from time import thread_time_ns, time_ns
from types import MappingProxyType
from typing import Any

from tuner.torch_private.answers import hooked_answers, is_future, is_script
from tuner.trace.model.spans import ServerSpan
from tuner.trace.record.threads import SCHEDULE_BYTES, serving_threads, this_thread, waited_ns
from tuner.trace.record.wire import Answer, answered

# The run queue is not read for less time than this off the CPU.
NEGLIGIBLE_NS = 20_000
# It is not noted that an answer took less time than this to pickle.
QUICKLY_PICKLED_NS = 50_000

Ended = tuple[int, int, int, int, bytes, bytes, int]
"""A served call: its id, thread, start, CPU time, the thread's `schedule` twice, and its end."""
_UNKNOWN_ERROR = "BaseException"
"""The error of a function that raised what PyTorch does not catch, such as SystemExit."""


class _Running:
    """A served function that runs on this thread.

    On a server short of the GIL, every line of this slows all threads.
    """

    __slots__ = (
        "_before", "_cpu_ns", "_outer", "_server", "answers_plainly", "call_id", "end_ns",
        "start_ns", "thread",
    )  # fmt: skip

    def __init__(self, server: "Server", call_id: int, answers_plainly: bool) -> None:
        self._server = server
        self.call_id = call_id
        self.answers_plainly = answers_plainly
        self.end_ns = 0
        self.thread = thread = this_thread()
        schedule = thread.schedule or thread.open_schedule()
        self._before = pread(schedule, SCHEDULE_BYTES, 0)
        self._outer, thread.serving, thread.raising = thread.serving, self, None
        self.start_ns = time_ns()
        self._cpu_ns = thread_time_ns()

    def returned(self, value: Any) -> Any:
        """The function has returned a value; returns what PyTorch answers with."""
        self.ended()
        if not self.answers_plainly:
            if is_future(value):
                value.add_done_callback(lambda _: self._server.done(self.call_id))
            return value
        # PyTorch pickles a script only if it is not part of another object.
        return value if is_script(value) else Answer(self.call_id, value, self._pickled)

    def ended(self) -> None:
        """The function has left the thread."""
        cpu_ns = thread_time_ns() - self._cpu_ns
        self.end_ns = end_ns = time_ns()
        thread, after = self.thread, self._before
        if end_ns - self.start_ns - cpu_ns > NEGLIGIBLE_NS:
            after = pread(thread.schedule or thread.open_schedule(), SCHEDULE_BYTES, 0)
        self._server.note(
            (self.call_id, thread.id, self.start_ns, cpu_ns, self._before, after, end_ns)
        )
        thread.serving = self._outer

    def raised(self) -> None:
        """The function has left the thread without a value."""
        self.ended()
        self._server.raised(self.call_id, _UNKNOWN_ERROR)
        self.thread.raising = self

    def _pickled(self) -> None:
        now_ns = time_ns()
        if now_ns - self.end_ns >= QUICKLY_PICKLED_NS:
            self._server.answered(self.call_id, now_ns)


class _Left:
    """Goes when the function has left the thread, however it did."""

    __slots__ = ("_running",)

    def __init__(self, running: _Running) -> None:
        self._running = running

    def __del__(self) -> None:
        if not self._running.end_ns:
            self._running.raised()


class Arrived:
    """What PyTorch runs in place of the program's PythonUDF.

    PyTorch takes `func`, `args` and `kwargs` of it, one after another, for the call. They are such
    that C calls the program's function: while that runs, no frame of ours is on the stack, and so
    none in a traceback or a warning.
    """

    __slots__ = ("_answers_plainly", "_call_id", "_server", "_udf")
    func = next
    kwargs: Mapping[str, Any] = MappingProxyType({})

    def __init__(self, server: "Server", call_id: int, udf: Any, answers_plainly: bool) -> None:
        self._server = server
        self._call_id = call_id
        self._udf = udf
        self._answers_plainly = answers_plainly

    @property
    def args(self) -> tuple[Iterator[Any]]:
        """An iterator, whose only item is what the function returns."""
        udf = self._udf
        func = partial(udf.func, **udf.kwargs) if udf.kwargs else udf.func
        running = _Running(self._server, self._call_id, self._answers_plainly)
        # The second item is never asked for.
        calls: tuple[Any, ...] = (udf.args, _Left(running))
        return (map(running.returned, starmap(func, calls)),)


class Server:
    """Records the calls that this process serves, also late ones of an earlier trace."""

    def __init__(self) -> None:
        # Lists, since they can be added to from any thread without a lock. What adds to them is an
        # attribute: a method of ours would cost more than all it does.
        self.arrivals: list[int] = []
        """The id of each request, added when it is unpickled: see `wire`."""
        self._ended: list[Ended] = []
        self._errors: dict[int, str] = {}
        self._done_ns: dict[int, int] = {}
        self._answered_ns: dict[int, int] = {}
        self._hooks = ExitStack()
        self.note: Callable[[Ended], None] = self._ended.append
        """Keeps a call that has left its thread."""

    def start(self) -> None:
        """Record the calls that this process serves."""
        self._hooks.enter_context(hooked_answers(self._named_error, _reduced))

    def stop(self) -> None:
        """Record no further call, but for the ends of those that have arrived."""
        self._hooks.close()

    def arrived(self, call_id: int, udf: Any, *, answers_plainly: bool) -> Arrived:
        """See `wire.ServerEnd.arrived`."""
        self.arrivals.append(call_id)
        return Arrived(self, call_id, udf, answers_plainly)

    def raised(self, call_id: int, error: str) -> None:
        """A function has raised an error, in one line; it may be known more exactly later."""
        self._errors[call_id] = error

    def answered(self, call_id: int, time_ns: int) -> None:
        """The answer to a call is pickled."""
        self._answered_ns[call_id] = time_ns

    def done(self, call_id: int) -> None:
        """The future of a served `async_execution` call is complete."""
        self._done_ns[call_id] = time_ns()

    @property
    def pending(self) -> int:
        """How many calls are being served."""
        return len(serving_threads())

    @property
    def done_ns(self) -> dict[int, int]:
        """When the future of each served `async_execution` call was complete."""
        return dict(self._done_ns)

    def spans(self) -> list[ServerSpan]:
        """All calls served; calls under way come last and have no end."""
        running = [(thread.id, thread.serving) for thread in serving_threads()]
        ended = list(map(self._span, list(self._ended)))
        over = {span.call_id for span in ended}  # some of the running ones ended in between
        return ended + [
            ServerSpan(serving.call_id, thread, serving.start_ns, None, None, None)
            for thread, serving in running
            if serving is not None and serving.call_id not in over
        ]

    def _span(self, ended: Ended) -> ServerSpan:
        call_id, thread, start_ns, cpu_ns, before, after, end_ns = ended
        # The run queue is read just outside the span, so it may exceed it.
        run_queue_ns = waited_ns(before, after, at_most_ns=end_ns - start_ns - cpu_ns)
        answered_ns, error = self._answered_ns.get(call_id), self._errors.get(call_id, "")
        return ServerSpan(
            call_id, thread, start_ns, end_ns, cpu_ns, run_queue_ns, answered_ns, error
        )

    def _named_error(self, error: str) -> None:
        """The function that this thread has just left raised this, in one line."""
        thread = this_thread()
        running, thread.raising = thread.raising, None
        if running is not None:
            self.raised(running.call_id, error)
            if running.answers_plainly:
                thread.answering = running.call_id


def _reduced(answer: Any) -> tuple[Any, ...] | None:
    """How to pickle the answer to the call that has raised on this thread; None for others."""
    thread = this_thread()
    call_id, thread.answering = thread.answering, None
    return None if call_id is None else answered(call_id, answer)
