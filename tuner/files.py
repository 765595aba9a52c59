"""Files written whole or not at all, or read up to a limit; the rights and ends of folders."""

import errno
import os
import re
import shutil
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


# Far beyond a plan, a recommendation or an answer, and nothing to the memory.
MOST_BYTES = 32 << 20


def read_bounded(path: Path) -> bytes:
    """What is in a file. OSError if it cannot be read, or has more than MOST_BYTES bytes."""
    with path.open("rb") as file:
        content = file.read(MOST_BYTES + 1)
    if len(content) > MOST_BYTES:
        raise OSError(errno.EFBIG, f"it has more than {MOST_BYTES >> 20} MB")
    return content


OWNERS = 0o700
"""The mode of a folder that only its owner may look into, as that of a new study."""


def make_folder(folder: Path, mode: int = 0o777) -> None:
    """Make a folder, limited to `mode`, and those above it; each as its parent limits it."""
    missing = [each for each in (folder, *folder.parents) if not each.exists()]
    for each in reversed(missing):
        with suppress(FileExistsError):
            each.mkdir(mode=mode if each == folder else 0o777)
            limit_to_folder(each)


def check_writable(folder: Path) -> None:
    """OSError unless files can be made in a folder, or in the nearest one above it that is there.
    Leaves nothing behind."""
    nearest = next(each for each in (folder, *folder.absolute().parents) if each.exists())
    tempfile.TemporaryFile(dir=nearest).close()


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
    """Yield a scratch path beside `path`; rename it onto `path` only if the block succeeds."""
    make_folder(path.parent)
    # With the suffix of `path`, by which writers such as matplotlib choose the format.
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.stem}-", suffix=path.suffix)
    os.close(handle)
    scratch = Path(name)
    try:
        yield scratch
        # mkstemp makes files private; a result is as readable as any other file of this folder.
        umask = os.umask(0)
        os.umask(umask)
        scratch.chmod(0o666 & ~umask & path.parent.stat().st_mode)
        scratch.replace(path)
    finally:
        scratch.unlink(missing_ok=True)


_SCRATCH = re.compile(r"rpc-tuner-(\d+)\.(\d+)\.(\d+)-")
_BESIDE = "beside"
"""The file in such a folder that names others which go with it, a line for each."""


def own_prefix() -> str:
    """How folders for temporary files of this process are named: its id, start, PID namespace.

    So those of killed commands can be found, and go.
    """
    return f"rpc-tuner-{os.getpid()}.{_started(os.getpid())}.{_namespace()}-"


def note_beside(scratch: Path, folder: Path) -> None:
    """Note a folder that a library has made for this process, for who sweeps what we leave."""
    with (scratch / _BESIDE).open("a") as file:
        file.write(f"{folder}\n")


def sweep() -> None:
    """Remove what commands of this user have left that are gone; others may do so meanwhile.

    Those of another PID namespace stay, such as a container's: from here they all look gone.
    """
    with suppress(OSError):
        for folder in Path(tempfile.gettempdir()).iterdir():
            if (owner := _SCRATCH.match(folder.name)) and _is_ours(folder):
                pid, started, namespace = owner.groups()
                if namespace == _namespace() and _started(int(pid)) != started:
                    _remove(folder)


def _remove(folder: Path) -> None:
    with suppress(OSError):
        for line in (folder / _BESIDE).read_text().splitlines():
            beside = Path(line)
            if beside.parent == folder.parent and beside.name[:5] == "pymp-" and _is_ours(beside):
                shutil.rmtree(beside, ignore_errors=True)
    shutil.rmtree(folder, ignore_errors=True)


def _is_ours(folder: Path) -> bool:
    with suppress(OSError):
        return folder.lstat().st_uid == os.getuid() and folder.is_dir() and not folder.is_symlink()
    return False


def _namespace() -> str:
    """The PID namespace of this process, by its inode; empty where that is not known."""
    try:
        return str(Path("/proc/self/ns/pid").stat().st_ino)
    except OSError:
        return ""


def _started(pid: int) -> str:
    """When a process started, in ticks since the machine did; empty if there is none."""
    try:
        status = Path(f"/proc/{pid}/stat").read_bytes()
    except OSError:
        return ""
    # After the name, which may hold anything.
    return status.rpartition(b")")[2].split()[19].decode()
