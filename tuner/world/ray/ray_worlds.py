"""One world on the hosts of a cluster: its ranks, or the commands of a program."""

import itertools
import os
import threading
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import ray

from tuner.errors import LauncherError
from tuner.files import written_atomically
from tuner.trace.record.clock import ClockOffset
from tuner.world.command.order import HookOrder
from tuner.world.command.program_channel import ProgramChannel
from tuner.world.environment import MachineState, of_all_hosts
from tuner.world.launcher import RankTask
from tuner.world.messages import Message, RankMessage
from tuner.world.ray.cluster import FIRST_HOST
from tuner.world.ray.host import News, Timed
from tuner.world.ray.hosts import LOST_S, HostProxy, Hosts

POLL_S = 5.0
"""A host without a message says so after this time, and by that lives."""
EXCHANGE_S = 0.05
_PIDS_OF_A_HOST = 10_000_000
"""More than a kernel gives: processes of different hosts may have one id."""
# Worlds of several launchers of one command may be on one host.
_numbers = itertools.count()


class _World:
    """What runs on each of these hosts under one number."""

    def __init__(self, hosts: Sequence[HostProxy]) -> None:
        self._hosts = hosts
        self._number = next(_numbers)

    def _begin(self, host: HostProxy, method: str, *arguments: object) -> "ray.ObjectRef[Any]":
        return host.begin("call", self._number, method, *arguments)

    def _everywhere(self, method: str, *arguments: object) -> list[Any]:
        """What a method of the world answers on each host; see `Host.call`."""
        asked = [(host, self._begin(host, method, *arguments)) for host in self._hosts]
        return [host.answer(reference).answer for host, reference in asked]

    def end(self) -> MachineState | None:
        """End it; what the hosts did meanwhile, but for those that were lost."""
        asked = [(h, h.begin("end", self._number)) for h in self._hosts if not h.is_lost]
        found = []
        for host, reference in asked:
            with suppress(LauncherError):
                found.append(host.answer(reference))
        return of_all_hosts([state for state in found if state is not None])


class RayRankProcesses(_World):
    """See `tuner.world.live_world.RankProcesses`. `scratch` is a folder for what is fetched of a
    failure, and `trace` where rank 0's trace is to be, if it takes one."""

    def __init__(self, hosts: Hosts, scratch: Path, trace: Path | None) -> None:
        super().__init__(list(hosts.by_node.values()))
        self._gpus = hosts.placing.gpus
        self._by_rank = hosts.in_order
        self._scratch = scratch
        self._trace = trace
        self._asked: dict[ray.ObjectRef[Any], tuple[HostProxy, float]] = {}
        """Which host was asked for messages, and when."""

    def start(self, tasks: Sequence[RankTask]) -> Sequence[int | None]:
        """See `RankProcesses.start`: on all hosts at the same time."""
        begun = []
        for host in self._hosts:
            here = [task for task in tasks if self._by_rank[task.rank] is host]
            mine = [replace(task, place=(at, len(here))) for at, task in enumerate(here)]
            gpus = [self._gpus[task.rank] for task in mine]
            sent_ns = time.time_ns()
            begun.append((host, sent_ns, host.begin("start_ranks", self._number, mine, gpus)))
        pids: Mapping[int, int | None] = {}
        for host, sent_ns, reference in begun:
            timed: Timed = host.answer(reference)
            host.note_clock(sent_ns, timed, anew=True)  # clocks drift
            pids = timed.answer if host is self._by_rank[0] else pids
        for host in self._hosts:
            self._ask(host)
        return [pids.get(task.rank) for task in tasks]

    def poll(self, timeout_s: float) -> list[RankMessage]:
        """See `RankProcesses.poll`. HostLostError if a host is gone; or a ClusterLostError."""
        FIRST_HOST.check()
        waiting = list(self._asked)
        ready, _ = ray.wait(waiting, num_returns=1, timeout=min(timeout_s, POLL_S))
        if ready and len(waiting) > 1:
            ready, _ = ray.wait(waiting, num_returns=len(waiting), timeout=0)
        found: list[RankMessage] = []
        for reference in ready:
            host, _ = self._asked.pop(reference)
            for rank, message in host.answer(reference).answer or ():
                message["time_ns"] = host.here_ns(message["time_ns"])
                found.append(RankMessage(rank, message))
            self._ask(host)
        for host, asked_s in self._asked.values():
            if time.monotonic() - asked_s > POLL_S + LOST_S:
                raise host.lost(f"gave no answer for {LOST_S:g} s")
        return found

    def _ask(self, host: HostProxy) -> None:
        self._asked[self._begin(host, "poll", POLL_S)] = (host, time.monotonic())

    def send(self, rank: int, message: Mapping[str, object]) -> None:
        """See `RankProcesses.send`."""
        self._begin(self._by_rank[rank], "send", rank, dict(message))

    def join(self, timeout_s: float) -> None:
        """See `RankProcesses.join`; then fetches the trace."""
        self._everywhere("join", timeout_s)
        if self._trace is None:
            return
        driver = self._by_rank[0]
        if (content := driver.answer(self._begin(driver, "trace")).answer) is not None:
            with written_atomically(self._trace) as partial:
                partial.write_bytes(content)

    def dump_stacks(self, ranks: Sequence[int]) -> None:
        """See `RankProcesses.dump_stacks`."""
        self._everywhere("dump_stacks", list(ranks))

    def captured(self) -> Sequence[Path]:
        """See `RankProcesses.captured`: fetched from the hosts."""
        return sorted(_keep(self._scratch, self._everywhere("files")))


class RayCommands(_World):
    """One command on each of these hosts, with variables of its own; see
    `tuner.world.command.program_commands.Commands`. The channel gets all messages, and the order's
    folder all files."""

    def __init__(
        self, hosts: Sequence[HostProxy], command: Sequence[str], order: HookOrder,
        channel: ProgramChannel, environments: Sequence[Mapping[str, str]],
    ) -> None:  # fmt: skip
        super().__init__(hosts)
        self._command = list(command)
        self._order = order
        self._channel = channel
        self._environments = environments
        self._output = -1
        self._codes: list[int | None] = [None] * len(hosts)
        self._lost: LauncherError | None = None
        self._is_first = True
        self._is_over = threading.Event()
        self._exchanging = threading.Thread(target=self._exchange_on, name="rpc-tuner exchange")

    def start(self, output: int) -> None:
        """See `Commands`."""
        self._output = output
        given = (self._number, self._command, Path.cwd(), self._order)
        each = zip(self._hosts, self._environments, strict=True)
        asked = [(host, host.begin("start_program", *given, dict(own))) for host, own in each]
        for host, reference in asked:
            host.answer(reference)
        self._exchanging.start()

    def codes(self) -> tuple[int | None, ...]:
        """See `Commands`: one, since it is one command; the first that failed counts."""
        if self._lost is not None:
            raise self._lost
        if failed := [code for code in self._codes if code]:
            return (failed[0],)
        return (None,) if None in self._codes else (0,)

    def stop_gently(self) -> None:
        """See `Commands`."""
        self._everywhere("stop_gently")

    def end(self) -> MachineState | None:
        """See `Commands`; what was left by then is fetched, unless a host is lost."""
        self._is_over.set()
        if self._exchanging.is_alive():
            self._exchanging.join()
        with suppress(LauncherError):
            if not any(host.is_lost for host in self._hosts):
                self._everywhere("end")
                self._exchange()
                _keep(self._order.reports, self._everywhere("files"))
        return super().end()

    def check(self) -> None:
        """See `Commands`: `codes` says it."""

    def clocks(self) -> dict[str, ClockOffset]:
        """See `Commands`: by the id of the host's node."""
        return {host.info.node: host.clock for host in self._hosts if host.clock is not None}

    def _exchange_on(self) -> None:
        try:
            while not self._is_over.wait(EXCHANGE_S):
                FIRST_HOST.check()
                self._exchange()
        except LauncherError as error:
            self._lost = error

    def _exchange(self) -> None:
        question = self._channel.question
        # One after the other: what one host needs is no part of how long another's answer takes.
        for place, host in enumerate(self._hosts):
            sent_ns = time.time_ns()
            timed: Timed = host.answer(self._begin(host, "exchange", question))
            host.note_clock(sent_ns, timed, anew=self._is_first)
            if timed.answer is not None:
                self._take(place, timed.answer)
        self._is_first = False

    def _take(self, place: int, news: News) -> None:
        if news.printed:
            os.write(self._output, news.printed)
        self._channel.take(self._as_seen_here(place, message) for message in news.messages)
        self._codes[place] = news.code

    def _as_seen_here(self, place: int, message: Message) -> Message:
        """A report with the times of our clock, and with an id that no other process has."""
        pid, then_ns = message["pid"], self._hosts[place].here_ns(message["time_ns"])
        shifted = pid + place * _PIDS_OF_A_HOST
        return {**message, "pid": shifted, "pid_there": pid, "time_ns": then_ns}


def _keep(folder: Path, of_hosts: Sequence[Mapping[str, bytes] | None]) -> list[Path]:
    """Write files of hosts to a folder here."""
    files = [file for of_host in of_hosts for file in (of_host or {}).items()]
    found = {folder / Path(name).name: content for name, content in files}
    for path, content in found.items():
        path.write_bytes(content)
    return list(found)
