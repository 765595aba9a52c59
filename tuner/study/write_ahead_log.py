"""The write-ahead log of a study: each world is on disk before the storage is asked to take it."""

import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import msgspec

from tuner.errors import UsageError
from tuner.files import OWNERS, make_folder, shown, written_atomically
from tuner.study.folder import StudyFolder
from tuner.study.records import Record

_FORMAT = "rpc-tuner unsaved, format 1"
_RESERVE_BYTES = 1 << 20


class WriteAheadLog:
    """The worlds that a study's storage has not taken yet: JSON lines, in a file that holds their
    place, so that a full disk loses nothing. The first line counts them; the rest is from earlier.
    The `database` is the file that has all others; None: a server has them.
    """

    def __init__(self, folder: StudyFolder, study: str, database: Path | None = None) -> None:
        self._folder, self._database = folder, database
        self.has_begun = True  # whether there is a study, which can be gone on with
        self.path = folder.unsaved  # where it is, while there is something in it
        self._head = {"format": _FORMAT, "study": study}
        self._pending: tuple[Record, ...] = ()
        self._bytes = 0
        self._problem: str | None = None

    @property
    def is_lost(self) -> bool:
        """Whether the database is gone, by whoever has removed it or its folder."""
        # Where a folder may not be looked into, nothing is known to be gone.
        return self.has_begun and self._database is not None and not _may_exist(self._database)

    @property
    def kept(self) -> str:
        """What becomes of the measurements while the storage is away, without the end."""
        if not self.has_begun:
            return "The study has not begun, and holds nothing"
        if self.is_lost:
            assert self._database is not None
            return f"{shown(self._database)} is gone, and with it what was measured"
        if self._problem is not None:
            return (
                f"What was measured last cannot be kept in {self.path} either ({self._problem}). "
                "Everything before it is in the storage"
            )
        last = f", the last of it in {self.path}" if self._pending else ""
        return f"Everything measured is kept{last}"

    def going_on(self, when: str) -> str:
        """`kept`, and what goes on with it, and when."""
        when = "If it comes back" if self.is_lost else f"When {when}"
        how = "with --resume continues it" if self.has_begun else "begins it"
        return f"{self.kept}. {when}, the same command {how}"

    @contextmanager
    def reserved(self) -> Iterator[None]:
        """Hold the place for what may have to be kept; a disk that is full already has none."""
        reserve = self._folder.reserve
        with suppress(OSError):
            self._folder.manifest.add(self.path, reserve)
            with reserve.open("wb") as file:
                os.posix_fallocate(file.fileno(), 0, _RESERVE_BYTES)
        try:
            yield
        finally:
            # Of a folder that cannot be written any more, the manifest lists it.
            with suppress(OSError):
                reserve.unlink(missing_ok=True)
                if self._pending and self._problem is None:
                    os.truncate(self.path, self._bytes)

    def append(self, record: Record) -> None:
        """Keep a world until `clear`. Where it cannot be kept, `kept` says why."""
        self._pending = (*self._pending, record)
        self._save()

    def retry(self) -> None:
        """Keep what could not be kept so far."""
        if self._problem is not None:
            self._save()

    def clear(self) -> None:
        """Forget what was kept: the storage has it."""
        self._pending, self._problem = (), None
        with suppress(FileNotFoundError):
            # Its place is that of the next one.
            self.path.replace(self._folder.reserve)

    def discard(self) -> None:
        """Remove what an earlier search kept: the storage has it."""
        self.path.unlink(missing_ok=True)

    def read(self) -> list[Record]:
        """What an earlier search kept and could not write. UsageError if it cannot be read."""
        try:
            lines = self.path.read_bytes().split(b"\n")
        except FileNotFoundError:
            return []
        except OSError as error:
            raise UsageError(f"cannot read {self.path}: {error.strerror}") from None
        try:
            head = msgspec.json.decode(lines[0])
            worlds = head.pop("worlds")
            if head != self._head:
                raise ValueError("it is of another study or version")
            found = [Record.model_validate_json(line) for line in lines[1 : 1 + worlds]]
            if len(found) < worlds:
                raise ValueError("it was cut off")
            return found
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            reason = str(error).split("\n")[0]
            raise UsageError(
                f"cannot read the measurements in {self.path}: {reason}; remove the file to go on "
                "without them"
            ) from None

    def _save(self) -> None:
        lines = [{**self._head, "worlds": len(self._pending)}]
        lines += [record.model_dump(mode="json") for record in self._pending]
        content = b"".join(msgspec.json.encode(line) + b"\n" for line in lines)
        self._bytes, self._problem = len(content), None
        try:
            if self.is_lost:
                # Whoever has removed the folder does not want it back; or its disk is away.
                raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT))
            make_folder(self._folder.root, OWNERS)
            if (reserve := self._folder.reserve).exists():
                _write_through(reserve, content)
                reserve.replace(self.path)
            else:
                with written_atomically(self.path) as partial:
                    _write_through(partial, content)
        except OSError as error:
            self._problem = error.strerror or str(error)


def _may_exist(path: Path) -> bool:
    try:
        return path.exists()
    except OSError:
        return True


def _write_through(path: Path, content: bytes) -> None:
    """Write onto the disk, over what is in a file, whose blocks stay its own."""
    with path.open("r+b") as file:
        file.write(content)
        file.flush()
        os.fsync(file)
