"""How long a thread was ready to run and had no core."""

import os

_STATISTICS_BYTES = 64


class RunQueueClock:
    """The clock of the thread that makes it; only that thread may read it."""

    __slots__ = ("_file",)

    def __init__(self) -> None:
        try:
            self._file = os.open("/proc/thread-self/schedstat", os.O_RDONLY | os.O_CLOEXEC)
        except OSError:
            self._file = -1

    def read(self) -> bytes:
        """A reading, for `waited_ns`; empty where the kernel does not keep it."""
        try:
            return os.pread(self._file, _STATISTICS_BYTES, 0)
        except OSError:
            return b""

    def __del__(self) -> None:
        if self._file >= 0:
            os.close(self._file)


def waited_ns(before: bytes, after: bytes, *, at_most_ns: int) -> int | None:
    """Nanoseconds on the run queue between two readings; None if one of them is empty."""
    if not before or not after:
        return None
    # CPU time, time on the run queue, time slices.
    waited = int(after.split()[1]) - int(before.split()[1])
    return max(0, min(waited, at_most_ns))
