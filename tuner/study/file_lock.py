"""A lock file that one process at a time can hold, and that says who holds it."""

import fcntl
import os
import re
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Self

from tuner.errors import UsageError
from tuner.files import OWNERS, make_folder

_ATTEMPTS = 100  # another process writes who it is, or removes an unused lock, in a moment


@dataclass(frozen=True)
class Holder:
    """The process that holds a lock."""

    pid: int
    host: str
    since: str | None = None  # local date and time, to the second

    @classmethod
    def here(cls) -> Self:
        """This process, from now on."""
        return cls(os.getpid(), socket.gethostname(), local_time(datetime.now()))

    @classmethod
    def parse(cls, text: str) -> Self | None:
        """The inverse of `str`; None for anything else."""
        found = re.fullmatch(r"process (\d+) on (\S+?)(?:, since (.+))?", text.strip())
        return cls(int(found[1]), found[2], found[3]) if found else None

    def __str__(self) -> str:
        since = "" if self.since is None else f", since {self.since}"
        return f"process {self.pid} on {self.host}{since}"


def holder_of(path: Path) -> Holder | None:
    """The process on this host that holds the lock on a file; None if none does, or it is gone."""
    with suppress(OSError):
        holder = Holder.parse(path.read_text(errors="replace"))
        if holder is not None and holder.host == socket.gethostname():
            return holder if Path(f"/proc/{holder.pid}").exists() else None
    return None


def local_time(moment: datetime) -> str:
    """A moment as the clock on the wall says it, to the second."""
    return moment.astimezone().replace(tzinfo=None).isoformat(" ", "seconds")


def busy(reason: str, holder: Holder | None) -> UsageError:
    """The refusal of a second search, with who runs the first one, where that is known."""
    busy_by = reason if holder is None else f"{reason}: {holder}"
    return UsageError(
        f"{busy_by}; wait for its end, or give this one another --study: both run then, and "
        "disturb each other's times"
    )


@contextmanager
def locked_file(path: Path, reason: str, *, keep: Callable[[], bool]) -> Iterator[None]:
    """Hold the lock on a file, which is made with its folder, and stays if it is to `keep` then;
    UsageError if it cannot be made, or, for the `reason`, if another process holds the lock."""
    with os.fdopen(_locked(path, reason), "wb", buffering=0) as file:
        try:
            try:
                file.write(str(Holder.here()).encode())
            except OSError as error:  # the disk is full
                raise _not_locked(path, error) from None
            yield
        finally:
            # A folder that can no longer be reached keeps the file, unlocked.
            with suppress(OSError):
                file.truncate(0)
                if not keep():
                    # Whoever has it open already sees that it is no longer at its path.
                    path.unlink(missing_ok=True)


def _locked(path: Path, reason: str) -> int:
    """The open file, once this process holds the lock on it."""
    for _ in range(_ATTEMPTS):
        try:
            make_folder(path.parent, OWNERS)
            file = os.open(path, os.O_RDWR | os.O_CREAT, 0o666 & path.parent.stat().st_mode)
        except FileNotFoundError:
            continue  # its folder was removed meanwhile
        except OSError as error:
            raise _not_locked(path, error) from None
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            holder = _holder(file)
            os.close(file)
            raise busy(reason, holder) from None
        # Where it was removed since it was opened, no other process would see this lock.
        with suppress(FileNotFoundError):
            if os.path.samestat(os.fstat(file), path.stat()):
                os.ftruncate(file, 0)
                return file
        os.close(file)
    raise UsageError(f"cannot lock {path}: it is removed again and again")


def _not_locked(path: Path, error: OSError) -> UsageError:
    return UsageError(f"cannot lock {path}: {error.strerror or error}")


def _holder(file: int) -> Holder | None:
    """Who holds the lock, as that process wrote right after it had it."""
    for _ in range(_ATTEMPTS):
        if holder := Holder.parse(os.pread(file, 1000, 0).decode(errors="replace")):
            return holder
        time.sleep(0.001)
    return None
