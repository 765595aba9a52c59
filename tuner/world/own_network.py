"""A network namespace in which worlds run: all ports are free there, and no other process is.

It is run by its path, too, as what holds the namespace and what joins it: standard library only.
"""

import ctypes
import fcntl
import os
import select
import socket
import struct
import subprocess
import sys
from pathlib import Path
from typing import Self

_CLONE_NEWUSER = 0x10000000
_CLONE_NEWNET = 0x40000000
_GET_FLAGS, _SET_FLAGS = 0x8913, 0x8914
_UP = 0x1
_PR_SET_DUMPABLE = 4
_READY = b"ready\n"
# It takes milliseconds; without one, worlds run in the machine's network.
_START_S = 30.0
_OURSELVES = (sys.executable, "-I", "-S", __file__)


class OwnNetwork:
    """A network namespace, loopback up. The context manager does nothing where none is allowed."""

    def __init__(self) -> None:
        self._holder: subprocess.Popen[bytes] | None = None

    @property
    def prefix(self) -> list[str]:
        """What goes before a command to run it in there, and becomes the command; empty where
        namespaces are not allowed."""
        return [] if self._holder is None else [*_OURSELVES, "join", str(self._holder.pid)]

    @property
    def holder(self) -> int | None:
        """The id of the process that holds it, for `join`; None where there is none."""
        if self._holder is not None and self._holder.poll() is not None:  # somebody has killed it
            self.leave()
            self.__enter__()
        return None if self._holder is None else self._holder.pid

    def leave(self) -> None:
        """Give it up: from now on the prefix is empty."""
        if self._holder is not None:
            self._holder.kill()
            self._holder.communicate()
            self._holder = None

    def __enter__(self) -> Self:
        try:
            self._holder = subprocess.Popen(
                [*_OURSELVES, "hold"], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL, start_new_session=True,
            )  # fmt: skip
        except OSError:
            return self
        stdout = self._holder.stdout
        assert stdout is not None
        is_answered = bool(select.select([stdout], [], [], _START_S)[0])
        if not is_answered or stdout.readline() != _READY:
            self.leave()
        return self

    def __exit__(self, *ending: object) -> None:
        self.leave()


def move_into_new() -> None:
    """Move the calling thread, and what it starts, into a new namespace, loopback up. OSError if
    that is not allowed; where it takes a user namespace, only a process of one thread may."""
    libc = ctypes.CDLL(None, use_errno=True)
    user, group = os.getuid(), os.getgid()
    if libc.unshare(_CLONE_NEWNET) != 0:
        # Without privileges it takes a user namespace, too, in which we stay who we are.
        _check(libc.unshare(_CLONE_NEWUSER | _CLONE_NEWNET))
        Path("/proc/self/setgroups").write_text("deny")
        Path("/proc/self/uid_map").write_text(f"{user} {user} 1")
        Path("/proc/self/gid_map").write_text(f"{group} {group} 1")
    with socket.socket() as any_socket:
        loopback = struct.pack("16sH14x", b"lo", 0)
        flags = struct.unpack("16xH14x", fcntl.ioctl(any_socket, _GET_FLAGS, loopback))[0]
        fcntl.ioctl(any_socket, _SET_FLAGS, struct.pack("16sH14x", b"lo", flags | _UP))


def join(holder: int) -> None:
    """Move the calling process, which has one thread, into the namespace of the holder. OSError if
    the holder is gone, or this is not allowed."""
    libc = ctypes.CDLL(None, use_errno=True)
    for kind in ("user", "net"):
        theirs = f"/proc/{holder}/ns/{kind}"
        if os.readlink(theirs) != os.readlink(f"/proc/self/ns/{kind}"):  # noqa: PTH115
            descriptor = os.open(theirs, os.O_RDONLY | os.O_CLOEXEC)
            try:
                _check(libc.setns(descriptor, 0))
            finally:
                os.close(descriptor)
    # The kernel may forbid peers to read the memory of a process whose rights changed: RPC does.
    libc.prctl(_PR_SET_DUMPABLE, 1, 0, 0, 0)


def _check(result: int) -> None:
    if result != 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))


if __name__ == "__main__":
    try:
        if sys.argv[1] == "hold":
            move_into_new()
            os.write(1, _READY)
            os.read(0, 1)  # until its end
        else:
            join(int(sys.argv[2]))
            os.execvp(sys.argv[3], sys.argv[3:])
    except OSError as error:
        sys.exit(f"{' '.join(sys.argv[1:])}: {error.strerror}")
