"""Ends what a cluster of our own leaves behind: Ray's agents outlive a command that is killed.

It is run by its path, as a process of its own: standard library only.
"""

import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

MARK = "RPC_TUNER_CLUSTER"
"""The environment variable that all processes of a cluster have, with its folder."""
# Ray ends most of its processes itself.
_LEFT_TO_RAY_S = 3.0
_GONE_S = 20.0
_POLL_S = 0.1


@contextmanager
def reaped(folder: Path) -> Iterator[None]:
    """See that nothing is left of the cluster of this folder after the block, nor the folder.

    Args:
        folder: The cluster's own. What is started by `marked` is the cluster.
    """
    command = [sys.executable, "-I", "-S", __file__, str(folder)]
    # Its stdin ends with us, however we end.
    reaper = subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, start_new_session=True
    )
    try:
        yield
    finally:
        reaper.communicate()


@contextmanager
def marked(folder: Path) -> Iterator[None]:
    """Mark what is started within the block as being of the cluster of this folder."""
    os.environ[MARK] = str(folder)
    try:
        yield
    finally:
        os.environ.pop(MARK, None)


def _reap(folder: str) -> None:
    os.read(0, 1)
    patient_until = time.monotonic() + _LEFT_TO_RAY_S
    until = patient_until + _GONE_S
    while (left := list(_left(folder))) and time.monotonic() < until:
        if time.monotonic() >= patient_until:
            for pid in left:
                with suppress(OSError):
                    os.kill(pid, signal.SIGKILL)
        time.sleep(_POLL_S)
    shutil.rmtree(folder, ignore_errors=True)


def _left(folder: str) -> Iterator[int]:
    """The processes of the cluster; one that has ended has no environment and no files any more."""
    ours = (os.getpid(), os.getppid())
    mark = f"{MARK}={folder}".encode()
    inside = f"{Path(folder).resolve()}/"  # a link, such as that of TMPDIR, is in no /proc
    for process in Path("/proc").glob("[0-9]*"):
        if int(process.name) not in ours and (_has(process, mark) or _has_open(process, inside)):
            yield int(process.name)


def _has(process: Path, mark: bytes) -> bool:
    with suppress(OSError):
        return mark in (process / "environ").read_bytes().split(b"\0")
    return False


def _has_open(process: Path, inside: str) -> bool:
    """Whether it has a file with this prefix open.

    Who sets a long title writes over its environment. Ray's agents do, and have their logs open.
    """
    with suppress(OSError):
        for descriptor in (process / "fd").iterdir():
            with suppress(OSError):
                if str(descriptor.readlink()).startswith(inside):
                    return True
    return False


if __name__ == "__main__":
    _reap(sys.argv[1])
