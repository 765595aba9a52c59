"""Writing files so that a reader never sees half of one."""

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def written_atomically(path: Path) -> Iterator[Path]:
    """Yield a scratch path beside `path`; rename it onto `path` only if the block succeeds.

    The scratch name keeps the suffix of `path`, since writers such as matplotlib choose the
    format by it.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, scratch_name = tempfile.mkstemp(
        dir=path.parent, prefix=f".{path.stem}-", suffix=path.suffix
    )
    os.close(handle)
    scratch = Path(scratch_name)
    try:
        yield scratch
        # mkstemp makes files private; a result is as readable as any file of this person.
        umask = os.umask(0)
        os.umask(umask)
        scratch.chmod(0o666 & ~umask)
        scratch.replace(path)
    finally:
        scratch.unlink(missing_ok=True)
