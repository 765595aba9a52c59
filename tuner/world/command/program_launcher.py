"""The launcher of programs: a world is one run of the program's commands on this machine."""

import os
import shutil
import tempfile
import time
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Self

from tuner.errors import LauncherError, TraceError
from tuner.files import own_prefix, sweep, written_atomically
from tuner.plan.config import Config
from tuner.plan.draft import PlanDraft
from tuner.plan.objectives import Objective
from tuner.plan.program_spec import ProgramRequest, ProgramSpec
from tuner.trace.record.clock import ClockOffset
from tuner.world.command.discovering import Discovery, TriedRun
from tuner.world.command.joining import join_recorded
from tuner.world.command.judging import is_port_taken, outcome_of
from tuner.world.command.order import HookOrder, RecordingOrder
from tuner.world.command.program_commands import Commands, LocalCommands, Starters, end_tree
from tuner.world.command.program_world import ProgramWorld
from tuner.world.command.running import check_commands
from tuner.world.command.warm.warm_starting import ServerGoneError, learn
from tuner.world.environment import MachineReader, MachineState, machine_between
from tuner.world.failure_evidence import with_evidence
from tuner.world.launcher import Enough, TraceOrder, WorldOrder
from tuner.world.measurement import Failure, Measurement

# A port of an earlier run may be held for a while.
PORT_ATTEMPTS = 10
PORT_WAIT_S = 1.0


@dataclass(frozen=True, kw_only=True)
class _Run:
    """A run that is wanted: one of a study's worlds, or one that shows what the program is."""

    request: ProgramRequest
    config: Config
    until_s: float
    """When it is ended, by `time.monotonic`."""
    keep: Callable[..., Failure] | None
    """`with_evidence` for a folder."""
    trace: TraceOrder | None = None
    objective: Objective | None = None
    learn: bool = False


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
        keep = None if failure_folder is None else partial(_keep_alone, failure_folder)

        def run_as_it_is(until_s: float, learn: bool) -> TriedRun:
            until_s = min(until_s, time.monotonic() + draft.measuring.deadline_s)
            as_it_is = Config.of({})
            return self._run(
                _Run(request=request, config=as_it_is, until_s=until_s, keep=keep, learn=learn)
            )

        discovery = Discovery(request, self._starters, run_as_it_is, self._notify, enough)
        return discovery.spec(draft.measuring.longest_start_s)

    def run(self, order: WorldOrder) -> Measurement | Failure:
        """See `Launcher.run`."""
        assert isinstance(order.subject, ProgramSpec), "subject_of took no workload"
        folder = order.failure_folder
        run = _Run(
            request=order.subject,
            config=order.config,
            until_s=time.monotonic() + order.deadline_s,
            trace=order.trace,
            objective=order.objective,
            keep=None if folder is None else partial(with_evidence, folder=folder),
        )
        return self._run(run).outcome

    def _run(self, run: _Run) -> TriedRun:
        """One run; its trace is written, and what a failure leaves is kept.

        A run whose port another process still has is tried again, and one that is lost with the
        server that it came from, from a new server or cold; all of them end by `until_s`.
        """
        attempts = 0
        while True:
            is_last = attempts + 1 == PORT_ATTEMPTS or time.monotonic() + PORT_WAIT_S >= run.until_s
            try:
                tried = self._run_once(run, keeps_taken_port=is_last)
            except ServerGoneError as error:
                self._starters.start_again(str(error))
                continue
            if is_last or not is_port_taken(tried.end):
                return tried
            attempts += 1
            time.sleep(PORT_WAIT_S)

    def _run_once(self, run: _Run, *, keeps_taken_port: bool) -> TriedRun:
        if self._scratch is None:
            raise LauncherError("the launcher is used outside its with block")
        request = run.request
        folder = Path(tempfile.mkdtemp(dir=self._scratch, prefix="world-"))
        reports = folder / "reports"
        reports.mkdir()
        order = HookOrder(
            config=run.config,
            reports=reports,
            roles=request.role_patterns,
            recording=None if run.trace is None else RecordingOrder(operators=run.trace.operators),
            probe=True,
            learn=run.learn,
            ranks=len(request.ranks) if isinstance(request, ProgramSpec) else None,
        )
        commands = self._commands(request, order)
        deadline_s = max(0.0, run.until_s - time.monotonic())
        world = ProgramWorld(
            request, commands, folder, reports, deadline_s=deadline_s, show=self._show
        )
        try:
            machine_since = self._watched(commands)
            end = world.run()
            self._starters.check_servers()
            machine = machine_since()
            outcome = outcome_of(end, request, run.objective)
            if run.trace is not None and isinstance(outcome, Measurement):
                outcome = self._traced(outcome, reports, run.trace)
            is_kept = keeps_taken_port or not is_port_taken(end)
            if isinstance(outcome, Failure) and run.keep is not None and is_kept:
                files = [folder / "output", *sorted(reports.glob("*.stacks"))]
                outcome = run.keep(outcome, captured=files, config=run.config)
            outcome = outcome.model_copy(update={"machine": machine})
            return TriedRun(end, outcome, learn(reports) if run.learn else None)
        finally:
            shutil.rmtree(folder, ignore_errors=True)

    def _commands(self, request: ProgramRequest, order: HookOrder) -> Commands:
        """What one run runs: here, from what starts the commands on this machine."""
        environment = order.environment(os.environ)
        return LocalCommands(self._starters.each, environment, order.reports)

    def _watched(self, commands: Commands) -> Callable[[], MachineState | None]:
        """What returns, after a run of these commands, what the machine did from now on."""
        del commands  # they run on this machine
        before = self._machine.read()
        return lambda: machine_between(before, self._machine.read())

    def _clocks(self) -> Mapping[str, ClockOffset]:
        """The clocks of other hosts, as far as the last run had any; see `join_recorded`."""
        return {}

    def _traced(
        self, outcome: Measurement, reports: Path, trace: TraceOrder
    ) -> Measurement | Failure:
        """The outcome, its trace written to the order's path."""
        try:
            document = join_recorded(reports, clocks=self._clocks())
            with written_atomically(trace.path) as partial:
                partial.write_bytes(document)
        except TraceError as error:
            message = str(error)
        except OSError as error:
            message = f"the trace could not be written: {error}"
        else:
            return outcome
        return Failure(failure="trace-failed", message=message, world_s=outcome.world_s)


def _keep_alone(folder: Path, failure: Failure, **evidence: Any) -> Failure:
    """Keep evidence instead of an earlier failure's, in a folder that is not within a study's."""
    shutil.rmtree(folder, ignore_errors=True)
    return with_evidence(failure, folder, called=str(folder), **evidence)
