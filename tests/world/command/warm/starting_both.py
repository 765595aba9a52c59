"""Starts one command cold and warm, and compares what comes of it."""

import os
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from tuner.plan.config import Config
from tuner.world.command.order import HookOrder
from tuner.world.command.program_commands import ColdStarter, Starter
from tuner.world.command.warm.warm_starting import Learnt, WarmStarter

PYTHON = sys.executable
A_FEW = Learnt(modules=("decimal", "asyncio", "email.message", "unittest.mock"), environment={})
"""What a program may have imported, without torch: a server of it is there at once."""


@dataclass(frozen=True)
class Ended:
    code: int
    out: str
    err: str


def run_to_end(starter: Starter, environment: Mapping[str, str], timeout_s: float = 120.0) -> Ended:
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        process = starter.start(environment, out.fileno(), err.fileno())
        code = process.wait(timeout_s)
        out.seek(0)
        err.seek(0)
        return Ended(code, out.read().decode(), err.read().decode())


def hooked(reports: Path, **changes: str) -> dict[str, str]:
    """The environment of a program with the hook in it."""
    order = HookOrder(config=Config(()), reports=reports)
    return order.environment({**os.environ, **changes})


def learnt_with(environment: Mapping[str, str], modules: Sequence[str] = A_FEW.modules) -> Learnt:
    """As learnt from a program that leaves its environment alone."""
    from tuner.world.command.hook.rpc_tuner_hook import read_at_import

    return Learnt(modules=tuple(modules), environment=read_at_import(environment))


def both(command: Sequence[str], environment: Mapping[str, str], cwd: Path) -> tuple[Ended, Ended]:
    """How the command ends cold, and how it ends warm."""
    one = run_to_end(ColdStarter(command, cwd), environment)
    with WarmStarter(command, environment, cwd, learnt_with(environment)) as warm:
        run_to_end(warm, environment)  # the second run is like the first
        return one, run_to_end(warm, environment)
