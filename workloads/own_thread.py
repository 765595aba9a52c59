"""A thread of a process's own, beside those of RPC.

Work that waits for calls would block a thread of RPC, which is needed to complete those calls:
with one thread a deadlock. A program's main thread has no such trouble; this stands for it.
"""

import threading
from collections.abc import Callable
from queue import SimpleQueue
from typing import Any

from torch.futures import Future

Work = tuple[Future[Any], Callable[..., Any], tuple[Any, ...]]


class OwnThread:
    """Runs what it is given, in order, until it is closed."""

    def __init__(self) -> None:
        self._work: SimpleQueue[Work | None] = SimpleQueue()
        self._thread = threading.Thread(target=self._run, name="own work", daemon=True)
        self._thread.start()

    def submit(self, func: Callable[..., Any], *args: Any) -> Future[Any]:
        """Run it after what was submitted before; the future of what it gives.

        Where it raises, the future raises RuntimeError, with the traceback as its message.
        As an `async_execution` function's answer the future answers the call.
        """
        future: Future[Any] = Future()
        self._work.put((future, func, args))
        # RPC answers what `set_exception` has set as a result; what a callback raises, as an error.
        return future.then(Future.wait)

    def close(self) -> None:
        """End the thread, once it has done what was submitted."""
        self._work.put(None)
        self._thread.join()

    def _run(self) -> None:
        while (work := self._work.get()) is not None:
            future, func, args = work
            try:
                result = func(*args)
            except Exception as error:
                future.set_exception(error)
            else:
                future.set_result(result)
