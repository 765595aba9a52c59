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
from collections.abc import Sequence
from pathlib import Path
from typing import Self

_CLONE_NEWUSER = 0x10000000
_CLONE_NEWNET = 0x40000000
_GET_FLAGS, _SET_FLAGS = 0x8913, 0x8914
_UP = 0x1
_KINDS = ("user", "net")
"""The namespaces to join, in this order."""
_PR_SET_DUMPABLE = 4
_READY = b"ready\n"
# It takes milliseconds; without one, worlds run in the machine's network.
_START_S = 30.0
_OURSELVES = (sys.executable, "-I", "-S", __file__)


class OwnNetwork:
    """A network namespace, loopback up. The context manager does nothing where none is allowed.

    Files that are open in this process keep it. A process in there is what others can join: these
    files are hidden from children with fewer rights.
    """

    def __init__(self) -> None:
        self._files: Sequence[int] = ()
        self._holder: subprocess.Popen[bytes] | None = None

    @property
    def prefix(self) -> list[str]:
        """What goes before a command to run it in there, and becomes the command; empty where
        namespaces are not allowed. It is for now: the process to join may be another one later."""
        return [*_OURSELVES, "join", *places] if (places := self.places) else []

    @property
    def places(self) -> tuple[str, ...]:
        """The paths of its namespaces, for `join` and for now; empty where none are allowed."""
        if self._holder is not None and self._holder.poll() is not None:  # somebody has killed it
            self._end_holder()
            self._hold("hold", *map(str, self._files))
        if self._holder is None:
            return ()
        return tuple(f"/proc/{self._holder.pid}/ns/{kind}" for kind in _KINDS)

    def leave(self) -> None:
        """Give it up: from now on the prefix is empty."""
        self._end_holder()
        for number in self._files:
            os.close(number)
        self._files = ()

    def _hold(self, *how: str) -> None:
        try:
            self._holder = subprocess.Popen(
                [*_OURSELVES, *how], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL, start_new_session=True, pass_fds=self._files,
            )  # fmt: skip
        except OSError:
            return
        stdout = self._holder.stdout
        assert stdout is not None
        is_answered = bool(select.select([stdout], [], [], _START_S)[0])
        if not is_answered or stdout.readline() != _READY:
            self._end_holder()

    def _end_holder(self) -> None:
        if self._holder is not None:
            self._holder.kill()
            self._holder.communicate()
            self._holder = None

    def __enter__(self) -> Self:
        self._hold("make")
        self._files = _opened(self.places)
        if not self._files:
            self.leave()
        return self

    def __exit__(self, *ending: object) -> None:
        self.leave()


def _opened(places: Sequence[str]) -> list[int]:
    """Descriptors of all of these files, or of none."""
    opened: list[int] = []
    try:
        for place in places:
            opened.append(os.open(place, os.O_RDONLY | os.O_CLOEXEC))  # noqa: PERF401 - kept if one fails
    except OSError:
        for number in opened:
            os.close(number)
        return []
    return opened


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


def join(places: Sequence[str]) -> None:
    """Move the calling process, which has one thread, into the namespaces at these `places`.
    OSError if they are gone, or this is not allowed."""
    libc = ctypes.CDLL(None, use_errno=True)
    # All of them first: from another user namespace not every process can be seen.
    files = [os.open(place, os.O_RDONLY | os.O_CLOEXEC) for place in places]
    for kind, number in zip(_KINDS, files, strict=True):
        if not os.path.samestat(os.fstat(number), os.stat(f"/proc/self/ns/{kind}")):  # noqa: PTH116
            _check(libc.setns(number, 0))
        os.close(number)
    # The kernel may forbid peers to read the memory of a process whose rights changed: RPC does.
    libc.prctl(_PR_SET_DUMPABLE, 1, 0, 0, 0)


def _check(result: int) -> None:
    if result != 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))


if __name__ == "__main__":
    try:
        if sys.argv[1] == "join":
            command = 2 + len(_KINDS)
            join(sys.argv[2:command])
            os.execvp(sys.argv[command], sys.argv[command:])
        if sys.argv[1] == "hold":
            join([f"/proc/self/fd/{number}" for number in sys.argv[2:]])
        else:
            move_into_new()
        os.write(1, _READY)
        os.read(0, 1)  # until its end
    except OSError as error:
        sys.exit(f"{' '.join(sys.argv[1:])}: {error.strerror}")
