"""The server's end of the calls of one process."""

import copyreg
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from functools import partial
from itertools import starmap
from os import pread
from threading import get_ident
from time import thread_time_ns, time_ns
from traceback import walk_stack
from typing import Any, NamedTuple

import torch

from tuner.torch_private.answers import Future, ScriptModule, hooked_answers, tensors_sent
from tuner.torch_private.callbacks import add_done_callback
from tuner.trace.model.spans import STOPPED, ServerSpan
from tuner.trace.record.journal import SERVED, InMemory, Records, served_span
from tuner.trace.record.threads import (
    NEGLIGIBLE_NS,
    SCHEDULE_BYTES,
    Thread,
    agent_thread,
    agent_threads,
    this_thread,
    threads,
)
from tuner.trace.record.wire import (
    LONG_REQUESTED,
    MARKED,
    NOW,
    REQUESTED,
    Ends,
    OnTheWay,
    long_received,
    quickly_pickled,
    received,
)

QUICKLY_PICKLED_NS = 50_000  # it is not noted that less time than this was taken to pickle
_QUICKLY_PICKLED = frozenset({type(None), bool, int, float, torch.Tensor})
"""Values of these types always take less."""

_pack = SERVED.pack


class Served(tuple[Any, ...]):
    """What a request is unpickled as, and what PyTorch runs in place of a PythonUDF.

    Its items are the id of the call; whether what the function returns is the answer, else it stays
    here, or is the future of an `async_execution` function; the function; and its arguments with
    its keywords.

    PyTorch takes `func`, `args` and `kwargs` of it, one after another, for the call. They are such
    that C calls the program's function: while that runs, no frame of ours is on the stack, and so
    none in a traceback or a warning. On a server short of the GIL, every line of this, and of what
    it calls, slows all threads; a call of a Python function the most.
    """

    func = next
    kwargs: dict[str, Any] = {}  # noqa: RUF012 - of another type, it takes long to unpack

    @property
    def args(self) -> tuple[Iterator[Any]]:
        """An iterator, whose only item is what the function returns; it begins now."""
        call_id, answers_plainly, func, (args, kwargs) = self
        if kwargs:
            func = partial(func, **kwargs)
        server = Ends.server
        if server is None:
            return (starmap(func, (args,)),)  # it was sent during a trace that has ended
        server.arrivals.append(call_id)
        thread = agent_threads.get(get_ident()) or agent_thread()
        outer = thread.serving
        while outer is not None and not _is_on_the_stack(outer):
            outer(None, STOPPED)
            outer, thread.answering = thread.serving, None
        before = pread(thread.schedule or thread.open_schedule(), SCHEDULE_BYTES, 0)
        thread.serving = serving = partial(
            _left,
            (
                server, call_id, answers_plainly, thread, outer, before, time_ns(),
                thread_time_ns(),
            ),
        )  # fmt: skip
        return (map(serving, starmap(func, (args,))),)


def marked_udf(call_id: int, answers_plainly: bool | tuple[bool, int], udf: Any) -> Any:
    """A pickle that `wire.marked` made is unpickled as this; a long one says when that began."""
    if Ends.server is None:
        return udf
    if isinstance(answers_plainly, tuple):
        answers_plainly, began_ns = answers_plainly
        Ends.server.unpickled(call_id, began_ns)
    return Served((call_id, answers_plainly, udf.func, (udf.args, udf.kwargs)))


def long_request(items: tuple[Any, ...]) -> Served:
    """The same as Served, with the time at which it began to be unpickled before its arguments."""
    call_id, answers_plainly, func, began_ns, arguments = items
    if Ends.server is not None:
        Ends.server.unpickled(call_id, began_ns)
    return Served((call_id, answers_plainly, func, arguments))


copyreg.add_extension(__name__, Served.__name__, REQUESTED)
copyreg.add_extension(__name__, long_request.__name__, LONG_REQUESTED)
copyreg.add_extension(__name__, marked_udf.__name__, MARKED)


class Serving(NamedTuple):
    """What is known of a call that is being served."""

    server: "Server"
    call_id: int
    answers_plainly: bool
    thread: Thread
    outer: "partial[Any] | None"
    """The call that this thread served before, and has not left."""
    before: bytes
    """The thread's `schedule`."""
    start_ns: int
    began_cpu_ns: int


def serving_now() -> list[Serving]:
    """The calls that are being served."""
    found = [thread.serving for thread in list(threads.values())]
    return [Serving(*serving.args[0]) for serving in found if serving is not None]


def _left(serving: tuple[Any, ...], value: Any, error: str = "") -> Any:
    """A function has left its thread with a value, or an error; returns what is answered.

    `serving` has the fields of `Serving`, in that order: that itself takes longer to make.
    """
    server, call_id, answers_plainly, thread, outer, before, start_ns, began_cpu_ns = serving
    cpu_ns = thread_time_ns() - began_cpu_ns
    end_ns = time_ns()
    after = before
    if end_ns - start_ns - cpu_ns > NEGLIGIBLE_NS:
        after = pread(thread.schedule or thread.open_schedule(), SCHEDULE_BYTES, 0)
    record = _pack(call_id, thread.id, start_ns, cpu_ns, before, after, end_ns)
    try:
        server.served.write(record)
    except ValueError:
        server.served.write_on(record)
    thread.serving = outer
    if answers_plainly and type(value) in _QUICKLY_PICKLED and not error:
        thread.answers_quickly = True
        return OnTheWay((received, (call_id, value)))
    if error:
        server.raised(call_id, error)
        thread.answering = (server, call_id, end_ns) if answers_plainly else None
        return None
    if not answers_plainly:
        if isinstance(value, Future):
            add_done_callback(value, lambda _: server.done(call_id))
        return value
    # PyTorch pickles a script only if it is not part of another object.
    if isinstance(value, ScriptModule):
        return value
    ended = starmap(time_ns, ((),)), starmap(_tensors_sent, ((end_ns,),))
    pickled = zip((call_id,), (end_ns,), *ended, strict=False)
    # The fourth are the items of lists: this has none, and is asked for them in the end.
    return OnTheWay((long_received, (NOW, call_id, value), None, filter(server.pickled, pickled)))


def _tensors_sent(began_ns: int) -> tuple[int, int]:
    """See `tensors_sent`; of an answer that was pickled quickly they are not asked for."""
    return tensors_sent() if time_ns() - began_ns >= QUICKLY_PICKLED_NS else (0, 0)


def _is_on_the_stack(serving: "partial[Any]") -> bool:
    """Whether this thread still serves a call: else its end was not noticed."""
    udfs = (frame.f_locals.get("python_udf") for frame, _ in walk_stack(sys._getframe()))
    return any(isinstance(udf, Served) and udf[0] == serving.args[0][1] for udf in udfs)


class Server:
    """Records the calls that this process serves, also late ones of an earlier trace."""

    def __init__(self, served: Records | None = None) -> None:
        """`served` takes the calls that have left their thread; None: `spans` returns them."""
        # Lists, since they can be added to from any thread without a lock.
        self.arrivals: list[int] = []
        """The id of each call that has arrived, noted apart from its span."""
        self._in_memory = InMemory()
        self.served = served or self._in_memory
        self._pickled: list[tuple[int, int, int, tuple[int, int]]] = []
        self.pickled = self._pickled.append
        """Gets a call whose answer is pickled, when its function ended, the time, how many tensors
        are in it, and how many bytes these have."""
        self._unpickled: dict[int, tuple[int, int]] = {}
        self._errors: dict[int, str] = {}
        self.done_ns: dict[int, int] = {}
        """When the future of each served `async_execution` call was complete."""
        self._hooks = ExitStack()

    def start(self) -> None:
        """Record the calls that this process serves."""
        self._hooks.enter_context(
            hooked_answers(_raised, _reduced, _answers_quickly, quickly_pickled)
        )

    def stop(self) -> None:
        """Record no further call, but for the ends of those that have arrived."""
        self._hooks.close()

    def raised(self, call_id: int, error: str) -> None:
        """A function has raised an error, in one line."""
        self._errors[call_id] = error

    def done(self, call_id: int) -> None:
        """The future of a served `async_execution` call is complete."""
        self.done_ns[call_id] = time_ns()

    def unpickled(self, call_id: int, began_ns: int) -> None:
        """A request has been unpickled, which began then."""
        if (now_ns := time_ns()) - began_ns >= QUICKLY_PICKLED_NS:
            self.took_long_to_unpickle(call_id, began_ns, now_ns)

    def took_long_to_unpickle(self, call_id: int, began_ns: int, ended_ns: int) -> None:
        """A request took long to unpickle."""
        self._unpickled[call_id] = began_ns, ended_ns

    def spans(self) -> list[ServerSpan]:
        """All calls served; calls under way come last and have no end."""
        running = serving_now()
        answers = {call_id: facts for call_id, *facts in self.long_pickled()}
        ended = [
            served_span(
                record, answers.get(record[0]), self._unpickled.get(record[0]),
                self._errors.get(record[0], ""),
            )
            for record in map(SERVED.unpack, list(self._in_memory.records))
        ]  # fmt: skip
        over = {span.call_id for span in ended}  # some of the running ones ended in between
        return ended + [
            ServerSpan(serving.call_id, serving.thread.id, serving.start_ns, None, None, None)
            for serving in running
            if serving.call_id not in over
        ]

    def long_pickled(self) -> Iterator[tuple[int, int, int, int]]:
        """The calls whose answers took long to pickle, when they were, how many tensors each has,
        and these tensors' bytes; each call once."""
        count = len(self._pickled)
        for call_id, end_ns, pickled_ns, tensors in self._pickled[:count]:
            if pickled_ns - end_ns >= QUICKLY_PICKLED_NS:
                yield call_id, pickled_ns, *tensors
        del self._pickled[:count]


def _raised(error: str) -> None:
    """The function that this thread has just left raised this, in one line."""
    if (serving := this_thread().serving) is not None:
        serving(None, error)


def _answers_quickly() -> bool:
    """Whether the next answer that this thread sends is one plain value or tensor; asked once."""
    thread = agent_threads.get(get_ident())
    if thread is None or not thread.answers_quickly:
        return False
    thread.answers_quickly = False
    return True


def _reduced(answer: Any) -> tuple[Any, ...] | None:
    """How to pickle the answer to the call that has raised on this thread; None for others."""
    thread = this_thread()
    if thread.answering is None:
        return None
    (server, call_id, end_ns), thread.answering = thread.answering, None
    # Most of the time until now it took to format the traceback.
    server.pickled((call_id, end_ns, time_ns(), (0, 0)))
    return received, (call_id, answer)
