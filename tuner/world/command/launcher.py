"""The launcher of programs: a world is one run of the program's commands on this machine."""

import os
import shutil
import tempfile
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import Self

from tuner.errors import LauncherError, TraceError, UsageError
from tuner.files import written_atomically
from tuner.plan.config import Config
from tuner.plan.draft import PlanDraft
from tuner.plan.program_spec import ProgramRequest, ProgramSpec
from tuner.world.command.discovering import check_backend, check_commands, program_spec
from tuner.world.command.joining import join_recorded
from tuner.world.command.judging import is_port_taken, outcome_of
from tuner.world.command.order import HookOrder, RecordingOrder
from tuner.world.command.own_network import OwnNetwork
from tuner.world.command.process_tree import end_tree
from tuner.world.command.program_world import ProgramEnd, ProgramWorld, Window
from tuner.world.command.warm.learning import Learnt, learn
from tuner.world.command.warm.starting import ColdStarter, Starter
from tuner.world.command.warm.warm_starting import WarmStarter
from tuner.world.evidence import with_evidence
from tuner.world.launcher import TraceOrder, WorldOrder
from tuner.world.machine_reading import MachineReader, machine_between
from tuner.world.measurement import Failure, Measurement

# A port of an earlier run may be held for a while.
PORT_ATTEMPTS = 10
PORT_WAIT_S = 1.0

Outcome = Measurement | Failure


class CommandLauncher:
    """Runs a program again and again, warm where that can be.

    Args:
        tell: Hears what a person should know of how the program is run, a sentence each.
        show: Takes what the program prints, as it comes; None: nobody does.
    """

    def __init__(
        self,
        tell: Callable[[str], None] = lambda sentence: None,
        show: Callable[[bytes], None] | None = None,
    ) -> None:
        self._tell = tell
        self._show = show
        self._open = ExitStack()
        self._servers = ExitStack()
        self._starters: list[Starter] = []
        self._scratch: Path | None = None
        self._network = OwnNetwork()
        self._machine = MachineReader()

    def __enter__(self) -> Self:
        self._scratch = Path(tempfile.mkdtemp(prefix="rpc-tuner-"))
        self._open.callback(shutil.rmtree, self._scratch, ignore_errors=True)
        self._open.enter_context(self._network)
        self._open.enter_context(self._servers)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._scratch is not None:
            # A second Ctrl-C may have cut short the end of a run.
            end_tree([], self._scratch)
        self._open.close()
        self._scratch = None

    def subject_of(self, draft: PlanDraft) -> ProgramSpec:
        """Run the program a few times as it is: see `Launcher.subject_of`.

        A second run shows whether it can be started warm, and whether its number of calls varies.

        Raises:
            UsageError: It cannot be tuned.
            LauncherError: The plan has a workload.
        """
        request = draft.program
        if request is None:
            raise LauncherError("this launcher runs programs, and the plan has a workload")
        check_commands(request)
        deadline_s = draft.measuring.deadline_s
        first, learnt = self._first_run(request, deadline_s)
        check_backend(first)
        second = self._warm_up(request, learnt, first, deadline_s)
        if second is None:
            second, outcome = self._run(request, Config.of({}), deadline_s)
            if isinstance(outcome, Failure):
                raise UsageError(f"a second run of the program failed: {outcome.message}")
        return program_spec(request, [first, second], own_network=bool(self._network.prefix))

    def run(self, order: WorldOrder) -> Outcome:
        """See `Launcher.run`."""
        spec = order.subject
        assert isinstance(spec, ProgramSpec), "subject_of took no workload"
        _, outcome = self._run(
            spec, order.config, order.deadline_s, trace=order.trace, keep=order.failure_folder
        )
        return outcome

    def _first_run(self, request: ProgramRequest, deadline_s: float) -> tuple[ProgramEnd, Learnt]:
        """Run it cold, in a network of its own if it can; UsageError if it does not run at all."""
        learnt: list[Learnt] = []
        self._start_cold(request)
        end, outcome = self._run(request, Config.of({}), deadline_s, learnt=learnt)
        if self._network.prefix and _failed_by_itself(outcome):
            self._network.leave()
            self._start_cold(request)
            end, again = self._run(request, Config.of({}), deadline_s, learnt=learnt)
            if isinstance(again, Measurement):
                self._tell("the program does not run in a network of its own; it has the machine's")
            outcome = again
        if isinstance(outcome, Failure):
            raise UsageError(
                f"the program cannot be tuned: {outcome.message}{_indented(outcome.detail)}"
            )
        return end, learnt[0]

    def _start_cold(self, request: ProgramRequest) -> None:
        prefix = self._network.prefix
        self._starters = [
            ColdStarter([*prefix, *command], Path.cwd()) for command in request.commands
        ]

    def _warm_up(
        self, request: ProgramRequest, learnt: Learnt, first: ProgramEnd, deadline_s: float
    ) -> ProgramEnd | None:
        """Start servers for what can be started warm, and see that it does the same.

        Returns:
            The end of the warm run; None if each run starts cold.
        """
        if request.cold:
            return None
        cold_starters = self._starters
        pairs = zip(request.commands, cold_starters, strict=True)
        starters = [self._starter(command, learnt, cold) for command, cold in pairs]
        self._starters = starters
        if starters == cold_starters:
            return None
        end, outcome = self._run(request, Config.of({}), deadline_s)
        ranks = [(rank.rank, rank.name) for rank in end.report.ranks]
        if isinstance(outcome, Failure) or ranks != [
            (rank.rank, rank.name) for rank in first.report.ranks
        ]:
            why = outcome.message if isinstance(outcome, Failure) else "it has other ranks then"
            self._tell(f"each run starts cold: started warm, the program fails: {why}")
            self._starters = cold_starters
            self._servers.close()
            return None
        return end

    def _starter(self, command: tuple[str, ...], learnt: Learnt, cold: Starter) -> Starter:
        environment = HookOrder(config=Config.of({}), reports=Path()).environment(os.environ)
        try:
            warm = WarmStarter(
                command, environment, Path.cwd(), learnt, prefix=self._network.prefix
            )
            return self._servers.enter_context(warm)
        except LauncherError as error:
            self._tell(f"each run starts cold: {error}")
            return cold

    def _run(
        self,
        request: ProgramRequest,
        config: Config,
        deadline_s: float,
        *,
        trace: TraceOrder | None = None,
        keep: Path | None = None,
        learnt: list[Learnt] | None = None,
    ) -> tuple[ProgramEnd, Outcome]:
        """One run; its trace is written, and what a failure leaves is kept.

        A run whose port another process still has is tried again.
        """
        for attempt in range(PORT_ATTEMPTS):
            is_last = attempt + 1 == PORT_ATTEMPTS
            end, outcome = self._run_once(
                request, config, deadline_s, trace, keep, learnt, keeps_taken_port=is_last
            )
            if is_last or not is_port_taken(end):
                break
            time.sleep(PORT_WAIT_S)
        return end, outcome

    def _run_once(
        self,
        request: ProgramRequest,
        config: Config,
        deadline_s: float,
        trace: TraceOrder | None,
        keep: Path | None,
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
        )
        world = ProgramWorld(
            self._starters, order.environment(os.environ), folder, reports,
            deadline_s=deadline_s, window=_window(request), show=self._show,
        )  # fmt: skip
        try:
            before = self._machine.read()
            end = world.run()
            machine = machine_between(before, self._machine.read())
            if learnt is not None:
                learnt[:] = [learn(reports)]
            outcome = outcome_of(end, request)
            if trace is not None and isinstance(outcome, Measurement):
                outcome = _traced(outcome, reports, trace)
            is_kept = keeps_taken_port or not is_port_taken(end)
            if isinstance(outcome, Failure) and keep is not None and is_kept:
                files = [folder / "output", *sorted(reports.glob("*.stacks"))]
                outcome = with_evidence(outcome, keep, files, config)
            return end, outcome.model_copy(update={"machine": machine})
        finally:
            shutil.rmtree(folder, ignore_errors=True)


def _failed_by_itself(outcome: Outcome) -> bool:
    return isinstance(outcome, Failure) and outcome.failure in ("crashed", "init-failed")


def _window(request: ProgramRequest) -> Window | None:
    if request.window_s is None:
        return None
    return Window(warm_up_s=request.warm_up_s, lasts_s=request.window_s)


def _traced(outcome: Measurement, reports: Path, trace: TraceOrder) -> Outcome:
    """The outcome, its trace written to the order's path."""
    try:
        document = join_recorded(reports)
        with written_atomically(trace.path) as partial:
            partial.write_bytes(document)
    except TraceError as error:
        return Failure(failure="trace-failed", message=str(error), world_s=outcome.world_s)
    except OSError as error:
        message = f"the trace could not be written: {error}"
        return Failure(failure="trace-failed", message=message, world_s=outcome.world_s)
    return outcome


def _indented(text: str) -> str:
    return "".join(f"\n    {line}" for line in text.splitlines())
