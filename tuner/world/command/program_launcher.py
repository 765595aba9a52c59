"""The launcher of programs: a world is one run of the program's commands on this machine."""

import os
import shutil
import tempfile
import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Self

from tuner.errors import LauncherError
from tuner.files import own_prefix, sweep
from tuner.plan.config import Config
from tuner.plan.draft import PlanDraft
from tuner.plan.program_spec import ProgramRequest, ProgramSpec
from tuner.world.command.discovering import Discovery, TriedRun
from tuner.world.command.judging import is_port_taken
from tuner.world.command.order import HookOrder, RecordingOrder
from tuner.world.command.program_commands import Commands, LocalCommands, Starters, end_tree
from tuner.world.command.program_world import ProgramWorld
from tuner.world.command.running import check_commands
from tuner.world.command.warm.warm_starting import ServerGoneError, learn
from tuner.world.environment import MachineReader
from tuner.world.launcher import Enough, WorldOrder
from tuner.world.measurement import Failure, Measurement

# A port of an earlier run may be held for a while.
PORT_ATTEMPTS = 10
PORT_WAIT_S = 1.0


class ProgramLauncher:
    """Runs a program again and again, warm where that can be.

    Args:
        notify: Gets what a person should know of how the program is run, a sentence each.
        show: Takes what the program prints, as it comes; None: it is not shown.
        isolation: Whether it has a network of its own, where it can have one.
    """

    def __init__(
        self,
        notify: Callable[[str], None] = lambda sentence: None,
        show: Callable[[bytes], None] | None = None,
        *,
        isolation: bool = True,
    ) -> None:
        self._notify = notify
        self._show = show
        self._open = ExitStack()
        self._starters = Starters(notify, isolation=isolation)
        self._scratch: Path | None = None
        self._machine = MachineReader()

    def __enter__(self) -> Self:
        sweep()
        self._scratch = Path(tempfile.mkdtemp(prefix=own_prefix()))
        self._open.callback(shutil.rmtree, self._scratch, ignore_errors=True)
        self._open.enter_context(self._starters)
        return self

    def __exit__(self, *ending: object) -> None:
        if self._scratch is not None:
            # A second Ctrl-C may have cut short the end of a run.
            end_tree([], self._scratch)
        self._open.close()
        self._scratch = None

    @property
    def own_network(self) -> bool:
        """See `Launcher.own_network`."""
        return self._starters.in_own_network

    def subject_of(
        self, draft: PlanDraft, failure_folder: Path | None = None, enough: Enough | None = None
    ) -> ProgramSpec:
        """Run the program a few times as it is: see `Launcher.subject_of`.

        A second run shows whether it can be started warm, and whether its number of calls varies.
        A program that fails once its RPC has begun may go well with other options.

        Raises:
            UsageError: It cannot be tuned; a ProgramFailedError, where a run of it failed.
            LauncherError: The plan has a workload.
        """
        request = draft.program
        if request is None:
            raise LauncherError("this launcher runs programs, and the plan has a workload")
        check_commands(request.commands)
        if failure_folder is not None:
            shutil.rmtree(failure_folder, ignore_errors=True)

        def run_as_it_is(until_s: float, learns: bool) -> TriedRun:
            order = WorldOrder(
                subject=request,
                config=Config.of({}),
                deadline_s=min(until_s - time.monotonic(), draft.measuring.deadline_s),
                failure_folder=failure_folder,
                folder_called=str(failure_folder or ""),
            )
            return self._run(order, learns=learns)

        discovery = Discovery(request, self._starters, run_as_it_is, self._notify, enough)
        return discovery.spec(draft.measuring.longest_start_s)

    def run(self, order: WorldOrder) -> Measurement | Failure:
        """See `Launcher.run`."""
        return self._run(order).outcome

    def _run(self, order: WorldOrder, *, learns: bool = False) -> TriedRun:
        """One run; its trace is written, and what a failure leaves is kept. A run whose port
        another process still has is tried again, and one that is lost with the server that it came
        from, from a new server or cold; all of them end by the deadline."""
        until_s = time.monotonic() + order.deadline_s
        attempts = 0
        while True:
            left_s = until_s - time.monotonic()
            is_last = attempts + 1 == PORT_ATTEMPTS or left_s <= PORT_WAIT_S
            order = replace(order, deadline_s=max(0.0, left_s))
            try:
                tried = self._run_once(order, learns=learns, is_last=is_last)
            except ServerGoneError as error:
                self._starters.start_again(str(error))
                continue
            if is_last or not is_port_taken(tried.end):
                return tried
            attempts += 1
            time.sleep(PORT_WAIT_S)

    def _run_once(self, order: WorldOrder, *, learns: bool, is_last: bool) -> TriedRun:
        if self._scratch is None:
            raise LauncherError("the launcher is used outside its with block")
        request, trace = order.subject, order.trace
        assert isinstance(request, ProgramRequest), "subject_of took no workload"
        with tempfile.TemporaryDirectory(
            dir=self._scratch, prefix="world-", ignore_cleanup_errors=True
        ) as scratch:
            folder = Path(scratch)
            reports = folder / "reports"
            reports.mkdir()
            to_hook = HookOrder(
                config=order.config,
                reports=reports,
                roles=request.role_patterns,
                recording=None if trace is None else RecordingOrder(operators=trace.operators),
                probe=True,
                learn=learns,
                ranks=len(request.ranks) if isinstance(request, ProgramSpec) else None,
            )
            commands = self._commands(request, to_hook)
            world = ProgramWorld(order, commands, folder, self._show, is_last=is_last)
            outcome = world.run()
            return TriedRun(world.end, outcome, learn(reports) if learns else None)

    def _commands(self, request: ProgramRequest, order: HookOrder) -> Commands:
        """What one run runs: here, from what starts the commands on this machine."""
        environment = order.environment(os.environ)
        machine = self._machine.watch()
        return LocalCommands(self._starters.each, environment, order.reports, machine)
