"""The launcher of programs: a world is one run of the program's commands on this machine, whose
processes report over a socket, and are asked over it."""

import os
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple, Self

from tuner.errors import LauncherError, TraceError
from tuner.files import own_prefix, sweep, written_atomically
from tuner.plan.config import Config
from tuner.plan.draft import PlanDraft, may_be_windowed, windowed
from tuner.plan.program_request import ProgramRequest
from tuner.plan.program_spec import ProgramSpec
from tuner.world.command.counting import Follow, Follower, Window
from tuner.world.command.discovering import Discovery, TriedRun
from tuner.world.command.ends import failed_first, given_up, suspected_ns
from tuner.world.command.joining import join_recorded
from tuner.world.command.judging import (
    Counted,
    ProgramEnd,
    is_port_taken,
    outcome_of,
    records_of,
)
from tuner.world.command.order import HookOrder, RecordingOrder
from tuner.world.command.program_channel import ProgramChannel
from tuner.world.command.program_commands import Commands, LocalCommands, Starters, end_tree
from tuner.world.command.running import check_commands
from tuner.world.command.warm.warm_starting import ServerGoneError, learn
from tuner.world.environment import MachineReader, MachineState
from tuner.world.launcher import RunAsItIs, TraceOrder, WorldOrder
from tuner.world.live_world import LiveWorld
from tuner.world.measurement import Failure, Measurement
from tuner.world.own_network import OwnNetwork
from tuner.world.postmortem import give_up_middle, head_and_tail, starvation

# A port of an earlier run may be held for a while.
PORT_ATTEMPTS = 10
PORT_WAIT_S = 1.0
ANSWERS_S = 2.0
# A rank that waits where no process will listen is given up after this time.
UNMET_S = 5.0
# After a first command has failed, the others get this long to say what happened to them.
OTHERS_S = 1.0
# What --expect and --metric can see of a run, its head and its tail, in bytes.
MOST_OUTPUT = 8 << 20
_POLL_S = 0.01
_QUESTIONS = 3
"""Two answers in a row prove a deadlock; the last question may not be answered by all yet."""
# A run as it is gets these shares of the budget: from the first on it ends once its calls have
# settled, from the second on in any case. A cold one before warm ones ends once calls have begun.
COLD_SHARES, WARM_SHARES, BEGUN_SHARE = (0.2, 0.3), (0.12, 0.2), 0.1


class _AsItIs(NamedTuple):
    """What a run as it is has beside a measured one."""

    learns: bool = False  # whether its ranks report what they import
    follow: Follow | None = None


class ProgramLauncher:
    """Runs a program again and again, warm where that can be. `notify` gets what a person should
    know of how it is run, a sentence each; `show` takes what it prints, as it comes; with
    `isolation` it has a network of its own, where it can have one."""

    def __init__(
        self,
        notify: Callable[[str], None] = lambda sentence: None,
        show: Callable[[bytes], None] | None = None,
        *,
        isolation: bool = True,
    ) -> None:
        self._notify = notify
        self._show = show
        self._isolation = isolation
        self._network = OwnNetwork()
        self._open, self._of_program = ExitStack(), ExitStack()
        self._starters: Starters  # once the program is known
        self._begun: ProgramRequest | None = None
        self._scratch: Path | None = None
        self._machine = MachineReader()

    def __enter__(self) -> Self:
        if self._scratch is not None:  # `begin` wants it entered earlier
            return self
        sweep()
        self._scratch = Path(tempfile.mkdtemp(prefix=own_prefix()))
        self._open.callback(shutil.rmtree, self._scratch, ignore_errors=True)
        if self._isolation:
            self._open.enter_context(self._network)
        self._open.enter_context(self._of_program)
        return self

    def __exit__(self, *ending: object) -> None:
        try:
            if self._scratch is not None:
                # A second Ctrl-C may have cut short the end of a run.
                end_tree([], self._scratch)
        finally:
            self._open.close()
            self._scratch = None

    @property
    def own_network(self) -> bool:
        """See `Launcher.own_network`."""
        return bool(self._network.prefix)

    def subject_of(self, draft: PlanDraft, failure_folder: Path | None = None) -> ProgramSpec:
        """See `Launcher.subject_of`: what all runs as it is show."""
        *_, last = self.inspect(draft, failure_folder)
        return last.subject

    def inspect(
        self, draft: PlanDraft, failure_folder: Path | None = None, trace: Path | None = None
    ) -> Iterator[RunAsItIs]:
        """See `InspectsPrograms.inspect`. A first run shows its ranks and imports; a second one, if
        that is not cut, whether its number of calls varies. Where it does not go well warm, a cold
        one shows whether that is why. A program that fails once its RPC has begun may go well with
        other options; ProgramFailedError of another."""
        request = draft.program
        if request is None:
            raise LauncherError("this launcher runs programs, and the plan has a workload")
        check_commands(request.commands)
        if failure_folder is not None:
            shutil.rmtree(failure_folder, ignore_errors=True)

        starters, self._begun = self.begin(draft), None
        may_be_cut, may_be_warm = may_be_windowed(draft), starters.may_be_warm()

        def run_as_it_is(asked: ProgramRequest, until_s: float, learns: bool) -> TriedRun:
            deadline_s = min(until_s - time.monotonic(), draft.measuring.deadline_s)
            traced = None
            if trace is not None and (starters.is_warm or not learns):
                trace.unlink(missing_ok=True)  # of a run that did not count
                traced = TraceOrder(path=trace, operators=True, is_needed=False)
            order = WorldOrder(
                subject=asked, config=Config.of({}), deadline_s=deadline_s, trace=traced,
                failure_folder=failure_folder, folder_called=str(failure_folder or ""),
            )  # fmt: skip
            only_begins = learns and may_be_warm and not starters.is_warm
            longest, late = WARM_SHARES if starters.is_warm else COLD_SHARES
            longest = BEGUN_SHARE if only_begins else longest
            if not may_be_cut or asked.window_s is not None:
                return self._run(order, _AsItIs(learns))
            budget_s = draft.measuring.budget_s
            follow = Follow(longest * budget_s, late * budget_s, only_begins)
            return self._run(order, _AsItIs(learns, follow))

        choose = partial(windowed, draft)
        discovery = Discovery(request, starters, run_as_it_is, choose, self._notify)
        return discovery.runs(draft.measuring.longest_start_s)

    def begin(self, draft: PlanDraft) -> Starters:
        """What starts a draft's program, once it is entered. `inspect` goes on with what has begun
        since."""
        request = draft.program
        assert request is not None, "a workload has no commands"
        if request != self._begun:
            self._of_program.close()
            self._starters = self._of_program.enter_context(self._starters_of(request))
            self._begun = request
            self._starters.begin(time.monotonic() + draft.measuring.longest_start_s)
        return self._starters

    def expect_threads(self, numbers: Sequence[int]) -> None:
        """See `ExpectsThreads`."""
        self._starters.expect_threads(numbers)

    def _starters_of(self, request: ProgramRequest) -> Starters:
        why_cold = "--cold asks for it" if request.cold else ""
        return Starters(request.commands, self._network, self._notify, why_cold)

    def run(self, order: WorldOrder) -> Measurement | Failure:
        """See `Launcher.run`."""
        return self._run(order, _AsItIs()).outcome

    def _run(self, order: WorldOrder, as_it_is: _AsItIs) -> TriedRun:
        """One run. One whose port another process still has is tried again, and one that is lost
        with the server that it came from, from a new server or cold; all end by the deadline."""
        until_s = time.monotonic() + order.deadline_s
        attempts = 0
        while True:
            left_s = until_s - time.monotonic()
            is_last = attempts + 1 == PORT_ATTEMPTS or left_s <= PORT_WAIT_S
            order = replace(order, deadline_s=max(0.0, left_s))
            try:
                tried = self._run_once(order, as_it_is, is_last=is_last)
            except ServerGoneError as error:
                self._starters.start_again(str(error))
                continue
            if is_last or not is_port_taken(tried.end):
                return tried
            attempts += 1
            time.sleep(PORT_WAIT_S)

    def _run_once(self, order: WorldOrder, as_it_is: _AsItIs, *, is_last: bool) -> TriedRun:
        learns, follow = as_it_is
        if self._scratch is None:
            raise LauncherError("the launcher is used outside its with block")
        request, trace = order.subject, order.trace
        assert isinstance(request, ProgramRequest), "subject_of took no workload"
        with ExitStack() as scope:
            scratch = tempfile.TemporaryDirectory(
                dir=self._scratch, prefix="world-", ignore_cleanup_errors=True
            )
            folder = Path(scope.enter_context(scratch))
            reports = folder / "reports"
            reports.mkdir()
            spec = request if isinstance(request, ProgramSpec) else None
            to_hook = HookOrder(
                config=order.config if spec is None else order.config.without_own(spec),
                reports=reports, roles=request.role_patterns,
                recording=None if trace is None else RecordingOrder(operators=trace.operators),
                ranks=len(spec.ranks) if spec else None,
                probe=True, learn=learns,
                counts=bool(request.window_s or follow),
            )  # fmt: skip
            channel = scope.enter_context(closing(ProgramChannel(reports)))
            commands = self._commands(request, to_hook, channel)
            world = _ProgramWorld(
                order, request, commands, channel, folder, self._show, is_last=is_last
            )
            world.follow(follow)
            outcome = world.run()
            learnt = learn(channel.messages()) if learns else None
            only_begun = world.was_cut and follow is not None and follow.only_begins
            return TriedRun(world.end, outcome, learnt, world.was_cut, only_begun)

    def _commands(
        self, request: ProgramRequest, order: HookOrder, channel: ProgramChannel
    ) -> Commands:
        """What one run runs: here, from what starts the commands on this machine."""
        environment = order.environment(os.environ)
        machine = self._machine.watch()
        starters, its_own = self._starters.for_environment(environment)
        is_recorded = order.recording is not None
        return LocalCommands(starters, its_own, order.reports, machine, channel.report, is_recorded)


class _ProgramWorld(LiveWorld):
    """One run of these commands, which are not yet started. What they print comes to the file
    `output` of the folder, and to `show`; they report to the channel. One that `is_last` is run
    no more if another process has its port."""

    end: ProgramEnd
    """How it ended, once it has."""

    def __init__(
        self,
        order: WorldOrder,
        request: ProgramRequest,
        commands: Commands,
        channel: ProgramChannel,
        folder: Path,
        show: Callable[[bytes], None] | None,
        *,
        is_last: bool,
    ) -> None:
        super().__init__(order)
        self._request = request
        self._commands = commands
        self._show = show
        self._is_last = is_last
        self._path = folder / "output"
        self._output, self._printed = self._path.open("wb"), self._path.open("rb")
        self._channel = channel
        self._window = Window(request, channel.report)
        self._follower: Follower | None = None
        self.was_cut = False
        self._codes: tuple[int | None, ...] = ()
        self._counted: Counted | None = None
        self._stopped_ns: int | None = None
        """When it was ended at the end of its window."""
        self._why: Mapping[str, Any] = {}
        """Why it was ended, as fields of its end."""

    def _start(self) -> None:
        self._commands.start(self._output.fileno())

    def _look(self, timeout_s: float) -> bool:
        self._pass_on()
        if self._has_ended():
            return True
        if any(self._codes):
            until_s = time.monotonic() + OTHERS_S
            while not self._has_ended() and time.monotonic() < until_s:
                time.sleep(_POLL_S)
            return True
        counted = self._window.look(time.monotonic())
        if counted is None and self._follower is not None:
            counted = self._follower.look(self._lasted_s())
            self.was_cut = counted is not None
        if counted is not None:
            self._counted, self._stopped_ns = counted, time.time_ns()
            self._commands.stop_gently()
            return True
        time.sleep(min(timeout_s, _POLL_S))
        return False

    def follow(self, follow: Follow | None) -> None:
        """End it early, as that says."""
        self._follower = None if follow is None else Follower(follow, self._channel.report)

    def _probe(self) -> bool:
        self._channel.note_gone()
        report, now_ns = self._channel.report(), time.time_ns()
        self._channel.ask("" if suspected_ns(report) is None else "threads")
        why = {
            "is_late": now_ns - (report.no_listener_since_ns or now_ns) > UNMET_S * 1e9,
            "cause": given_up(report, now_ns),
            "starved": starvation(records_of(report, report.latest_states(_QUESTIONS))),
        }
        self._why = {field: value for field, value in why.items() if value}
        return bool(self._why)

    def _handed_over_s(self) -> float:
        return self._channel.report().handed_over_s(time.time_ns())

    def _has_ended(self) -> bool:
        self._codes = self._commands.codes()
        return None not in self._codes

    def _settle(self) -> None:
        self._run_s = max(0.0, self._lasted_s() - self._handed_over_s())
        if self._is_late:
            self._why = {"is_late": True}
        if self._why:
            # The stacks of all ranks that still run, or wait for others to start.
            report = self._channel.report()
            pids = {rank.pid for rank in report.latest if rank.ended_ns is None}
            pids = (pids | {each.pid for each in report.unmet}) - report.gone
            self._channel.answers(self._channel.ask("stacks"), pids, ANSWERS_S)
        # What ends from now on is ended by us.
        self._channel.note_gone()
        self._over_ns = time.time_ns()

    def _end(self) -> MachineState | None:
        try:
            return self._commands.end()
        finally:
            self._pass_on()
            self._printed.close()
            self._output.close()

    def _captured(self) -> Sequence[Path] | None:
        if is_port_taken(self.end) and not self._is_last:
            return None
        return [self._path, *sorted(self._channel.folder.glob("*.stacks"))]

    def _outcome(self) -> Measurement | Failure:
        self._commands.check()
        report = self._channel.report()
        first = None if self._counted is not None else failed_first(report, self._over_ns)
        if first is None and not any(self._codes) and None not in self._codes:
            self._counted = self._counted or self._window.rest(report)
        facts: dict[str, Any] = {"cause": first, "counted": self._counted, **self._why}
        output = head_and_tail(self._path, MOST_OUTPUT).decode(errors="replace")
        self.end = ProgramEnd(exit_codes=self._codes, run_s=self._run_s, output=output,
                              report=report, states=records_of(report), **facts)  # fmt: skip
        outcome = outcome_of(self.end, self._request, self._order.objective)
        if (trace := self._order.trace) is None or isinstance(outcome, Failure):
            return outcome
        try:
            clocks = self._commands.clocks()
            document = join_recorded(
                self._channel.folder,
                self._channel.messages(),
                stopped_ns=self._stopped_ns,
                clocks=clocks,
                others_share=None if self._machine is None else self._machine.taken_share,
            )
            with written_atomically(trace.path) as partial:
                partial.write_bytes(document)
            return outcome
        except TraceError as error:
            message = str(error)
        except OSError as error:
            message = f"the trace could not be written: {error}"
        if not trace.is_needed:
            return outcome
        return Failure(failure="trace-failed", message=message, world_s=outcome.world_s)

    def _pass_on(self) -> None:
        if text := self._printed.read():
            give_up_middle(self._path, MOST_OUTPUT)
            if self._show is not None:
                self._show(text)
