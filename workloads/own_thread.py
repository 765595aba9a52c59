"""A thread of a process's own, beside the worker threads of RPC.

Work that waits for calls would block a worker thread, which is needed to complete those calls: with
one such thread that is a deadlock. In a program the main thread does such work; this stands for it.
"""

import threading
from collections.abc import Callable
from queue import SimpleQueue
from typing import Any

from torch.futures import Future

Work = tuple[Future[Any], Callable[..., Any], tuple[Any, ...]]


class OwnThread:
    """Runs what is submitted, in order, until it is closed."""

    def __init__(self) -> None:
        self._work: SimpleQueue[Work | None] = SimpleQueue()
        self._thread = threading.Thread(target=self._run, name="own work", daemon=True)
        self._thread.start()

    def submit(self, func: Callable[..., Any], *args: Any) -> Future[Any]:
        """Run `func` after all that was submitted before; returns the future of its result.

        If `func` raises, the future raises RuntimeError, with the traceback as its message. An
        `async_execution` function may return the future as its answer.
        """
        future: Future[Any] = Future()
        self._work.put((future, func, args))
        # RPC would answer an exception that was set as a result; one that a callback raises, it
        # answers as an error.
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
