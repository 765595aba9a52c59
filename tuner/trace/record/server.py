"""The server's end of the calls of one process."""

from collections.abc import Callable
from os import pread
from time import thread_time_ns, time_ns
from typing import Any

from tuner.torch_private.answers import answer_of, is_script
from tuner.trace.model.spans import ServerSpan
from tuner.trace.record.threads import SCHEDULE_BYTES, serving_threads, this_thread, waited_ns
from tuner.trace.record.wire import Answer

# The run queue is not read for less time than this off the CPU.
NEGLIGIBLE_NS = 20_000

Ended = tuple[int, int, int, int, bytes, bytes, int]
"""A served call: its id, thread, start, CPU time, the thread's `schedule` twice, and its end."""


class Server:
    """Records the calls that this process serves, also late ones of an earlier trace."""

    def __init__(self) -> None:
        # Lists, since they can be added to from any thread without a lock. What adds to them is an
        # attribute: a method of ours would cost more than all it does.
        self.arrivals: list[int] = []
        """The id of each request, added when it is unpickled: see `wire`."""
        self._ended: list[Ended] = []
        self._done_ns: dict[int, int] = {}
        self.arrived: Callable[[int], None] = self.arrivals.append
        """See `wire.ServerEnd.arrived`."""
        self._note: Callable[[Ended], None] = self._ended.append

    def serve(
        self, call_id: int, func: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Any:
        """See `wire.ServerEnd.serve`.

        On a server short of the GIL, every line of this slows all threads.
        """
        thread = this_thread()
        outer = thread.serving
        schedule = thread.schedule or thread.open_schedule()
        before = pread(schedule, SCHEDULE_BYTES, 0)
        start_ns = time_ns()
        thread.serving = (call_id, start_ns)
        cpu_ns = thread_time_ns()
        try:
            return func(*args, **kwargs)
        finally:
            cpu_ns = thread_time_ns() - cpu_ns
            end_ns = time_ns()
            off_cpu = end_ns - start_ns - cpu_ns > NEGLIGIBLE_NS
            after = pread(schedule, SCHEDULE_BYTES, 0) if off_cpu else before
            self._note((call_id, thread.id, start_ns, cpu_ns, before, after, end_ns))
            thread.serving = outer

    def answer(
        self, call_id: int, func: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Any:
        """See `wire.ServerEnd.answer`."""
        try:
            value = self.serve(call_id, func, args, kwargs)
        except Exception as error:
            value = answer_of(error)
        # PyTorch pickles a script only if it is not part of another object.
        return value if is_script(value) else Answer(call_id, value)

    def done(self, call_id: int) -> None:
        """See `wire.ServerEnd.done`."""
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
        ended = [_span(*span) for span in list(self._ended)]
        over = {span.call_id for span in ended}  # some of the running ones ended in between
        return ended + [
            ServerSpan(serving[0], thread, serving[1], None, None, None)
            for thread, serving in running
            if serving is not None and serving[0] not in over
        ]


def _span(
    call_id: int, thread: int, start_ns: int, cpu_ns: int, before: bytes, after: bytes, end_ns: int
) -> ServerSpan:
    # The run queue is read just outside the span, so it may exceed it.
    run_queue_ns = waited_ns(before, after, at_most_ns=end_ns - start_ns - cpu_ns)
    return ServerSpan(call_id, thread, start_ns, end_ns, cpu_ns, run_queue_ns)
