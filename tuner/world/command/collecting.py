"""Puts together what the processes of a program send, as it comes."""

from bisect import insort
from dataclasses import replace

from tuner.text import shortened
from tuner.world.command.reports import (
    InitFailure,
    ProcessEnd,
    ProgramReport,
    Raised,
    RankReport,
    Rendezvous,
)
from tuner.world.messages import Message

_STEPS = ("rendezvous", "init_rpc", "init-failed", "ready")


class Collector:
    """What the processes of a program send, put together as it comes; a report is made anew only of
    processes that have sent more."""

    def __init__(self) -> None:
        self._report: ProgramReport | None = None  # until more comes
        self._processes: dict[int, _Process] = {}
        self._states: list[Message] = []  # in the order of `ProgramReport.states`
        self._raised: list[Raised] = []  # in order of time

    def take(self, process: int, *messages: Message) -> None:
        """Take in what a process has sent, in its order; the number of the process is any."""
        known = self._processes.setdefault(process, _Process())
        self._report = None
        for message in messages:
            known.take(message)
            if message["kind"] == "answer":
                insort(self._states, message, key=lambda state: (state["number"], state["rank"]))
            elif message["kind"] == "raised":
                insort(self._raised, Raised(message["time_ns"], known.name, message["error"]))

    def report(self) -> ProgramReport:
        """What is known by now."""
        if self._report is None:
            self._report = self._reported()
        return self._report

    def _reported(self) -> ProgramReport:
        processes = [*self._processes.values()]
        starters = [process for process in processes if process.is_rank]
        ranks = [rank for process in starters for rank in process.ranks]
        others = [process for process in processes if not process.is_rank]
        failures = [
            process.init_failure for process in processes if process.init_failure is not None
        ]
        # One after which the rank has started, in any process, is over.
        ready = [(rank.rank, rank.ready_ns or 0) for rank in ranks]
        last = [f for f in failures if not any(r == f.rank and ns > f.time_ns for r, ns in ready)]
        return ProgramReport(
            ranks=tuple(sorted(ranks, key=lambda rank: (rank.rank, rank.init_ns))),
            processes=len(processes),
            problems=tuple(problem for process in processes for problem in process.problems),
            warned=tuple(dict.fromkeys(each for process in processes for each in process.warned)),
            unmet=tuple(process.unmet for process in processes if process.unmet is not None),
            init_failure=min(last, default=None),
            other_ends=tuple(sorted(each.end for each in others if each.end and each.end.error)),
            raised=tuple(self._raised),
            gone=frozenset(each.end.pid for each in processes if each.end and each.end.gone_ns),
            running=frozenset(each.pid for each in processes if each.end is None),
            newest_start_ns=max((each.began_ns for each in others if each.end is None), default=0),
            counts={starter.pid: tuple(starter.counts) for starter in starters},
            states=tuple(self._states),
        )


class _Process:
    """One process: a rank for each time that it started RPC; the last has the process's end."""

    def __init__(self) -> None:
        self.problems: list[str] = []
        self.warned: list[str] = []
        self.counts: list[Message] = []
        self.began_ns = self.pid = 0
        self.name = ""
        self.unmet: Rendezvous | None = None
        self.init_failure: InitFailure | None = None
        self._ends: dict[str, Message] = {}
        self._agent: dict[str, Message] = {}
        """What its agent has sent last, by kind; empty before the first one."""
        self._earlier: list[RankReport] = []
        self._latest: RankReport | None = None  # until it sends more

    def take(self, message: Message) -> None:
        """Take in what it has sent next."""
        kind, self._latest = message["kind"], None
        self.began_ns, self.pid = self.began_ns or message["time_ns"], message["pid"]
        if kind in _STEPS:
            self.unmet = self.init_failure = None
        match kind:
            case "init_rpc":
                if self._agent:
                    self._earlier.append(RankReport.of(self._agent))
                self._agent, self.name = {kind: message}, message["name"]
            case "rendezvous":
                self.unmet = Rendezvous(**{fact: message[fact] for fact in Rendezvous._fields})
            case "init-failed":
                self.init_failure = InitFailure(**{f: message[f] for f in InitFailure._fields})
            case "hook-failed":
                error = shortened(message["error"])
                self.problems.append(f"the hook failed in process {message['pid']}: {error}")
            case "warned":
                self.warned.append(shortened(message["warning"]))
            case "count":
                self.counts.append(message)
            case "exit" | "gone":
                self._ends[kind] = message
        if self._agent:
            self._agent[kind] = message

    @property
    def is_rank(self) -> bool:
        """Whether it has started RPC."""
        return bool(self._agent)

    @property
    def ranks(self) -> list[RankReport]:
        """What is known of each agent of a process that has, in order."""
        if self._latest is None:
            self._latest = replace(RankReport.of(self._agent), end=self.end)
        return [*self._earlier, self._latest]

    @property
    def end(self) -> ProcessEnd | None:
        """How it ended, if it has."""
        exited, gone = self._ends.get("exit", {}), self._ends.get("gone", {})
        if not (first := exited or gone):
            return None
        # What it raised last, as far as Python knows; who exits with 0 has handled that.
        raised = exited if gone.get("code") != 0 else {}
        waiting = f"rank {self.unmet.rank}" if self.unmet is not None else ""
        return ProcessEnd(
            time_ns=first["time_ns"], pid=first["pid"], name=self.name or waiting,
            error=raised.get("error", ""), traceback=raised.get("traceback", ""),
            reported=bool(exited), gone_ns=gone.get("time_ns"), code=gone.get("code"),
        )  # fmt: skip
