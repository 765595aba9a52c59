"""The callbacks that this process adds to futures, on whatever thread they run."""

import itertools
from collections.abc import Callable
from functools import partial
from os import getpid, pread
from sys import _getframe
from threading import Lock, get_ident
from time import thread_time_ns, time_ns
from typing import Any

from tuner.torch_private.callbacks import name_of
from tuner.torch_private.sites import site_of_callback
from tuner.trace.model.spans import CallbackSpan
from tuner.trace.record.journal import CALLBACK, NOTHING, InMemory, Records, callback_span
from tuner.trace.record.threads import (
    NEGLIGIBLE_NS,
    SCHEDULE_BYTES,
    Thread,
    agent_threads,
    this_thread,
    threads,
    waited_ns,
    worker_thread,
)

_numbers = itertools.count()
_pack = CALLBACK.pack


_Begun = tuple[int, int, int, bool, Thread, bytes, int, int, str, Any]
"""A callback that runs: its number, that of its name, its call or NOTHING, whether it holds a
worker thread, its thread, that one's `schedule`, the time by the clock and by the thread's, where
the program had it added if it is not its own, and the callback that this thread ran before and has
not left. A plain tuple takes the least time to make.
"""


class Running(partial[Any]):
    """A callback that runs. C calls the program's function: no frame of ours is below it, and so
    none in a traceback or a warning. The callback has ended once nothing refers to this.

    Every line of this, and of `Noted`, slows the program: most callbacks take a few microseconds.
    """

    recorder: "Callbacks"
    begun: _Begun

    def __del__(self) -> None:
        number, text, call_id, holds_thread, thread, before, start_ns, cpu_ns, _, outer = self.begun
        cpu_ns = thread_time_ns() - cpu_ns
        end_ns = time_ns()
        run_queue_ns = 0 if before else NOTHING
        if before and (off_ns := end_ns - start_ns - cpu_ns) > NEGLIGIBLE_NS:
            after = pread(thread.schedule or thread.open_schedule(), SCHEDULE_BYTES, 0)
            run_queue_ns = waited_ns(before, after, at_most_ns=off_ns) or 0
        thread.callback = outer
        record = _pack(
            number, text, call_id, holds_thread, thread.id, start_ns, cpu_ns, run_queue_ns, end_ns
        )
        records = self.recorder.records
        try:
            records.write(record)
        except ValueError:
            records.write_on(record)


class Noted(tuple[Any, ...]):
    """What PyTorch calls in place of a callback. Its items are the `Callbacks`, the program's
    function, the call whose answer completes the future, None for another future, and where the
    program had it added: see `site_of_callback`."""

    @property
    def __call__(self) -> Callable[..., Any]:
        """The callback begins, and what this returns is called with the future."""
        recorder, function, call_id, site = self
        if not recorder.is_recording or recorder.pid != getpid():
            return function  # type: ignore[no-any-return]
        ident, thread = get_ident(), None
        # A worker thread comes from C++: there is no other Python below.
        if _getframe().f_back is None:
            thread = agent_threads.get(ident) or worker_thread()
        if holds_thread := thread is not None:
            if call_id is None:
                # The future follows from others, as what `then` returns.
                call_id = recorder.by_thread.get(ident, NOTHING)
            else:
                recorder.by_thread[ident] = call_id
        else:
            thread = this_thread()
            if call_id is None:
                call_id = NOTHING if thread.callback is None else thread.callback[2]
        try:
            text = recorder.texts[function.__qualname__]
        except (AttributeError, KeyError):
            text = recorder.text_of(name_of(function))
        running = Running(function)
        running.recorder = recorder
        running.begun = thread.callback = (
            next(_numbers), text, call_id, holds_thread, thread,
            pread(thread.schedule or thread.open_schedule(), SCHEDULE_BYTES, 0), time_ns(),
            thread_time_ns(), site, thread.callback,
        )  # fmt: skip
        return running


class Callbacks:
    """Records the callbacks that are added to futures while it is hooked in."""

    def __init__(
        self, records: Records | None = None, text: Callable[[str], int] | None = None
    ) -> None:
        """`records` takes those that have ended, and `text` gives a number for a name; None:
        `spans` returns them."""
        self.call_of: dict[int, int] = {}
        """By the identity of a future that is kept: the call whose answer completes it."""
        self.is_recording = True
        self.pid = getpid()  # a fork of this process shares its records
        self._in_memory = InMemory()
        self.records = records or self._in_memory
        self.texts: dict[str, int] = {}
        """The numbers of names."""
        self._text = text or (lambda name: len(self.texts))
        self._naming = Lock()
        self.by_thread: dict[int, int] = {}
        """The call that a thread completed last, by Python's identity of the thread."""

    def noted(self, future: Any, function: Callable[..., Any]) -> Noted:
        """What to add to a future in place of a callback."""
        return Noted((self, function, self.call_of.get(id(future)), site_of_callback(function, 3)))

    def completed(self, call_id: int) -> None:
        """This thread is about to complete the future of a call, and then runs its callbacks."""
        self.by_thread[get_ident()] = call_id

    def text_of(self, name: str) -> int:
        """The number of a name."""
        if (text := self.texts.get(name)) is None:
            with self._naming:
                text = self.texts.setdefault(name, self._text(name))
        return text

    def note_running(self, began_ns: int, began_before_ns: int) -> None:
        """Keep the callbacks that run and began in this span of time, without their ends."""
        for thread in list(threads.values()):
            begun: _Begun | None = thread.callback
            while begun is not None:
                number, text, call_id, holds_thread, thread, _, start_ns, _, _, outer = begun
                if began_ns <= start_ns < began_before_ns:
                    times = (thread.id, start_ns, NOTHING, NOTHING, NOTHING)
                    record = _pack(number, text, call_id, holds_thread, *times)
                    try:
                        self.records.write(record)
                    except ValueError:
                        self.records.write_on(record)
                begun = outer

    def spans(self) -> list[CallbackSpan]:
        """All callbacks that were recorded in memory; those that run come last, without an end."""
        self.note_running(0, 1 << 62)
        names = {number: name for name, number in self.texts.items()}
        found = {record[0]: record for record in map(CALLBACK.unpack, self._in_memory.records)}
        return [callback_span(record, names[record[1]]) for record in found.values()]
