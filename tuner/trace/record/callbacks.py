"""The callbacks that this process adds to futures, on whatever thread they run."""

import itertools
from collections.abc import Callable
from os import pread
from threading import get_ident
from time import thread_time_ns, time_ns
from typing import NamedTuple

from tuner.torch_private.callbacks import Noted, Running, name_of
from tuner.trace.model.spans import CallbackSpan
from tuner.trace.record.journal import CALLBACK, NOTHING, InMemory, Records, callback_span
from tuner.trace.record.threads import (
    NEGLIGIBLE_NS,
    SCHEDULE_BYTES,
    Thread,
    agent_thread,
    agent_threads,
    this_thread,
    threads,
    waited_ns,
)

_numbers = itertools.count()
_pack = CALLBACK.pack


class Begun(NamedTuple):
    """A callback that runs: what its thread keeps."""

    recorder: "Callbacks"
    number: int
    text: int
    """The number of its name."""
    call_id: int | None
    holds_thread: bool
    thread: Thread
    before: bytes
    """The thread's `schedule`."""
    start_ns: int
    began_cpu_ns: int
    outer: "Begun | None"
    """The callback that this thread ran before, and has not left."""

    def record(self, cpu_ns: int, run_queue_ns: int | None, end_ns: int) -> bytes:
        """What is kept of it."""
        return _pack(
            self.number, self.text, NOTHING if self.call_id is None else self.call_id,
            self.holds_thread, self.thread.id, self.start_ns, cpu_ns,
            NOTHING if run_queue_ns is None else run_queue_ns, end_ns,
        )  # fmt: skip


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
        # By Python's identity of a thread, which takes no system call to get.
        self._completed: dict[int, int] = {}

    def completed(self, call_id: int) -> None:
        """This thread is about to complete the future of a call, and then runs its callbacks."""
        self._completed[get_ident()] = call_id

    def began(self, noted: Noted, holds_thread: bool) -> Callable[..., object]:
        """A callback begins on this thread; returns what to call."""
        if not self.is_recording:
            function: Callable[..., object] = noted.function
            return function
        ident, call_id = get_ident(), noted.call_id
        if holds_thread:
            thread = agent_threads.get(ident) or agent_thread()
            # A future that follows from others, such as what `then` returns.
            call_id = self._completed.get(ident) if call_id is None else call_id
            if call_id is not None:
                self._completed[ident] = call_id
        else:
            thread = this_thread()
            if call_id is None and thread.callback is not None:
                call_id = thread.callback.call_id
        running = Running(noted.function)
        running.begun = thread.callback = Begun(
            self, next(_numbers), self._text(name_of(noted.function)), call_id, holds_thread,
            thread, pread(thread.schedule or thread.open_schedule(), SCHEDULE_BYTES, 0),
            time_ns(), thread_time_ns(), thread.callback,
        )  # fmt: skip
        return running

    def ended(self, begun: Begun) -> None:
        """A callback has ended on this thread."""
        thread, start_ns = begun.thread, begun.start_ns
        cpu_ns = thread_time_ns() - begun.began_cpu_ns
        end_ns = time_ns()
        run_queue_ns = 0 if begun.before else None
        if (off_ns := end_ns - start_ns - cpu_ns) > NEGLIGIBLE_NS:
            after = pread(thread.schedule or thread.open_schedule(), SCHEDULE_BYTES, 0)
            run_queue_ns = waited_ns(begun.before, after, at_most_ns=off_ns)
        thread.callback = begun.outer
        self._keep(begun.record(cpu_ns, run_queue_ns, end_ns))

    def _keep(self, record: bytes) -> None:
        try:
            self._records.write(record)
        except ValueError:
            self._records.write_on(record)

    def note_running(self, began_ns: int, began_before_ns: int) -> None:
        """Keep the callbacks that run and began in this span of time, without their ends."""
        for thread in list(threads.values()):
            begun = thread.callback
            while begun is not None:
                if begun.recorder is self and began_ns <= begun.start_ns < began_before_ns:
                    self._keep(begun.record(NOTHING, None, NOTHING))
                begun = begun.outer

    def spans(self) -> list[CallbackSpan]:
        """All callbacks that were recorded in memory; those that run come last, without an end."""
        self.note_running(0, 1 << 62)
        names = {number: name for name, number in self._names.items()}
        found = {each[0]: each for each in map(CALLBACK.unpack, self._in_memory.records)}
        return [callback_span(each, names[each[1]]) for each in found.values()]
