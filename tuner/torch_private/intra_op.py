"""PyTorch's intra-op threads in this process: those that operators have started.

Standard library only: it runs in the processes of programs, too.
"""

import os
import re
from contextlib import suppress
from pathlib import Path

_OPENMP = re.compile(r"lib(gomp|iomp5|omp)\b")
"""The libraries whose threads compute for PyTorch's operators, and wait for work inside of them."""


def pool_threads() -> set[int]:
    """The kernel's ids of this process's intra-op threads that wait for work now.

    A thread that starts parallel operators has a pool of its own. There is none where no operator
    has run in parallel; nor is any seen where the kernel does not tell where threads wait. Pools
    whose threads have just computed are seen some milliseconds later.
    """
    code = _openmp_code()
    return {thread for thread in _threads() if any(_place(thread) in part for part in code)}


def _threads() -> list[int]:
    return [int(name) for name in os.listdir("/proc/self/task")]  # noqa: PTH208 - no objects


def _openmp_code() -> list[range]:
    """Where the code of the OpenMP runtimes is in this process's memory."""
    found = []
    with suppress(OSError):
        for line in Path("/proc/self/maps").read_text().splitlines():
            # addresses, permissions, offset, device, inode, path
            addresses, permissions, *_, path = [*line.split(maxsplit=5), ""][:6]
            if "x" in permissions and _OPENMP.match(Path(path).name):
                start, end = (int(each, 16) for each in addresses.split("-"))
                found.append(range(start, end))
    return found


def _place(thread: int) -> int:
    """The address at which a thread waits in a system call; -1 if it does not, or is gone."""
    with suppress(OSError, ValueError, IndexError):
        return int(Path(f"/proc/self/task/{thread}/syscall").read_text().split()[8], 16)
    return -1
