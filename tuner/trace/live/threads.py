"""What the tracer knows of each thread of its process."""

import os
import threading
from typing import NamedTuple

_STATISTICS_BYTES = 64


class Service(NamedTuple):
    """A call that a thread is serving."""

    call_id: int
    start_ns: int
    """Unix nanoseconds."""


class Thread:
    """One thread; all but `serving` is for itself alone."""

    __slots__ = ("_schedule", "id", "issuing_to", "serving")

    def __init__(self, native_id: int) -> None:
        self.id = native_id
        self.serving: Service | None = None
        self.issuing_to: object = None
        """The call that is being issued."""
        self._schedule: int | None = None

    def read_run_queue(self) -> bytes:
        """How long this thread was ready to run and had no core: a reading, for `waited_ns`.

        Empty where the kernel does not keep it.
        """
        try:
            return os.pread(self._schedule, _STATISTICS_BYTES, 0)  # type: ignore[arg-type]
        except TypeError:
            self._schedule = _open_schedule()
            return self.read_run_queue()
        except OSError:
            return b""

    def __del__(self) -> None:
        if self._schedule is not None and self._schedule >= 0:
            os.close(self._schedule)


_threads: dict[int, Thread] = {}


def this_thread() -> Thread:
    """The same object for as long as the thread lives.

    Not a threading.local: to Python, an RPC thread is another thread in every call that it runs.
    """
    native_id = threading.get_native_id()
    try:
        return _threads[native_id]
    except KeyError:
        return _threads.setdefault(native_id, Thread(native_id))


def serving_threads() -> list[Thread]:
    """The threads that are serving a call."""
    return [thread for thread in list(_threads.values()) if thread.serving is not None]


def forget_threads() -> None:
    """Threads come and go between traces, and the files that tell of them stay open for ever."""
    _threads.clear()


def waited_ns(before: bytes, after: bytes, *, at_most_ns: int) -> int | None:
    """Nanoseconds on the run queue between two readings; None if one of them is empty."""
    if not before or not after:
        return None
    # CPU time, time on the run queue, time slices.
    waited = int(after.split()[1]) - int(before.split()[1])
    return max(0, min(waited, at_most_ns))


def _open_schedule() -> int:
    try:
        return os.open("/proc/thread-self/schedstat", os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return -1
