"""The commands of one run of a program: started, asked whether they have ended, and ended."""

import subprocess
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Protocol

from tuner.world.command.process_tree import end_tree, stop_gently
from tuner.world.command.warm.starting import Started, Starter

REAPED_S = 5.0


class Commands(Protocol):
    """The commands of one run, wherever they run."""

    def start(self, output: int) -> None:
        """Start them; what they print goes to this descriptor. LauncherError if one cannot be."""

    def codes(self) -> tuple[int | None, ...]:
        """The exit code of each; None while it runs, negative for a signal."""

    def stop_gently(self) -> None:
        """Ask them to end, as Ctrl-C and then a shutdown would."""

    def end(self) -> None:
        """Kill what is left of them, and of all that they started."""


class LocalCommands:
    """Commands on this machine.

    Args:
        starters: What starts each of them.
        environment: What they are started with, the hook in it.
        reports: The folder of the hook's order, by which their processes are found.
    """

    def __init__(
        self, starters: Sequence[Starter], environment: Mapping[str, str], reports: Path
    ) -> None:
        self._starters = starters
        self._environment = environment
        self._reports = reports
        self._processes: list[Started] = []

    def start(self, output: int) -> None:
        """See `Commands`."""
        for starter in self._starters:
            self._processes.append(starter.start(self._environment, output, output))

    def codes(self) -> tuple[int | None, ...]:
        """See `Commands`."""
        return tuple(process.poll() for process in self._processes)

    def stop_gently(self) -> None:
        """See `Commands`."""
        stop_gently([process.pid for process in self._processes], lambda: None not in self.codes())

    def end(self) -> None:
        """See `Commands`."""
        end_tree([process.pid for process in self._processes], self._reports)
        for process in self._processes:
            with suppress(subprocess.TimeoutExpired):
                process.wait(REAPED_S)
