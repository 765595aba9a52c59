"""How long a thread was ready to run and had no core."""

import ctypes
import os

# PyDLL keeps the GIL: a reading that gave it up would change the very thing it measures.
_pread = ctypes.PyDLL(None).pread
_pread.argtypes = (ctypes.c_int, ctypes.c_void_p, ctypes.c_size_t, ctypes.c_long)
_pread.restype = ctypes.c_ssize_t
_STATISTICS_BYTES = 64


class RunQueueClock:
    """The clock of the thread that makes it; only that thread may read it."""

    def __init__(self) -> None:
        try:
            self._file = os.open("/proc/thread-self/schedstat", os.O_RDONLY | os.O_CLOEXEC)
        except OSError:
            self._file = -1
        self._buffer = ctypes.create_string_buffer(_STATISTICS_BYTES)
        self._address = ctypes.addressof(self._buffer)

    def read_ns(self) -> int | None:
        """Nanoseconds since the thread began; None where the kernel does not keep it."""
        length = _pread(self._file, self._address, _STATISTICS_BYTES, 0)
        return int(self._buffer.raw[:length].split()[1]) if length > 0 else None

    def __del__(self) -> None:
        if self._file >= 0:
            os.close(self._file)
