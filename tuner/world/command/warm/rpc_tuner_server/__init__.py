"""The server behind a warm start, in the program's own interpreter: standard library only."""

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tuner.world import descendants as descendants

# There, this is a package by itself, which has that module of `tuner.world` too.
__path__.append(str(Path(__file__).parents[3]))
