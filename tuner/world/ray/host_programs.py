"""What runs on a host: the command of a program there, and what its processes report."""

import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import NamedTuple

from tuner.errors import LauncherError
from tuner.files import head_of
from tuner.trace.record.journal import EVERYBODY_READS
from tuner.world.command.order import REQUEST, HookOrder
from tuner.world.command.program_commands import REAPED_S, end_tree, stop_gently
from tuner.world.command.watching import Watch
from tuner.world.environment import MachineState
from tuner.world.machine_reading import MachineReader, MachineReading, machine_between

MOST_PRINTED_BYTES = 1_000_000
"""Of what the command prints on one host so much is passed on."""
_MOST_AT_ONCE = 8_000_000
_MOST_OF_A_FILE = 1 << 28
_NOTES = ".jsonl"
"""How the names of the files end that processes add lines to."""


class News(NamedTuple):
    """What is new on a host since the last exchange."""

    begun_ns: int
    ended_ns: int
    """Unix time by its clock, when the exchange began and ended there."""
    code: int | None
    """The command's exit code; None while it runs."""
    printed: bytes
    notes: Mapping[str, bytes]
    """Whole lines of the processes' reports, by the names of their files."""


@dataclass
class _Command:
    """One run of the command here."""

    process: "subprocess.Popen[bytes]"
    folder: Path
    before: MachineReading
    read: dict[str, int] = field(default_factory=dict)
    """How far each file has been passed on."""
    printed: int = 0
    watch: Watch = field(init=False)

    def __post_init__(self) -> None:
        self.watch = Watch(self.reports)

    @property
    def reports(self) -> Path:
        return self.folder / "reports"


class Programs:
    """The commands that run on this host, by the number of their run."""

    def __init__(self, scratch: Path, machine: MachineReader) -> None:
        self._scratch = scratch
        self._machine = machine
        self._running: dict[int, _Command] = {}

    def start(
        self,
        number: int,
        command: Sequence[str],
        folder: Path,
        order: HookOrder,
        environment: Mapping[str, str],
    ) -> None:
        """Start the command here, with the hook in it and these variables beside the host's.

        Raises:
            LauncherError: It cannot be started.
        """
        own = Path(tempfile.mkdtemp(dir=self._scratch, prefix="program-"))
        reports = own / "reports"
        reports.mkdir()
        if order.recording is not None:
            # All hosts run the same command with the same order.
            (reports / EVERYBODY_READS).touch()
        given = {**os.environ, **environment}
        before = self._machine.read()
        try:
            with (own / "output").open("wb") as output:
                process = subprocess.Popen(
                    list(command),
                    env=replace(order, reports=reports).environment(given),
                    cwd=folder if folder.is_dir() else Path.home(),
                    stdin=subprocess.DEVNULL,
                    stdout=output,
                    stderr=output,
                    start_new_session=True,
                )
        except OSError as error:
            shutil.rmtree(own, ignore_errors=True)
            raise LauncherError(f"cannot start {command[0]!r}: {error.strerror}") from None
        self._running[number] = _Command(process, own, before)

    def exchange(self, number: int, request: str) -> News:
        """Ask the processes what is in `request`, where that is new; what is new here."""
        begun_ns = time.time_ns()
        command = self._running[number]
        asked = command.reports / REQUEST
        if request and (not asked.exists() or asked.read_text() != request):
            partial = asked.with_name("request.partial")
            partial.write_text(request)
            partial.replace(asked)
        # Before what it has left: nothing comes after its end.
        code = command.process.poll()
        command.watch.note_gone()
        notes = {
            path.name: lines
            for path in sorted(command.reports.glob(f"*{_NOTES}"))
            if (lines := _new_lines(command, path))
        }
        printed = self._printed(command)
        return News(begun_ns, time.time_ns(), code, printed, notes)

    def stop_gently(self, number: int) -> None:
        """See `tuner.world.command.program_commands`."""
        process = self._running[number].process
        stop_gently([process.pid], lambda: process.poll() is not None)

    def end(self, number: int) -> None:
        """Kill what is left of the command, and of all that it started."""
        if (command := self._running.get(number)) is not None:
            end_tree([command.process.pid], command.reports)
            with suppress(subprocess.TimeoutExpired):
                command.process.wait(REAPED_S)

    def files(self, number: int) -> dict[str, bytes]:
        """The other files that the processes have left: stacks, and what they recorded."""
        reports = self._running[number].reports
        left = [path for path in reports.iterdir() if path.suffix != _NOTES and path.is_file()]
        return {path.name: head_of(path, _MOST_OF_A_FILE) for path in left if path.name != REQUEST}

    def forget(self, number: int) -> MachineState | None:
        """Remove what a run has left; what the machine did meanwhile, if it ran here."""
        command = self._running.pop(number, None)
        if command is None:
            return None
        shutil.rmtree(command.folder, ignore_errors=True)
        return machine_between(command.before, self._machine.read())

    def leave(self) -> None:
        """End everything."""
        for number in list(self._running):
            self.end(number)
            self.forget(number)

    def _printed(self, command: _Command) -> bytes:
        with (command.folder / "output").open("rb") as file:
            file.seek(command.printed)
            found = file.read(max(0, MOST_PRINTED_BYTES - command.printed))
        command.printed += len(found)
        if found and command.printed >= MOST_PRINTED_BYTES:
            return found + b"\n(more was printed on this host)\n"
        return found


def _new_lines(command: _Command, path: Path) -> bytes:
    """What was added to a file since it was read last, up to its last whole line."""
    start = command.read.get(path.name, 0)
    with path.open("rb") as file:
        file.seek(start)
        found = file.read(_MOST_AT_ONCE)
    whole = found[: found.rfind(b"\n") + 1]
    if len(found) == _MOST_AT_ONCE and not whole:
        whole = found  # no line that anybody reads
    command.read[path.name] = start + len(whole)
    return whole
