"""Runs a program with a configuration, as if it were started by hand. Standard library only: on the
hosts of a program there may be nothing but torch."""

import os
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import IO, Any

from tuner.errors import UsageError
from tuner.files import own_prefix
from tuner.plan.config import ALL_ROLES, Config
from tuner.text import did_you_mean
from tuner.world.command.order import HookOrder
from tuner.world.command.reports import ProgramReport


@dataclass(frozen=True)
class RunEnd:
    """How a program ended, and what its ranks reported."""

    exit_code: int
    """As a shell has it: 128 and the signal's number for one that a signal ended."""
    report: ProgramReport

    @property
    def notes(self) -> list[str]:
        """What a person has to know of the ranks that this command has started, a sentence each."""
        ranks = self.report.latest
        # torchrun says how many it has started.
        are_all = len(ranks) == 1 or (bool(ranks) and len(ranks) == ranks[0].local_size)
        overridden = [f"{rank.name}: {rank.overridden}" for rank in ranks if rank.overridden]
        if are_all and all(rank.ready_ns is not None for rank in ranks):
            return [*self.report.problems, *overridden]
        return [*self.report.notes("the configuration"), *overridden]

    def unused(self, config: Config) -> list[str]:
        """A sentence for each role that no rank has; none where unknown ranks may have it."""
        known = list(dict.fromkeys(rank.role for rank in self.report.ranks))
        given = dict.fromkeys(dimension.role for dimension, _ in config.items)
        return [
            f"no rank has the role {role!r}, so what is set for it was not used"
            f"{did_you_mean(role, known)}"
            for role in given
            if role not in (ALL_ROLES, *known) and known and not self.report.missing_ranks
        ]


def run_program(
    command: Sequence[str], config: Config, *, roles: Sequence[tuple[str, str]] = ()
) -> RunEnd:
    """Run a command to its end with a configuration put under it; each rank says what it got. For
    the arguments see `HookOrder`. UsageError if the command cannot be started."""
    # Not for --help: sockets take 4 ms to import.
    from tuner.world.command.program_channel import ProgramChannel

    with tempfile.TemporaryDirectory(prefix=own_prefix()) as scratch:
        order = HookOrder(config=config, reports=Path(scratch), roles=roles, say=True)
        with closing(ProgramChannel(order.reports)) as channel:
            with started([command], order) as processes:
                code = exit_code(processes)
            return RunEnd(code, channel.report())


def check_commands(commands: Sequence[Sequence[str]]) -> None:
    """UsageError unless every command can be started; it says what helps."""
    problems = []
    for name, *arguments in commands:
        if shutil.which(name) is not None:
            script = _script_of(name, arguments)
            if script.endswith(".py") and not Path(script).exists():
                problems.append(f"there is no file {script}")
            continue
        why = "is no file, and no command on the PATH"
        if Path(name).is_file():
            how = f"; did you mean python {name}?" if name.endswith(".py") else ""
            why = f"is not executable{how}"
        problems.append(f"{name!r} {why}")
    if problems:
        raise UsageError.about("the program", problems)


def _script_of(name: str, arguments: Sequence[str]) -> str:
    """What Python runs as its script; empty if that is another thing, or is no Python."""
    words = iter(arguments if Path(name).name.startswith("python") else ())
    for word in words:
        if not word.startswith("-"):
            return word
        if word[-1] in "cm" and not word.startswith("--"):
            break
        if word in ("-X", "-W", "--check-hash-based-pycs"):
            next(words, None)
    return ""


@contextmanager
def started(
    commands: Sequence[Sequence[str]],
    order: HookOrder,
    *,
    stdout: IO[Any] | None = None,
    kill: Callable[[Sequence[int]], None] | None = None,
    signals: list[int] | None = None,
) -> Iterator["list[subprocess.Popen[bytes]]"]:
    """Start the commands of one world with the hook in them; UsageError if one cannot be. SIGTERM
    and SIGHUP are passed on to them; Ctrl-C comes to them from the terminal, and the second one
    kills all, by `kill`. `signals` gets the numbers of all that come."""
    check_commands(commands)
    processes: list[subprocess.Popen[bytes]] = []
    came = [] if signals is None else signals

    def pass_on(number: int, frame: FrameType | None) -> None:
        came.append(number)
        if number != signal.SIGINT:
            for process in processes:
                process.send_signal(number)
        elif came.count(number) > 1 and kill is not None and processes:
            kill([process.pid for process in processes])

    numbers = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    before = {number: signal.signal(number, pass_on) for number in numbers}
    try:
        environment = order.environment(os.environ)
        for command in commands:
            try:
                process = subprocess.Popen(command, env=environment, stdout=stdout)
            except OSError as error:
                if kill is not None:
                    kill([process.pid for process in processes])
                raise UsageError(f"cannot start {command[0]!r}: {error.strerror}") from None
            processes.append(process)
            # Those that came before it was known.
            for number in came:
                if number != signal.SIGINT:
                    process.send_signal(number)
        yield processes
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def exit_code(processes: "Sequence[subprocess.Popen[bytes]]") -> int:
    """Wait for the end of all; what a shell says of the first of them that did not end well."""
    codes = [process.wait() for process in processes]
    first = next(filter(None, codes), 0)
    return 128 - first if first < 0 else first
