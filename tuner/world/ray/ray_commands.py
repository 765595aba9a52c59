"""The commands of a run of a program, one on each host; see `world.command.program_commands`."""

import json
import os
import threading
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from tuner.errors import LauncherError
from tuner.trace.record.clock import ClockOffset, ClockSample, offset_bounds
from tuner.world.command.events import object_in
from tuner.world.command.order import REQUEST, HookOrder
from tuner.world.environment import MachineState
from tuner.world.ray.cluster import FIRST_HOST
from tuner.world.ray.host_programs import News
from tuner.world.ray.hosts import HostProxy

EXCHANGE_S = 0.05
_PIDS_OF_A_HOST = 10_000_000
"""More than a kernel gives: processes of different hosts may have one id."""


class RayCommands:
    """One command on each of these hosts.

    Args:
        hosts: In the order of their ranks.
        number: The run's number, which no other run of this launcher has.
        command: What runs on each.
        order: What its processes are to do; its folder of reports here gets what they report.
        environments: The variables of each host's command.
    """

    def __init__(
        self,
        hosts: Sequence[HostProxy],
        number: int,
        command: Sequence[str],
        order: HookOrder,
        environments: Sequence[Mapping[str, str]],
    ) -> None:
        self._hosts = hosts
        self._number = number
        self._command = command
        self._order = order
        self._environments = environments
        self._output = -1
        self._codes: list[int | None] = [None] * len(hosts)
        self._bounds: list[tuple[int, int] | None] = [None] * len(hosts)
        self._lost: LauncherError | None = None
        self._is_over = threading.Event()
        self._exchanging = threading.Thread(target=self._exchange_on, name="rpc-tuner exchange")
        self.machines: list[MachineState] = []
        """What each host did meanwhile, once the run has ended."""

    def start(self, output: int) -> None:
        """See `Commands`."""
        self._output = output
        folder = Path.cwd()
        self._everywhere(
            "start_program",
            [
                (list(self._command), folder, self._order, dict(environment))
                for environment in self._environments
            ],
        )
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
        self._everywhere("stop_program")

    def end(self) -> None:
        """See `Commands`; what was left by then is fetched."""
        self._is_over.set()
        if self._exchanging.is_alive():
            self._exchanging.join()
        alive = [host for host in self._hosts if not host.is_lost]
        with suppress(LauncherError):
            self._everywhere("end_program", hosts=alive)
            if len(alive) == len(self._hosts):
                self._exchange()
                for files in self._everywhere("program_files"):
                    self._keep(files)
        with suppress(LauncherError):
            found = self._everywhere("forget_program", hosts=alive)
            self.machines = [each for each in found if each is not None]

    def clocks(self) -> dict[str, ClockOffset]:
        """The clock of each host against ours, by the id of its node."""
        return {
            host.info.node: ClockOffset((low + high) // 2, (high - low + 1) // 2)
            for host, bounds in zip(self._hosts, self._bounds, strict=True)
            if bounds is not None
            for low, high in [bounds]
        }

    def _exchange_on(self) -> None:
        try:
            while not self._is_over.wait(EXCHANGE_S):
                FIRST_HOST.check()
                self._exchange()
        except LauncherError as error:
            self._lost = error

    def _exchange(self) -> None:
        request = ""
        with suppress(OSError):
            request = (self._order.reports / REQUEST).read_text()
        # One after the other: what one host needs is no part of how long another's answer takes.
        for place, host in enumerate(self._hosts):
            sent_ns = time.time_ns()
            news: News = host.call("exchange", self._number, request)
            sample = ClockSample(sent_ns, news.begun_ns, news.ended_ns, time.time_ns())
            self._narrow(place, offset_bounds([sample]))
            self._take(place, news)

    def _narrow(self, place: int, bounds: tuple[int, int]) -> None:
        """Keep what all exchanges allow; where the clock has drifted away, what the last allows."""
        before = self._bounds[place]
        if before is not None:
            low, high = max(before[0], bounds[0]), min(before[1], bounds[1])
            bounds = (low, high) if low <= high else bounds
        self._bounds[place] = bounds

    def _take(self, place: int, news: News) -> None:
        if news.printed:
            os.write(self._output, news.printed)
        for name, lines in news.notes.items():
            with (self._order.reports / f"host{place}-{name}").open("ab") as file:
                for line in lines.splitlines():
                    file.write(self._as_seen_here(place, line) + b"\n")
        self._codes[place] = news.code

    def _as_seen_here(self, place: int, line: bytes) -> bytes:
        """A report with the times of our clock, and with an id that no other process has."""
        if (event := object_in(line)) is None:
            return line
        low, high = self._bounds[place] or (0, 0)
        if isinstance(pid := event.get("pid"), int):
            event |= {"pid": pid + place * _PIDS_OF_A_HOST, "pid_there": pid}
        if isinstance(then_ns := event.get("time_ns"), int):
            event["time_ns"] = then_ns - (low + high) // 2
        return json.dumps(event).encode()

    def _keep(self, files: Mapping[str, bytes]) -> None:
        for name, content in files.items():
            (self._order.reports / Path(name).name).write_bytes(content)

    def _everywhere(
        self,
        method: str,
        arguments: Sequence[tuple[object, ...]] | None = None,
        hosts: Sequence[HostProxy] | None = None,
    ) -> list[Any]:
        asked = []
        for place, host in enumerate(self._hosts if hosts is None else hosts):
            more = () if arguments is None else arguments[place]
            asked.append((host, host.begin(method, self._number, *more)))
        return [host.answer(reference) for host, reference in asked]
