"""The server behind a warm start, in the program's own interpreter: standard library only."""

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tuner.world import descendants as descendants
    from tuner.world import socket_channel as socket_channel

# There, this is a package by itself, which has those modules of `tuner.world` too.
__path__.append(str(Path(__file__).parents[3]))
