"""Runs a program with a configuration, as if nobody stood between it and the terminal."""

import os
import signal
import subprocess
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import FrameType

from tuner.errors import UsageError
from tuner.plan.config import Config
from tuner.world.command.order import HookOrder
from tuner.world.command.reports import ProgramReport, read_reports


@dataclass(frozen=True)
class ProgramEnd:
    """How a program ended, and what its ranks reported."""

    exit_code: int
    """As a shell tells it: 128 and the signal's number for one that a signal ended."""
    report: ProgramReport


def run_program(
    command: Sequence[str], config: Config, *, roles: Sequence[tuple[str, str]] = ()
) -> ProgramEnd:
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
        with _signals_passed_on() as started:
            try:
                process = subprocess.Popen(command, env=order.environment(os.environ))
            except OSError as error:
                raise UsageError(f"cannot start {command[0]!r}: {error.strerror}") from None
            started(process)
            code = process.wait()
        return ProgramEnd(128 - code if code < 0 else code, read_reports(Path(scratch)))


@contextmanager
def _signals_passed_on() -> "Iterator[Callable[[subprocess.Popen[bytes]], None]]":
    """Leave Ctrl-C to the program, which the terminal sends it to; pass SIGTERM and SIGHUP on.

    Those that come before the program is known are passed on as soon as it is.
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

    before = {signal.SIGINT: signal.signal(signal.SIGINT, lambda number, frame: None)}
    for number in (signal.SIGTERM, signal.SIGHUP):
        before[number] = signal.signal(number, pass_on)
    try:
        yield started
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
