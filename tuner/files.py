"""Files written whole or not at all, and read up to a limit; folders that are for their owner."""

import errno
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path


def shown(path: Path) -> str:
    """A path as a person reads it: from the current folder, if it is below that."""
    try:
        return str(path.absolute().relative_to(Path.cwd()))
    except (ValueError, OSError):
        return str(path)


MOST_BYTES = 32 << 20
"""Far beyond a plan, a recommendation or an answer, and nothing to the memory."""


def read_bounded(path: Path) -> bytes:
    """What is in a small file.

    Args:
        path: The file.

    Raises:
        OSError: It cannot be read, or has more than MOST_BYTES bytes.
    """
    with path.open("rb") as file:
        content = file.read(MOST_BYTES + 1)
    if len(content) > MOST_BYTES:
        raise OSError(errno.EFBIG, f"it has more than {MOST_BYTES >> 20} MB")
    return content


OWNERS = 0o700
"""The mode of a folder that only its owner may look into, as that of a new study."""


def make_folder(folder: Path, mode: int = 0o777) -> None:
    """Make a folder, and those above it, unless it is there; each as its parent limits it.

    `mode` limits the folder itself further.
    """
    missing = [each for each in (folder, *folder.parents) if not each.exists()]
    for each in reversed(missing):
        with suppress(FileExistsError):
            each.mkdir(mode=mode if each == folder else 0o777)
            limit_to_folder(each)


def limit_to_folder(path: Path) -> None:
    """Take the rights of others to a file or a folder that they do not have to its folder."""
    now, folders = path.stat().st_mode, path.parent.stat().st_mode
    if (limited := now & (folders | ~0o077)) != now:
        path.chmod(limited & 0o7777)


def head_of(file: Path, most_bytes: int) -> bytes:
    """How a regular file begins; nothing of what is none, or cannot be read."""
    with suppress(OSError, ValueError):
        if file.is_file():
            with file.open("rb") as content:
                return content.read(most_bytes)
    return b""


@contextmanager
def written_atomically(path: Path) -> Iterator[Path]:
    """Yield a scratch path beside `path`; rename it onto `path` only if the block succeeds.

    The scratch name keeps the suffix of `path`, since writers such as matplotlib choose the
    format by it.
    """
    make_folder(path.parent)
    handle, scratch_name = tempfile.mkstemp(
        dir=path.parent, prefix=f".{path.stem}-", suffix=path.suffix
    )
    os.close(handle)
    scratch = Path(scratch_name)
    try:
        yield scratch
        # mkstemp makes files private; a result is as readable as any file of this person that is
        # in this folder.
        umask = os.umask(0)
        os.umask(umask)
        scratch.chmod(0o666 & ~umask & path.parent.stat().st_mode)
        scratch.replace(path)
    finally:
        scratch.unlink(missing_ok=True)
