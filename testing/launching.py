"""Launches programs that nobody edited, and tells what comes of them."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from testing.known import known
from testing.outcomes import failed, measured
from testing.programs import PROGRAMS as PROGRAMS
from tuner.errors import UsageError
from tuner.plan.config import Config
from tuner.plan.draft import draft_plan
from tuner.world.command.program_launcher import ProgramLauncher
from tuner.world.launcher import WorldOrder
from tuner.world.measurement import Failure, Measurement

PYTHON = sys.executable


class Launched:
    """A launcher with a program, and what it told."""

    def __init__(
        self,
        launcher: ProgramLauncher,
        told: list[str],
        failure_folder: Path | None = None,
        **keys: Any,
    ) -> None:
        self.launcher = launcher
        self.told = told
        draft = draft_plan(keys)
        assert draft.problems == ()
        self.spec = launcher.subject_of(draft, failure_folder)

    def run(self, **order: Any) -> Measurement | Failure:
        given = {"deadline_s": 60.0, **order, "config": Config.from_json(order.get("config", {}))}
        return self.launcher.run(WorldOrder(subject=self.spec, **given))

    def measured(self, **order: Any) -> Measurement:
        return measured(self.run(**order))

    def failed(self, **order: Any) -> Failure:
        return failed(self.run(**order))

    def counted(self) -> int:
        """The calls of a run."""
        return known(self.measured().program).calls


@contextmanager
def launched(*commands: list[str], **keys: Any) -> Iterator[Launched]:
    told: list[str] = []
    with ProgramLauncher(told.append) as launcher:
        yield Launched(launcher, told, programs=[*commands], **keys)


def refused(*commands: list[str], **keys: Any) -> str:
    """What a person is told who wants to tune this."""
    with pytest.raises(UsageError) as error, launched(*commands, **keys):
        pass
    return str(error.value)
