"""The server's end of the calls of one process."""

import time
from collections.abc import Callable
from typing import Any

from tuner.trace.live.recording import ServerSpan
from tuner.trace.live.threads import Service, serving_threads, this_thread, waited_ns


class Server:
    """Records the calls that this process serves, such of an earlier trace too."""

    def __init__(self) -> None:
        # Lists, since they can be added to from any thread without a lock.
        self._arrived: list[int] = []
        self._ended: list[tuple[int, int, int, int, int, bytes, bytes]] = []
        self._done_ns: dict[int, int] = {}

    def serve(
        self, call_id: int, func: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Any:
        """See `wire.ServerEnd.serve`.

        On a server that is short of the GIL every line of this is paid for by all threads.
        """
        self._arrived.append(call_id)
        thread = this_thread()
        outer = thread.serving
        before = thread.read_run_queue()
        start_ns = time.time_ns()
        thread.serving = Service(call_id, start_ns)
        cpu_ns = time.thread_time_ns()
        try:
            return func(*args, **kwargs)
        finally:
            cpu_ns = time.thread_time_ns() - cpu_ns
            end_ns = time.time_ns()
            after = thread.read_run_queue()
            self._ended.append((call_id, thread.id, start_ns, end_ns, cpu_ns, before, after))
            thread.serving = outer

    def done(self, call_id: int) -> None:
        """See `wire.ServerEnd.done`."""
        self._done_ns[call_id] = time.time_ns()

    @property
    def pending(self) -> int:
        """Calls that are being served."""
        return len(serving_threads())

    @property
    def arrived(self) -> list[int]:
        """The id of each request that arrived, counted before anything of it ran."""
        return list(self._arrived)

    @property
    def done_ns(self) -> dict[int, int]:
        """When the future of each served `async_execution` call was complete."""
        return dict(self._done_ns)

    def spans(self) -> list[ServerSpan]:
        """All calls served; those under way come last, without an end."""
        running = [(thread.id, thread.serving) for thread in serving_threads()]
        ended = [_span(*span) for span in self._ended]
        return ended + [
            ServerSpan(service.call_id, thread, service.start_ns, None, None, None)
            for thread, service in running
            if service is not None
        ]


def _span(
    call_id: int, thread: int, start_ns: int, end_ns: int, cpu_ns: int, before: bytes, after: bytes
) -> ServerSpan:
    # The run queue is read just outside the span, and so may be what it tells.
    run_queue_ns = waited_ns(before, after, at_most_ns=end_ns - start_ns - cpu_ns)
    return ServerSpan(call_id, thread, start_ns, end_ns, cpu_ns, run_queue_ns)
