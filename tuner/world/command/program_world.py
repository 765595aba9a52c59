"""One run of a program, from the start of its commands to the end of its last process."""

import time
from collections.abc import Callable, Mapping, Sequence, Set
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

from tuner.plan.program_spec import ProgramRequest
from tuner.world.command.channel import Channel, records_of
from tuner.world.command.ends import Cause, failed_first, given_up, suspected_ns
from tuner.world.command.program_commands import Commands
from tuner.world.command.reports import ProgramReport
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
    states: Sequence[RankRecord]
    """The answers of the ranks to probes, in order of rank."""
    is_late: bool = False
    """Whether it was ended at its deadline, or because it waited for what cannot come."""
    cause: Cause | None = None
    """What failed first, whatever the commands made of it; None if nothing did."""
    starved: RankRecord | None = None
    """The rank that is deadlocked, for which the run was ended."""
    counted: Counted | None = None
    """For a run that reached the end of its window."""

    @property
    def calls(self) -> int:
        """How many calls it made, or made in its window."""
        if self.counted is not None:
            return self.counted.calls
        return sum(rank.calls for rank in self.report.ranks)

    @property
    def active_s(self) -> float | None:
        """Seconds in which these were counted; None where a rank never shuts down."""
        return self.report.rpc_active_s if self.counted is None else self.counted.seconds


@dataclass
class ProgramWorld:
    """Drives one run from the start of its commands to its last process."""

    request: ProgramRequest
    commands: Commands
    """What it runs, not yet started."""
    folder: Path
    """For what they print, in the file `output`."""
    reports: Path
    """The folder of the hook's order."""
    deadline_s: float
    """When to end it, in seconds from its start."""
    show: Callable[[bytes], None] | None = None
    """Takes what they print, as it comes."""

    def __post_init__(self) -> None:
        self._output = self.folder / "output"
        self._channel = Channel(self.reports)
        self._window = None
        if (lasts_s := self.request.window_s) is not None:
            self._window = _Window(self.request.warm_up_s, lasts_s, self._channel)
        self._codes: tuple[int | None, ...] = ()

    def run(self) -> ProgramEnd:
        """Start the commands, wait for their end, and leave no process behind."""
        started_s = time.monotonic()
        with self._output.open("wb") as output, self._output.open("rb") as printed:
            try:
                self.commands.start(output.fileno())
                why = self._wait(started_s, printed)
                run_s = time.monotonic() - started_s
                if why and "counted" not in why:
                    self._keep_stacks()
                # What ends from now on is ended by us.
                self._channel.note_gone()
                over_ns = time.time_ns()
            finally:
                self.commands.end()
                self._pass_on(printed)
        report = self._channel.report()
        first = None if "counted" in why else failed_first(report, over_ns)
        return ProgramEnd(
            exit_codes=self._codes,
            run_s=run_s,
            output=head_and_tail(self._output, MOST_OUTPUT).decode(errors="replace"),
            report=report,
            states=records_of(report),
            **{"cause": first, **why},
        )

    def _wait(self, started_s: float, printed: BinaryIO) -> dict[str, Any]:
        """Wait until all commands have ended, or for a reason to end them: fields of the end."""
        next_probe_s = started_s + PROBE_AFTER_S
        next_look_s = started_s + LOOK_S
        while not self._has_ended():
            self._pass_on(printed)
            now_s = time.monotonic()
            if now_s >= next_look_s:
                next_look_s = now_s + LOOK_S
                give_up_middle(self._output, MOST_OUTPUT)
            if any(self._codes):
                while not self._has_ended() and time.monotonic() < now_s + OTHERS_S:
                    time.sleep(_POLL_S)
                break
            if now_s >= started_s + self.deadline_s:
                return {"is_late": True}
            if self._window is not None and (counted := self._window.look(now_s)):
                self.commands.stop_gently()
                return {"counted": counted}
            if now_s >= next_probe_s:
                next_probe_s = now_s + PROBE_EVERY_S
                if why := self._probe():
                    return why
            time.sleep(_POLL_S)
        return {}

    def _probe(self) -> dict[str, Any]:
        """Ask the ranks what they are doing; the reason, if the run waits for what cannot come."""
        self._channel.note_gone()
        report, now_ns = self._channel.report(), time.time_ns()
        self._channel.ask("" if suspected_ns(report) is None else "threads")
        why = {
            "is_late": now_ns - (report.no_listener_since_ns or now_ns) > UNMET_S * 1e9,
            "cause": given_up(report, now_ns),
            "starved": starvation(records_of(report)),
        }
        return {field: value for field, value in why.items() if value}

    def _has_ended(self) -> bool:
        self._codes = self.commands.codes()
        return None not in self._codes

    def _keep_stacks(self) -> None:
        """Of all ranks that still run, or wait for others to start."""
        report = self._channel.report()
        pids = {rank.pid for rank in report.latest if rank.ended_ns is None}
        pids = (pids | {each.pid for each in report.unmet}) - report.gone
        self._channel.answers(self._channel.ask("stacks"), pids, ANSWERS_S)

    def _pass_on(self, printed: BinaryIO) -> None:
        if (text := printed.read()) and self.show is not None:
            self.show(text)


@dataclass
class _Window:
    """Waits for all ranks, then for the warm-up, and then counts for the length of the window.

    Ranks may shut RPC down and start it again meanwhile; where other processes take over, the
    waiting begins anew.
    """

    warm_up_s: float
    lasts_s: float
    channel: Channel
    _pids: Set[int] = frozenset()
    """The ranks, once all are there."""
    _ready_s: float = 0.0
    _first: tuple[float, int] | None = None
    """When the window began, and the number of the question then."""

    def look(self, now_s: float) -> Counted | None:
        """What was counted, once the window is over."""
        if self._first is not None and now_s < self._first[0] + self.lasts_s:
            return None
        if self._pids and now_s < self._ready_s + self.warm_up_s:
            return None
        report = self.channel.report()
        pids = {rank.pid for rank in report.latest}
        if not self._pids or pids != self._pids:
            self._pids, self._ready_s = pids if report.is_ready else set(), now_s
            self._first = None
        elif self._first is None:
            number = self.channel.ask()
            if len(self.channel.answers(number, pids, ANSWERS_S)) == len(pids):
                self._first = (now_s, number)
        else:
            return self._count(self._first[1])
        return None

    def _count(self, first: int) -> Counted | None:
        before = self.channel.answers(first)
        after = self.channel.answers(self.channel.ask(), self._pids, ANSWERS_S)
        pairs = [(before[pid], state) for pid, state in after.items() if pid in before]
        if len(pairs) < len(self._pids):
            return None  # a rank that is busy answers late; the deadline ends what never does
        lasted = [now["monotonic_s"] - then["monotonic_s"] for then, now in pairs]
        return Counted(
            calls=sum(now["calls"] - then["calls"] for then, now in pairs),
            seconds=sum(lasted) / len(lasted),
            cpu_s={now["rank"]: now["cpu_s"] - then["cpu_s"] for then, now in pairs},
        )
