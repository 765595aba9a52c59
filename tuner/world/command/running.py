"""Runs a program with a configuration, as if nobody stood between it and the terminal."""

import itertools
import os
import signal
import subprocess
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from types import FrameType
from typing import IO, Any

from tuner.errors import UsageError
from tuner.plan.config import Config
from tuner.world.command.order import HookOrder
from tuner.world.command.process_tree import end_tree
from tuner.world.command.reports import ProgramReport, read_reports


@dataclass(frozen=True)
class RunEnd:
    """How a program ended, and what its ranks reported."""

    exit_code: int
    """As a shell tells it: 128 and the signal's number for one that a signal ended."""
    report: ProgramReport


def run_program(
    command: Sequence[str], config: Config, *, roles: Sequence[tuple[str, str]] = ()
) -> RunEnd:
    """Run a command to its end with a configuration put under it; each rank says what it got.

    Args:
        command: The program and its arguments.
        config: The knobs to set; what it does not name stays as the program has it.
        roles: Pairs of a role and a pattern of its RPC names; the first that matches decides.

    Returns:
        The exit code and the reports.

    Raises:
        UsageError: The command cannot be started.
    """
    with tempfile.TemporaryDirectory(prefix="rpc-tuner-") as scratch:
        order = HookOrder(config=config, reports=Path(scratch), roles=roles, say=True)
        with started(command, order) as process:
            code = exit_code(process.wait())
        return RunEnd(code, read_reports(Path(scratch)))


@contextmanager
def started(
    command: Sequence[str],
    order: HookOrder,
    *,
    stdout: IO[Any] | None = None,
    ends_at_second_interrupt: bool = False,
) -> Iterator["subprocess.Popen[bytes]"]:
    """Start a command with the hook in it; until the end of the block, signals go to the command.

    Args:
        command: The program and its arguments.
        order: What its processes are to do.
        stdout: Where its output goes; None: where ours goes.
        ends_at_second_interrupt: Whether a second Ctrl-C kills the command and all that it started.

    Raises:
        UsageError: The command cannot be started.
    """
    kill = partial(end_tree, reports=order.reports) if ends_at_second_interrupt else None
    with _signals_passed_on(kill) as is_started:
        try:
            process = subprocess.Popen(command, env=order.environment(os.environ), stdout=stdout)
        except OSError as error:
            raise UsageError(f"cannot start {command[0]!r}: {error.strerror}") from None
        is_started(process)
        yield process


def exit_code(returned: int) -> int:
    """What a shell says of a process that ended in this way."""
    return 128 - returned if returned < 0 else returned


@contextmanager
def _signals_passed_on(
    kill: Callable[[Sequence[int]], None] | None,
) -> "Iterator[Callable[[subprocess.Popen[bytes]], None]]":
    """Leave Ctrl-C to the program, which the terminal sends it to; pass SIGTERM and SIGHUP on.

    Those that come before the program is known are passed on as soon as it is. `kill` is called
    with its process at the second Ctrl-C.
    """
    known: list[subprocess.Popen[bytes]] = []
    early: list[int] = []

    def pass_on(number: int, frame: FrameType | None) -> None:
        del frame
        if known:
            known[0].send_signal(number)
        else:
            early.append(number)

    def started(process: "subprocess.Popen[bytes]") -> None:
        known.append(process)
        for number in early:
            process.send_signal(number)

    interrupts = itertools.count(1)

    def interrupted(number: int, frame: FrameType | None) -> None:
        del number, frame
        if next(interrupts) > 1 and kill is not None and known:
            kill([known[0].pid])

    before = {signal.SIGINT: signal.signal(signal.SIGINT, interrupted)}
    for number in (signal.SIGTERM, signal.SIGHUP):
        before[number] = signal.signal(number, pass_on)
    try:
        yield started
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
