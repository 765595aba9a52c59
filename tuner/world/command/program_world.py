"""One run of a program, from the start of its commands to the end of its last process."""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from tuner.world.command.ends import Cause, failed_first, given_up, suspected_ns
from tuner.world.command.program_commands import Commands
from tuner.world.command.reports import ProgramReport, read_reports
from tuner.world.command.watching import Probes, Watch, records_of
from tuner.world.failure_evidence import give_up_middle, head_and_tail
from tuner.world.postmortem import RankRecord, starvation

PROBE_AFTER_S = 3.0
PROBE_EVERY_S = 1.0
ANSWERS_S = 2.0
# A rank that waits where no process will listen is given up after this time.
UNMET_S = 5.0
# After a first command has failed, the others get this long to say what happened to them.
OTHERS_S = 1.0
# What --expect and --metric can see of a run, its head and its tail, in bytes.
MOST_OUTPUT = 8 << 20
# How often to look at what it prints, which may fill the disk.
LOOK_S = 1.0
_POLL_S = 0.01


@dataclass(frozen=True, kw_only=True)
class Window:
    """When to count the calls of a program that does not end by itself, in seconds."""

    warm_up_s: float
    """From the last rank's `init_rpc` on."""
    lasts_s: float


@dataclass(frozen=True, kw_only=True)
class Counted:
    """What the ranks did in a window."""

    calls: int
    seconds: float
    cpu_s: Mapping[int, float]
    """By rank."""


@dataclass(frozen=True, kw_only=True)
class ProgramEnd:
    """How a run of a program ended, and what is known of it."""

    exit_codes: tuple[int | None, ...]
    """One for each command, negative for a signal; None for one that we ended."""
    run_s: float
    """Seconds from the start of the first command to the end of the last."""
    output: str
    """What the commands printed, on both streams."""
    report: ProgramReport
    is_late: bool
    """Whether it was ended at its deadline, or because it waited for what cannot come."""
    cause: Cause | None
    """What failed first, whatever the commands made of it; None if nothing did."""
    starved: RankRecord | None
    """The rank that is deadlocked, for which the run was ended."""
    states: Sequence[RankRecord]
    """The answers of the ranks to probes, in order of rank."""
    counted: Counted | None
    """For a run that reached the end of its window."""


class ProgramWorld:
    """A run that is under way.

    Args:
        commands: What it runs, not yet started.
        folder: An empty folder for what they print, in the file `output`.
        reports: The folder of the hook's order.
        deadline_s: When to end it, in seconds from its start.
        window: None for a program that ends by itself.
        show: Takes what the program prints, as it comes.
    """

    def __init__(
        self,
        commands: Commands,
        folder: Path,
        reports: Path,
        *,
        deadline_s: float,
        window: Window | None = None,
        show: Callable[[bytes], None] | None = None,
    ) -> None:
        self._commands = commands
        self._output = folder / "output"
        self._reports = reports
        self._deadline_s = deadline_s
        self._window = window
        self._show = show
        self._probes = Probes(reports)
        self._codes: tuple[int | None, ...] = ()
        self._counted: Counted | None = None
        self._is_late = False
        self._cause: Cause | None = None
        self._starved: RankRecord | None = None
        self._watch = Watch(reports)

    def run(self) -> ProgramEnd:
        """Start the commands, wait for their end, and leave no process behind.

        Raises:
            LauncherError: A command cannot be started.
        """
        started_s = time.monotonic()
        with self._output.open("wb") as output, self._output.open("rb") as printed:
            try:
                self._commands.start(output.fileno())
                run_s = self._wait(started_s, lambda: self._pass_on(printed.read())) - started_s
                # What ends from now on is ended by us.
                self._watch.note_gone()
                over_ns = time.time_ns()
            finally:
                self._commands.end()
                self._pass_on(printed.read())
        report = read_reports(self._reports)
        if self._counted is None and self._cause is None:
            self._cause = failed_first(report, over_ns)
        return ProgramEnd(
            exit_codes=self._codes,
            run_s=run_s,
            output=head_and_tail(self._output, MOST_OUTPUT).decode(errors="replace"),
            report=report,
            is_late=self._is_late,
            cause=self._cause,
            starved=self._starved,
            states=records_of(report),
            counted=self._counted,
        )

    def _wait(self, started_s: float, pass_on: Callable[[], None]) -> float:
        """Until all commands have ended, or one of the reasons to end them has come.

        Returns:
            When that was, by the monotonic clock.
        """
        next_probe_s = started_s + PROBE_AFTER_S
        next_look_s = started_s + LOOK_S
        window = None if self._window is None else _WindowWatch(self._window, self._probes)
        while not self._has_ended():
            pass_on()
            now_s = time.monotonic()
            if now_s >= next_look_s:
                next_look_s = now_s + LOOK_S
                give_up_middle(self._output, MOST_OUTPUT)
            if any(self._codes):
                self._await_others()
                break
            if now_s >= started_s + self._deadline_s:
                self._is_late = True
                self._keep_stacks()
                return now_s
            if window is not None and (counted := window.look(self._reports, now_s)):
                self._counted = counted
                self._commands.stop_gently()
                break
            if now_s >= next_probe_s:
                next_probe_s = now_s + PROBE_EVERY_S
                if self._is_given_up():
                    self._keep_stacks()
                    return now_s
            time.sleep(_POLL_S)
        return time.monotonic()

    def _is_given_up(self) -> bool:
        """Whether it waits for what cannot come; else its ranks are asked what they are doing."""
        self._watch.note_gone()
        report = read_reports(self._reports)
        self._is_late = _is_unmet(report)
        self._cause = given_up(report, time.time_ns())
        self._starved = starvation(records_of(report))
        self._probes.ask("" if suspected_ns(report) is None else "threads")
        return self._is_late or self._cause is not None or self._starved is not None

    def _has_ended(self) -> bool:
        self._codes = self._commands.codes()
        return None not in self._codes

    def _await_others(self) -> None:
        until = time.monotonic() + OTHERS_S
        while not self._has_ended() and time.monotonic() < until:
            time.sleep(_POLL_S)

    def _keep_stacks(self) -> None:
        """Of all ranks that still run, or wait for others to start."""
        report = read_reports(self._reports)
        pids = {rank.pid for rank in report.latest if rank.ended_ns is None}
        pids = (pids | {each.pid for each in report.unmet}) - report.gone
        self._probes.awaited(self._probes.ask("stacks"), pids, ANSWERS_S)

    def _pass_on(self, printed: bytes) -> None:
        if printed and self._show is not None:
            self._show(printed)


def _is_unmet(report: ProgramReport) -> bool:
    """Whether ranks have waited long enough where no process will listen."""
    since_ns = report.no_listener_since_ns
    return since_ns is not None and time.time_ns() - since_ns > UNMET_S * 1e9


class _WindowWatch:
    """Waits for all ranks, then for the warm-up, and then counts for the length of the window.

    Ranks may shut RPC down and start it again meanwhile; where other processes take over, the
    waiting begins anew.
    """

    def __init__(self, window: Window, probes: Probes) -> None:
        self._window = window
        self._probes = probes
        self._pids: set[int] = set()
        """The ranks, once all are there."""
        self._ready_s = 0.0
        self._first: tuple[float, int] | None = None
        """When the window began, and the number of the question then."""

    def look(self, reports: Path, now_s: float) -> Counted | None:
        """What was counted, once the window is over."""
        if self._first is not None and now_s < self._first[0] + self._window.lasts_s:
            return None
        if self._pids and now_s < self._ready_s + self._window.warm_up_s:
            return None
        report = read_reports(reports)
        pids = {rank.pid for rank in report.latest}
        if not self._pids or pids != self._pids:
            self._pids, self._ready_s = pids if report.is_ready else set(), now_s
            self._first = None
        elif self._first is None:
            number = self._probes.ask()
            if len(self._probes.awaited(number, pids, ANSWERS_S)) == len(pids):
                self._first = (now_s, number)
        else:
            return self._count(self._first[1])
        return None

    def _count(self, first: int) -> Counted | None:
        before = {state["pid"]: state for state in self._probes.answers(first)}
        after = self._probes.awaited(self._probes.ask(), self._pids, ANSWERS_S)
        pairs = [(before[state["pid"]], state) for state in after if state["pid"] in before]
        if len(pairs) < len(self._pids):
            return None  # a rank that is busy answers late; the deadline ends what never does
        lasted = [now["monotonic_s"] - then["monotonic_s"] for then, now in pairs]
        return Counted(
            calls=sum(now["calls"] - then["calls"] for then, now in pairs),
            seconds=sum(lasted) / len(lasted),
            cpu_s={now["rank"]: now["cpu_s"] - then["cpu_s"] for then, now in pairs},
        )
