"""The callbacks that this process adds to futures, on whatever thread they run."""

import itertools
from collections.abc import Callable
from functools import partial
from os import pread
from threading import get_ident
from time import thread_time_ns, time_ns
from typing import Any

from tuner.torch_private.callbacks import Noted, Running, name_of
from tuner.trace.model.spans import CallbackSpan
from tuner.trace.record.journal import CALLBACK, NOTHING, InMemory, Records, callback_span
from tuner.trace.record.threads import NEGLIGIBLE_NS, SCHEDULE_BYTES, Thread, this_thread

_numbers = itertools.count()
_pack = CALLBACK.pack
_Begun = tuple[int, int, int, bool, Thread, bytes, int, int]
"""Number, number of its name, call or NOTHING, whether it holds a thread, thread, that one's
`schedule`, and the times at its begin: the clock's and the thread's."""


class Callbacks:
    """Records callbacks; those of `torch_private.callbacks` notify it."""

    def __init__(
        self, records: Records | None = None, text: Callable[[str], int] | None = None
    ) -> None:
        """`records` takes those that have ended, and `text` gives a number for a name; None:
        `spans` returns them."""
        self.call_of: dict[int, int] = {}
        """By the identity of a future that is kept: the call whose answer completes it."""
        self.is_recording = True
        self._in_memory = InMemory()
        self._records = records or self._in_memory
        self._names: dict[str, int] = {}
        self._text = text or (lambda name: self._names.setdefault(name, len(self._names)))
        self._running: dict[int, _Begun] = {}
        # By Python's identity of a thread, which takes no system call to get.
        self._completed: dict[int, int] = {}

    def completed(self, call_id: int) -> None:
        """This thread is about to complete the future of a call, and then runs its callbacks."""
        self._completed[get_ident()] = call_id

    def began(self, noted: Noted, holds_thread: bool) -> Callable[[Any], Any]:
        """A callback begins on this thread; returns what to call."""
        if not self.is_recording:
            function: Callable[[Any], Any] = noted.function
            return function
        thread, call_id = this_thread(), noted.call_id
        if call_id is None:
            # Of a future that follows from others, such as what `then` returns.
            call_id = self._completed.get(get_ident()) if holds_thread else thread.completed_call
        outer, thread.completed_call = thread.completed_call, call_id
        if holds_thread and call_id is not None:
            self._completed[get_ident()] = call_id
        running = Running(noted.function)
        begun = (
            next(_numbers), self._text(name_of(noted.function)),
            NOTHING if call_id is None else call_id, holds_thread, thread,
            pread(thread.schedule or thread.open_schedule(), SCHEDULE_BYTES, 0),
            time_ns(), thread_time_ns(),
        )  # fmt: skip
        self._running[begun[0]] = begun
        running.ended = partial(self._ended, begun, outer)
        return running

    def _ended(self, begun: _Begun, outer: int | None) -> None:
        number, text, call_id, holds_thread, thread, before, start_ns, began_cpu_ns = begun
        cpu_ns = thread_time_ns() - began_cpu_ns
        end_ns = time_ns()
        after = before
        if end_ns - start_ns - cpu_ns > NEGLIGIBLE_NS:
            after = pread(thread.schedule or thread.open_schedule(), SCHEDULE_BYTES, 0)
        thread.completed_call = outer
        del self._running[number]
        self._keep(
            _pack(
                number, text, call_id, holds_thread, thread.id, start_ns, cpu_ns, before, after,
                end_ns,
            )
        )  # fmt: skip

    def _keep(self, record: bytes) -> None:
        try:
            self._records.write(record)
        except ValueError:
            self._records.write_on(record)

    def note_running(self, began_ns: int, began_before_ns: int) -> None:
        """Keep the callbacks that run and began in this span of time, without their ends."""
        for number, text, call_id, holds, thread, _, start_ns, _ in list(self._running.values()):
            if began_ns <= start_ns < began_before_ns:
                self._keep(
                    _pack(number, text, call_id, holds, thread.id, start_ns, 0, b"", b"", NOTHING)
                )

    def spans(self) -> list[CallbackSpan]:
        """All callbacks that were recorded in memory; those that run come last, without an end."""
        self.note_running(0, 1 << 62)
        names = {number: name for name, number in self._names.items()}
        found = {each[0]: each for each in map(CALLBACK.unpack, self._in_memory.records)}
        return [callback_span(each, names[each[1]]) for each in found.values()]
