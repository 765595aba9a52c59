"""Runs a program while every rank of it records its calls."""

import math
import os
import subprocess
import tempfile
import time
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import IO, Any, NamedTuple

from tuner.errors import TraceError
from tuner.files import own_prefix
from tuner.plan.config import Config
from tuner.text import first_of, three_digits
from tuner.world.command.ends import failed_first, stuck, suspected_ns
from tuner.world.command.joining import has_window_ended, is_recorded, join_recorded
from tuner.world.command.judging import records_of
from tuner.world.command.order import HookOrder, RecordingOrder
from tuner.world.command.program_channel import ProgramChannel
from tuner.world.command.program_commands import end_tree
from tuner.world.command.reports import ProgramReport
from tuner.world.command.running import exit_code, started
from tuner.world.descendants import descendants
from tuner.world.environment import MachineReader, MachineState
from tuner.world.live_world import MOST_HAND_OVER_S
from tuner.world.postmortem import about_open_files, deadlock, starvation

HAND_OVER_S = 3.0
"""What ranks get to begin to hand over that outlive the command which started them."""
LOOK_S = 1.0
"""How often to look whether ranks have failed, and to ask what the others do then."""
SLOWER = 0.1
"""Later they are asked less often: after this share of the time since something failed last."""
SLOWER_BY_S = 0.02
"""Also by this for each time that they were asked: all answers are gone through with each look."""
_MOST_LOOK_S = 10.0
_POLL_S = 0.05
_WINDOW_POLL_S = 0.25


class RecordedEnd(NamedTuple):
    """How a program ended that was recorded."""

    exit_code: int
    """As a shell has it; 1 if it was given up."""
    is_given_up: bool
    """Whether we ended it, because its ranks waited in vain."""
    report: ProgramReport
    why_not: str
    """Why nothing was recorded; empty if something was."""


def record_program(
    command: Sequence[str],
    recording: RecordingOrder,
    show: Callable[[bytes, int | None], None],
    *,
    notify: Callable[[str], None] = lambda sentence: None,
    beside: Sequence[Sequence[str]] = (),
    roles: Sequence[tuple[str, str]] = (),
    config: Config | None = None,
    stdout: IO[Any] | None = None,
) -> RecordedEnd:
    """Run a command to its end, and show the trace of its ranks as soon as it is whole. Where a
    rank has failed, and all others do nothing any more, the program is ended. UsageError if it
    cannot be started.

    Args:
        command: The program and its arguments.
        recording: What to record, and when.
        show: Called once, if anything was recorded: with the content of the trace's file, and with
            the exit code, which is None while the program goes on after its window.
        notify: Gets at once which rank has failed, and why the program is ended, a sentence each.
        beside: Further commands that together with it are one world.
        roles: See `HookOrder`.
        config: The knobs to put under the program; None: none.
        stdout: Where the program's output goes; None: where ours goes.
    """
    with tempfile.TemporaryDirectory(prefix=own_prefix(), ignore_cleanup_errors=True) as scratch:
        folder = Path(scratch)
        order = HookOrder(config=config or Config.of({}), reports=folder, roles=roles,
                          recording=recording, probe=True)  # fmt: skip
        started_s = time.monotonic()
        kill = partial(end_tree, reports=folder)
        signals: list[int] = []
        program = started([command, *beside], order, stdout=stdout, kill=kill, signals=signals)
        is_shown = False
        with closing(ProgramChannel(folder)) as channel, program as processes:
            ranks = _Ranks(channel, processes, notify, signals)
            others = _Others(channel)
            while _any_runs(processes):
                others.look()
                has_window = recording.for_s is not None and not is_shown
                if has_window and has_window_ended(channel.messages()):
                    is_shown, share = True, others.share()
                    show(join_recorded(folder, channel.messages(), others_share=share), None)
                ranks.look()
                time.sleep(_WINDOW_POLL_S if has_window else _POLL_S)
            code, ended_ns = exit_code(processes), time.time_ns()
            share = others.share(has_ended_well=code == 0)
            if not signals:
                ranks.say_the_first(ended_ns)
            ran_s, ended = time.monotonic() - started_s, code if ranks.given_up_ns is None else 1
            why_not = ""
            if not is_shown:
                _await(
                    lambda: is_recorded(channel.messages()),
                    lambda: channel.report().is_handing_over,
                )
                try:
                    document = join_recorded(
                        folder, channel.messages(), ended_ns=ended_ns,
                        stopped_ns=ranks.given_up_ns, others_share=share,
                    )  # fmt: skip
                except TraceError:
                    why_not = _why_not(channel.report(), ran_s, code)
                else:
                    show(document, ended)
            is_given_up = ranks.given_up_ns is not None
            return RecordedEnd(ended, is_given_up, channel.report(), why_not)


class _Others:
    """What other programs take of the CPUs, from when all ranks are ready: what they do before says
    little of the calls."""

    def __init__(self, channel: ProgramChannel) -> None:
        self._channel = channel
        self._watched: Callable[[], MachineState] | None = None
        self._share: float | None = None
        self._next_s = 0.0

    def look(self) -> None:
        """To be called again and again while the program runs."""
        if (now_s := time.monotonic()) < self._next_s:
            return
        if self._watched is not None:
            self._share, self._next_s = self._watched().taken_share, now_s + LOOK_S
        elif (report := self._channel.report()).is_ready:
            # The CPU time of others would be taken for that of strangers.
            are_ours = {rank.pid for rank in report.ranks} <= {*descendants(os.getpid())}
            self._watched = MachineReader().watch() if are_ours else None
            self._next_s = now_s + LOOK_S if are_ours else math.inf

    def share(self, *, has_ended_well: bool = True) -> float | None:
        """The share until now. Where processes were killed, whose time nobody has asked for: until
        shortly before."""
        if self._watched is not None and has_ended_well:
            self._share = self._watched().taken_share
        return self._share


@dataclass
class _Ranks:
    """Looks after the ranks of a program: says which one has failed, and ends what is stuck."""

    channel: ProgramChannel
    processes: Sequence["subprocess.Popen[bytes]"]
    notify: Callable[[str], None]
    signals: Sequence[int]
    """Those that were passed on: the program ends for them."""
    given_up_ns: int | None = None
    """When it was ended, because it could come to no good end."""

    def __post_init__(self) -> None:
        self._said: list[str] = []
        self._next_s = time.monotonic() + LOOK_S
        self._asked_s = -math.inf

    def look(self) -> None:
        """To be called again and again while the program runs."""
        if time.monotonic() < self._next_s or self.signals:
            return
        report = self.say_the_first()
        if (cause := stuck(report, time.time_ns())) is not None:
            self._say(cause.text)
            self._give_up("no rank does anything any more, so the program is ended")
            return
        if starved := starvation(records := records_of(report)):
            self._say(deadlock(starved, records, 0.0).message)
            self._give_up("a deadlock does not end, so the program is ended")
            return
        now_s, since_ns = time.monotonic(), suspected_ns(report)
        # Also where nothing has failed: ranks may be deadlocked.
        since_s = 0.0 if since_ns is None else (time.time_ns() - since_ns) / 1e9
        wait_s = asking_pause_s(since_s, self.channel.question.number)
        if now_s >= self._asked_s + wait_s:
            self._asked_s = now_s
            self.channel.ask("" if since_ns is None else "threads")
        self._next_s = now_s + min(max(LOOK_S, wait_s), _MOST_LOOK_S)

    def _give_up(self, why: str) -> None:
        self.notify(why)
        self.given_up_ns = time.time_ns()
        # As a scheduler does; they may end before their ranks have handed over.
        for process in self.processes:
            process.terminate()
        _await(lambda: not _any_runs(self.processes) and is_recorded(self.channel.messages()))
        end_tree([process.pid for process in self.processes], self.channel.folder)

    def say_the_first(self, until_ns: int | None = None) -> ProgramReport:
        """Say which rank failed first, by that time; what all have reported so far."""
        self.channel.note_gone()
        report = self.channel.report()
        if (first := failed_first(report, until_ns)) is not None:
            self._say(first.text)
        return report

    def _say(self, text: str) -> None:
        if text not in self._said:
            self._said.append(text)
            self.notify(text)


def asking_pause_s(since_s: float, asked: int) -> float:
    """How long to wait before ranks are asked again what they do, which were `asked` so often.
    `since_s` is how long ago something happened last that they may wait for in vain."""
    return max(SLOWER * since_s, SLOWER_BY_S * asked)


def _any_runs(processes: Sequence["subprocess.Popen[bytes]"]) -> bool:
    return None in [process.poll() for process in processes]


def _await(
    is_over: Callable[[], bool], is_handing_over: Callable[[], bool] = lambda: False
) -> None:
    """Wait until the ranks have handed over; for HAND_OVER_S at most while none does."""
    until = time.monotonic() + HAND_OVER_S
    longest = until + MOST_HAND_OVER_S
    while not is_over() and (now := time.monotonic()) < longest:
        if now >= until and not is_handing_over():
            return
        time.sleep(_POLL_S)


def _why_not(report: ProgramReport, ran_s: float, code: int) -> str:
    ended = f"the program ended after {three_digits(ran_s)} s with exit code {code}"
    if (failure := report.init_failure) is not None:
        return f"{ended}: {failure.text}{about_open_files(failure.error, in_init=True)}"
    if not report.ranks:
        return f"{ended}{report.why_no_rank(has_ended_well=code == 0)}"
    others = [rank for rank in report.ranks if rank.backend != "TENSORPIPE"]
    if others:
        uses = f"{first_of([rank.name for rank in others], 3)} uses the agent {others[0].backend}"
        return f"{uses}: only TensorPipe's calls can be recorded"
    return f"no rank could be recorded{about_open_files('', in_init=True)}"
