"""Folders for temporary files that tell whose they are, so that those of killed commands can go."""

import os
import re
import shutil
import tempfile
from contextlib import suppress
from pathlib import Path

_NAME = re.compile(r"rpc-tuner-(\d+)\.(\d+)\.(\d+)-")
_BESIDE = "beside"
"""The file in such a folder that names others which go with it, a line for each."""


def own_prefix() -> str:
    """How the names of this process's folders begin: its id, its start, its PID namespace."""
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
            if (owner := _NAME.match(folder.name)) and _is_ours(folder):
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
