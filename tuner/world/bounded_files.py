"""What processes print, bounded: the head and the tail of files that may grow without end."""

import ctypes
import os
from contextlib import suppress
from pathlib import Path

# Of what one rank printed on one stream, in bytes; a world keeps no more of it.
MOST_KEPT = 512 * 1024
_KEEP_SIZE_AND_PUNCH_HOLE = 3

_libc = ctypes.CDLL(None, use_errno=True)


def head_and_tail(file: Path, most: int = MOST_KEPT) -> bytes:
    """The content of a file, of a long one its two ends, and how much is left out between them.

    Args:
        file: The file; a process may still write to it.
        most: The most bytes of it, beside the line that says what is left out.
    """
    with file.open("rb") as content:
        size = os.fstat(content.fileno()).st_size
        if size <= most:
            return content.read(most)
        head = content.read(most // 2)
        content.seek(size - (most - most // 2))
        tail = content.read(most - most // 2)
    left_out = f"\n[... {size - most:,} bytes are left out here ...]\n"
    return head + left_out.encode() + tail


def give_up_middle(file: Path, kept: int = MOST_KEPT) -> None:
    """Give the disk back what no `head_and_tail` of a file needs, once it is eight times as long.

    Its length stays, so that whoever writes to it goes on where they are. Nothing happens where
    the file system cannot do it.

    Args:
        file: The file; a process may still write to it.
        kept: How many bytes `head_and_tail` may be asked for.
    """
    with suppress(OSError):
        if file.stat().st_blocks * 512 <= 8 * kept:
            return
        block = 4096
        descriptor = os.open(file, os.O_WRONLY)
        try:
            length = os.fstat(descriptor).st_size - 2 * kept
            _libc.fallocate(
                descriptor,
                _KEEP_SIZE_AND_PUNCH_HOLE,
                ctypes.c_long(kept // block * block),
                ctypes.c_long(max(block, length // block * block)),
            )
        finally:
            os.close(descriptor)
