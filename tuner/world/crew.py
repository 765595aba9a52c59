"""The ranks of one world, wherever their processes are: what a launcher gives to the live world."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, Protocol

DIED = "died"
"""The kind of the message that reports the end of a rank's process."""


SPOKEN = ("phase", "failed", "finished", "state", "result")
"""The kinds of what a rank says itself."""


class Message(NamedTuple):
    """A message of one rank, or that its process is gone."""

    rank: int
    content: dict[str, Any]
    """Its `kind` says what it is; `time_ns` is Unix time by one clock for all ranks."""


class RankProcesses(Protocol):
    """The ranks of one world."""

    @property
    def names(self) -> Sequence[str]:
        """Their RPC names, in rank order."""

    @property
    def pids(self) -> Sequence[int | None]:
        """Their process ids, in rank order; None for a rank that is not on rank 0's host."""

    def poll(self, timeout_s: float) -> list[Message]:
        """Every message and every death that comes, once there is one, or the time is over."""

    def send(self, rank: int, message: Mapping[str, object]) -> None:
        """Send a message, unless the rank is gone already."""

    def join(self, timeout_s: float) -> None:
        """Wait until the processes have left by themselves, for so long at most."""

    def dump_stacks(self, ranks: Sequence[int]) -> None:
        """Have these ranks write their threads' stacks, which they do without the GIL."""

    def captured(self) -> Sequence[Path]:
        """Files of what the ranks printed, and of their stacks."""

    def end(self) -> None:
        """Kill what is left of the ranks, and of whatever they started."""
