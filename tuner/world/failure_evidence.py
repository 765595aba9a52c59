"""What a failed world leaves: what its processes printed, bounded, and which failures are alike."""

import ctypes
import os
import re
import shutil
from collections.abc import Hashable, Sequence
from contextlib import suppress
from pathlib import Path

from tuner.files import written_atomically
from tuner.json_text import json_of
from tuner.world.launcher import WorldOrder
from tuner.world.measurement import Failure

FORMAT = 2
# Of what one rank printed on one stream, in bytes; a world keeps no more of it.
MOST_KEPT = 512 * 1024
_KEEP_SIZE_AND_PUNCH_HOLE = 3
_libc = ctypes.CDLL(None, use_errno=True)
_EVIDENCE = re.compile(r"; see \S+$")
_NUMBER = re.compile(r"\d[\d.,]*")


def with_evidence(failure: Failure, order: WorldOrder, captured: Sequence[Path]) -> Failure:
    """Keep these files of a failed world, those that are not empty, where its order names a folder.
    The message of what is returned says where to look, or why nothing could be kept."""
    if (folder := order.failure_folder) is None:
        return failure
    where = order.folder_called or f"{folder.parent.name}/{folder.name}"
    kept = failure.model_copy(update={"message": f"{failure.message}; see {where}"})
    facts = kept.model_dump(exclude={"kind"})
    document = {"format": FORMAT, "config": order.config.to_json(), **facts}
    try:
        if order.folder_called:
            shutil.rmtree(folder, ignore_errors=True)
        for file in captured:
            if file.stat().st_size:
                with written_atomically(folder / file.name) as partial:
                    partial.write_bytes(head_and_tail(file))
        with written_atomically(folder / "failure.json") as partial:
            partial.write_bytes(json_of(document, is_indented=True))
    except OSError as error:
        # The disk may be full; the failure is known all the same.
        lost = f"its evidence could not be kept: {error}"
        return failure.model_copy(update={"message": f"{failure.message}; {lost}"})
    return kept


def head_and_tail(file: Path, most: int = MOST_KEPT) -> bytes:
    """The content of a file, which may still grow; of a long one its two ends, `most` bytes in all,
    with a line between them that says how much is left out."""
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
    """Give the disk back what no `head_and_tail` of `kept` bytes needs, once a file is eight times
    as long. Its length stays, so that who writes to it goes on where they are. Nothing happens
    where the file system cannot do it."""
    with suppress(OSError):
        if file.stat().st_blocks * 512 <= 8 * kept:
            return
        block = 4096
        with file.open("r+b") as content:
            length = os.fstat(content.fileno()).st_size - 2 * kept
            _libc.fallocate(
                content.fileno(),
                _KEEP_SIZE_AND_PUNCH_HOLE,
                ctypes.c_long(kept // block * block),
                ctypes.c_long(max(block, length // block * block)),
            )


def failure_signature(kind: str, message: str) -> Hashable:
    """What failures have in common that are alike, by their kind and their message."""
    return kind, _NUMBER.sub("#", without_evidence(message))


def without_evidence(message: str) -> str:
    """A failure's message without the folder of its evidence."""
    return _EVIDENCE.sub("", message)
