"""PyTorch's intra-op threads in this process: those that operators have started.

Standard library only: it runs in the processes of programs, too.
"""

import os
import re
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

_OPENMP = re.compile(r"lib(gomp|iomp5|omp)\b")
"""The libraries whose threads compute for PyTorch's operators, and wait for work inside of them."""
_TORCHS_OWN = re.compile(r"/torch(/lib|\.libs)/[^/]+$")


def waiting_threads(code: Sequence[range]) -> dict[int, bool]:
    """The threads that wait in a system call now, and whether each does so in this code.

    Where that is `openmp_code`, those that do so are a pool's, or wait for a pool's. A thread that
    starts parallel operators has a pool of its own. None is seen where the kernel does not tell
    where threads wait; those that have just computed are seen some milliseconds later.
    """
    places = {thread: _place(thread) for thread in thread_ids()}
    return {
        thread: any(place in part for part in code)
        for thread, place in places.items()
        if place is not None
    }


def thread_ids() -> list[int]:
    """The kernel's ids of this process's threads."""
    return [int(name) for name in os.listdir("/proc/self/task")]  # noqa: PTH208 - no objects


def openmp_code() -> list[range]:
    """Where the code of the OpenMP runtime of operators is in this process's memory."""
    found, own = [], []
    with suppress(OSError):
        for line in Path("/proc/self/maps").read_text().splitlines():
            # addresses, permissions, offset, device, inode, path
            addresses, permissions, *_, path = [*line.split(maxsplit=5), ""][:6]
            if "x" in permissions and _OPENMP.match(Path(path).name):
                start, end = (int(edge, 16) for edge in addresses.split("-"))
                found.append(range(start, end))
                if _TORCHS_OWN.search(path):
                    own.append(range(start, end))
    # Other packages bring copies of it that compute nothing for operators.
    return own or found


def _place(thread: int) -> int | None:
    """The address at which a thread waits in a system call; None if it does not, or is gone."""
    with suppress(OSError, ValueError, IndexError):
        return int(Path(f"/proc/self/task/{thread}/syscall").read_text().split()[8], 16)
    return None
