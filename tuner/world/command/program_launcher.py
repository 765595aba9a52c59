"""The launcher of programs: a world is one run of the program's commands on this machine."""

import os
import shutil
import tempfile
import time
from collections.abc import Callable, Mapping
from contextlib import ExitStack
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
from tuner.world.command.discovering import Discovery, TriedRun, check_commands
from tuner.world.command.joining import join_recorded
from tuner.world.command.judging import is_port_taken, outcome_of
from tuner.world.command.order import HookOrder, RecordingOrder
from tuner.world.command.program_commands import Commands, LocalCommands, end_tree
from tuner.world.command.program_world import ProgramEnd, ProgramWorld, Window
from tuner.world.command.starters import Starters
from tuner.world.command.warm.warm_starting import Learnt, ServerGoneError, learn
from tuner.world.environment import MachineReader, MachineState, machine_between
from tuner.world.failure_evidence import with_evidence
from tuner.world.launcher import Enough, TraceOrder, WorldOrder
from tuner.world.measurement import Failure, Measurement

# A port of an earlier run may be held for a while.
PORT_ATTEMPTS = 10
PORT_WAIT_S = 1.0

Outcome = Measurement | Failure
Keep = Callable[..., Failure]
"""`with_evidence` for a folder."""


class CommandLauncher:
    """Runs a program again and again, warm where that can be.

    Args:
        notify: Gets what a person should know of how the program is run, a sentence each.
        show: Takes what the program prints, as it comes; None: it is not shown.
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
        check_commands(request)
        if failure_folder is not None:
            shutil.rmtree(failure_folder, ignore_errors=True)
        trying = partial(self._try, request, draft.measuring.deadline_s, failure_folder)
        discovery = Discovery(request, self._starters, trying, self._notify, enough)
        return discovery.spec(draft.measuring.longest_start_s)

    def run(self, order: WorldOrder) -> Outcome:
        """See `Launcher.run`."""
        spec = order.subject
        assert isinstance(spec, ProgramSpec), "subject_of took no workload"
        folder = order.failure_folder
        _, outcome = self._run(
            spec,
            order.config,
            order.deadline_s,
            trace=order.trace,
            objective=order.objective,
            keep=None if folder is None else partial(with_evidence, folder=folder),
        )
        return outcome

    def _try(
        self,
        request: ProgramRequest,
        deadline_s: float,
        failure_folder: Path | None,
        until_s: float,
        learnt: list[Learnt] | None = None,
    ) -> TriedRun:
        """Run it as it is, which is not one of a study's worlds; until then, by the clock."""
        deadline_s = min(deadline_s, max(0.0, until_s - time.monotonic()))
        keep = None if failure_folder is None else partial(_keep_alone, failure_folder)
        return TriedRun(*self._run(request, Config.of({}), deadline_s, learnt=learnt, keep=keep))

    def _run(
        self,
        request: ProgramRequest,
        config: Config,
        deadline_s: float,
        *,
        trace: TraceOrder | None = None,
        objective: Objective | None = None,
        keep: Keep | None = None,
        learnt: list[Learnt] | None = None,
    ) -> tuple[ProgramEnd, Outcome]:
        """One run; its trace is written, and what a failure leaves is kept.

        A run whose port another process still has is tried again, and one that is lost with the
        server that it came from; all of them together end at the deadline.
        """
        until_s = time.monotonic() + deadline_s
        for attempt in range(PORT_ATTEMPTS):
            is_last = attempt + 1 == PORT_ATTEMPTS or time.monotonic() + PORT_WAIT_S >= until_s
            once = partial(
                self._run_once, request, config, until_s, trace, objective, keep, learnt,
                keeps_taken_port=is_last,
            )  # fmt: skip
            end, outcome = self._whatever_its_server(once)
            if is_last or not is_port_taken(end):
                break
            time.sleep(PORT_WAIT_S)
        return end, outcome

    def _whatever_its_server(
        self, once: Callable[[], tuple[ProgramEnd, Outcome]]
    ) -> tuple[ProgramEnd, Outcome]:
        """A run; tried again from a new server, and then cold, if it is lost with its server."""
        while True:
            try:
                return once()
            except ServerGoneError as error:
                self._starters.start_again(str(error))

    def _run_once(
        self,
        request: ProgramRequest,
        config: Config,
        until_s: float,
        trace: TraceOrder | None,
        objective: Objective | None,
        keep: Keep | None,
        learnt: list[Learnt] | None,
        *,
        keeps_taken_port: bool,
    ) -> tuple[ProgramEnd, Outcome]:
        if self._scratch is None:
            raise LauncherError("the launcher is used outside its with block")
        folder = Path(tempfile.mkdtemp(dir=self._scratch, prefix="world-"))
        reports = folder / "reports"
        reports.mkdir()
        order = HookOrder(
            config=config,
            reports=reports,
            roles=request.role_patterns,
            recording=None if trace is None else RecordingOrder(operators=trace.operators),
            probe=True,
            learn=learnt is not None,
            ranks=len(request.ranks) if isinstance(request, ProgramSpec) else None,
        )
        commands = self._commands(request, order)
        world = ProgramWorld(
            commands, folder, reports,
            deadline_s=max(0.0, until_s - time.monotonic()),
            window=_window(request), show=self._show,
        )  # fmt: skip
        try:
            machine_since = self._watched(commands)
            end = world.run()
            self._starters.check_servers()
            machine = machine_since()
            if learnt is not None:
                learnt[:] = [learn(reports)]
            outcome = outcome_of(end, request, objective)
            if trace is not None and isinstance(outcome, Measurement):
                outcome = self._traced(outcome, reports, trace)
            is_kept = keeps_taken_port or not is_port_taken(end)
            if isinstance(outcome, Failure) and keep is not None and is_kept:
                files = [folder / "output", *sorted(reports.glob("*.stacks"))]
                outcome = keep(outcome, captured=files, config=config)
            return end, outcome.model_copy(update={"machine": machine})
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

    def _traced(self, outcome: Measurement, reports: Path, trace: TraceOrder) -> Outcome:
        """The outcome, its trace written to the order's path."""
        try:
            document = join_recorded(reports, clocks=self._clocks())
            with written_atomically(trace.path) as partial:
                partial.write_bytes(document)
        except TraceError as error:
            return Failure(failure="trace-failed", message=str(error), world_s=outcome.world_s)
        except OSError as error:
            message = f"the trace could not be written: {error}"
            return Failure(failure="trace-failed", message=message, world_s=outcome.world_s)
        return outcome


def _window(request: ProgramRequest) -> Window | None:
    if request.window_s is None:
        return None
    return Window(warm_up_s=request.warm_up_s, lasts_s=request.window_s)


def _keep_alone(folder: Path, failure: Failure, **evidence: Any) -> Failure:
    """Keep evidence instead of an earlier failure's, in a folder that is not within a study's."""
    shutil.rmtree(folder, ignore_errors=True)
    return with_evidence(failure, folder, called=str(folder), **evidence)
