"""A small disk of its own, and how it fills."""

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

FILLING = "filling"


@contextmanager
def small_disk(folder: Path, megabytes: int) -> Iterator[Path]:
    """A disk of so many megabytes in a folder; PermissionError if this user may not make one."""
    disk = folder / "disk"
    disk.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", f"size={megabytes}m", "none", str(disk)]
    if subprocess.run(mount, capture_output=True, check=False).returncode != 0:
        raise PermissionError("only root can make a small disk")
    try:
        yield disk
    finally:
        subprocess.run(["umount", "--lazy", disk], check=True)


def fill(disk: Path) -> None:
    """Fill a disk to the last byte."""
    with (disk / FILLING).open("wb", buffering=0) as file:
        for size in (1 << 16, 1 << 12, 1):
            with suppress(OSError):
                while True:
                    file.write(b"\0" * size)
