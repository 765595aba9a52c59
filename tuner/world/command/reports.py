"""What the processes of a program have reported, rank by rank."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from tuner.text import first_of, plural, shortened
from tuner.world.command.events import agents, by_world, read_events

_REACH = (
    "it reaches every Python but one that is started with -S, -I or -E, or with an environment of "
    "its own"
)
_BESIDE = "; if another command starts what is missing, name it with --beside (a plan: in programs)"
MOST_RANKS = 10_000
"""The largest world whose missing ranks are told: a program may say any number."""
_MOST_NAMED = 8
_KNOBS = ("num_worker_threads", "rpc_timeout", "transports", "channels", "intra_op_threads")


@dataclass(frozen=True, kw_only=True)
class RankReport:
    """One rank of a program, from its `init_rpc` on. Times are Unix nanoseconds."""

    pid: int
    name: str
    """Its RPC name."""
    rank: int
    world_size: int | None
    role: str
    backend: str
    """`TENSORPIPE`, or the agent of another one."""
    num_worker_threads: int | None
    """What its agent was started with."""
    rpc_timeout_s: float
    options: Mapping[str, Any]
    """The same and all other knobs of the agent, as JSON."""
    cuda_devices: int
    """How many torch sees."""
    init_ns: int
    """When the agent's start began."""
    ready_ns: int | None
    """When `init_rpc` was done; None if it never was."""
    shutdown_ns: int | None
    """When `shutdown` was called; None if it never was."""
    ended_ns: int | None
    """When `shutdown` was done; None if it never was."""
    calls: int
    """Calls issued until it was shut down; 0 if it never was."""
    cpu_s: float | None
    """CPU seconds from `ready_ns` to the end of `shutdown`, or to the last probe before it."""
    used_ns: int | None
    """When these were read."""
    peak_rss_mb: float | None
    threads: int | None
    """When `shutdown` was called, or at the last probe."""


class Rendezvous(NamedTuple):
    """Where a process looks for the other ranks, and since when, in Unix nanoseconds."""

    url: str
    nobody_listens: bool
    time_ns: int
    pid: int
    rank: int
    """-1 if it does not know."""
    world_size: int | None = None
    """How many ranks meet there; None if it does not know."""


class InitFailure(NamedTuple):
    """Why `init_rpc` failed for a rank that never got through it since."""

    time_ns: int
    """Unix nanoseconds."""
    rank: int
    name: str
    """The RPC name, or `rank 2` of one that did not get past the rendezvous."""
    error: str
    """In one line."""
    traceback: str

    @property
    def text(self) -> str:
        """The same as a sentence."""
        return f"{self.name} failed first, in init_rpc: {shortened(self.error)}"


@dataclass(frozen=True, kw_only=True)
class ProgramReport:
    """What is known of one run of a program."""

    ranks: tuple[RankReport, ...]
    """In order of rank, then of time: a process may start RPC again after it was shut down."""
    processes: int
    """Python processes that the hook reached."""
    problems: tuple[str, ...]
    """Why the hook did not work in a process, each as a sentence."""
    unmet: tuple[Rendezvous, ...] = ()
    """Of processes that did not come to start an agent, where they wait for the others."""
    init_failure: InitFailure | None = None
    """The one that came first: the others may have failed for it."""
    states: tuple[Mapping[str, Any], ...] = ()
    """All answers to probes, in the order of the questions."""

    @property
    def waiting(self) -> str:
        """The same as a sentence; empty if none waits."""
        if not self.unmet:
            return ""
        count, size = len(self.unmet), max(each.world_size or 0 for each in self.unmet)
        who = "1 process" if count == 1 else f"{count} processes"
        there = {each.rank for each in self.unmet} | {each.rank for each in self.ranks}
        absent = size - len(there)
        others = plural(absent, "other rank") if absent > 0 else "the others"
        said = f"{who} {'waits' if count == 1 else 'wait'} for {others} at {self.unmet[0].url}"
        if self.nobody_listens_since_ns is None:
            return f"{said}{_BESIDE}" if absent > 0 else said
        return (
            f"{said}: under torchrun nobody listens at a tcp:// address of the program's own; "
            "use init_method='env://', or unset TORCHELASTIC_USE_AGENT_STORE"
        )

    @property
    def nobody_listens_since_ns(self) -> int | None:
        """Since when a process waits at an address that no process will ever listen at."""
        return min((each.time_ns for each in self.unmet if each.nobody_listens), default=None)

    @property
    def is_ready(self) -> bool:
        """Whether the agents of all ranks have started."""
        ready = all(rank.ready_ns is not None for rank in self.ranks)
        return bool(self.ranks) and ready and not self.missing_ranks

    @property
    def missing_ranks(self) -> list[int]:
        """Ranks that the others wait for, and that no process acknowledged."""
        sizes = [rank.world_size for rank in self.ranks if rank.world_size is not None]
        most = min(max(sizes, default=0), MOST_RANKS)
        return sorted({*range(most)} - {rank.rank for rank in self.ranks})

    @property
    def rpc_active_s(self) -> float | None:
        """Seconds from the last rank's `init_rpc` to the last call of `shutdown`.

        A rank that only serves calls `shutdown` at once and waits there: the last one to call it
        is the driver. None if a rank never came so far. Where RPC was started several times, the
        sum. Without a world size no rank waits for the others, and it is from the first one's.
        """
        total_ns = 0
        for world in self.worlds:
            ready = [rank.ready_ns for rank in world if rank.ready_ns is not None]
            shutdown = [rank.shutdown_ns for rank in world if rank.shutdown_ns is not None]
            if len(ready) < len(world) or len(shutdown) < len(world):
                return None
            total_ns += max(shutdown) - (max(ready) if self.has_world_size else min(ready))
        return total_ns / 1e9 if self.ranks else None

    @property
    def used_s(self) -> float | None:
        """Seconds in which the ranks used their `cpu_s`: from the first one's start to the last
        reading. None where none is known."""
        total_ns = 0
        for world in self.worlds:
            begins = [each.ready_ns for each in world if each.ready_ns and each.used_ns]
            ends = [each.used_ns for each in world if each.ready_ns and each.used_ns]
            total_ns += max(ends) - min(begins) if ends else 0
        return total_ns / 1e9 if total_ns > 0 else None

    @property
    def has_world_size(self) -> bool:
        """Whether the ranks are told how many they are; else they may join late and leave early."""
        return all(rank.world_size is not None for rank in self.ranks)

    @property
    def worlds(self) -> list[list[RankReport]]:
        """The ranks by world: those of one are started before any of the next.

        Without a world size it is one world, which ranks leave and join.
        """
        if not self.has_world_size:
            return [[*self.ranks]]
        return by_world(sorted(self.ranks, key=lambda rank: rank.init_ns), lambda rank: rank.rank)

    @property
    def latest(self) -> list[RankReport]:
        """Each rank once, as it was started last; in order of rank."""
        return list({rank.rank: rank for rank in self.ranks}.values())

    @property
    def why_no_rank(self) -> str:
        """Why no rank is known, to follow how the program ended; empty if one is."""
        if self.ranks:
            return ""
        if not self.processes:
            return f", and the hook reached none of its processes: {_REACH}"
        return "".join([" and never called init_rpc", *(f"; {each}" for each in self.problems)])

    def why_missing(self, without: str = "") -> str:
        """Why ranks are missing that the others wait for, as a sentence; empty if none is.

        Args:
            without: What a rank runs without that the hook did not reach; empty: the program is
                known to have started all of its ranks.
        """
        if not self.missing_ranks:
            return ""
        if self.init_failure is not None:
            return self.init_failure.text
        some = first_of([*map(str, self.missing_ranks)], _MOST_NAMED)
        if len(self.unmet) >= len(self.missing_ranks):
            return (
                f"rank {some} did not get past the rendezvous of all ranks at {self.unmet[0].url}"
            )
        if not without:
            return f"the hook did not reach rank {some}: {_REACH}"
        return (
            f"this command knows nothing of rank {some}: another command may have started it; if "
            f"this one did, it runs without {without}, and the hook did not reach it: {_REACH}"
        )

    def notes(self, without: str) -> list[str]:
        """What a person has to know of ranks that may run `without` something."""
        return [*self.problems, *filter(None, [self.why_missing(without)])]


def read_reports(folder: Path) -> ProgramReport:
    """Everything that the processes have written to the folder."""
    found: list[RankReport] = []
    problems: list[str] = []
    unmet: list[Rendezvous] = []
    failures: list[InitFailure] = []
    states: list[dict[str, Any]] = []
    files = sorted(folder.glob("*.jsonl"))
    for file in files:
        events = read_events(file)
        found += map(_rank, agents(events))
        step = _last_step(events)
        if step is not None and step["event"] == "rendezvous":
            unmet.append(Rendezvous(**{fact: step[fact] for fact in Rendezvous._fields}))
        elif step is not None and step["event"] == "init-failed":
            failures.append(InitFailure(**{fact: step[fact] for fact in InitFailure._fields}))
        states += [event for event in events if event["event"] == "state"]
        problems += [
            f"the hook failed in process {event['pid']}: {shortened(event['error'])}"
            for event in events
            if event["event"] == "hook-failed"
        ]
    return ProgramReport(
        ranks=tuple(sorted(found, key=lambda rank: (rank.rank, rank.init_ns))),
        processes=len(files),
        problems=tuple(problems),
        unmet=tuple(unmet),
        init_failure=min((each for each in failures if not _is_over(each, found)), default=None),
        states=tuple(sorted(states, key=lambda state: (state["number"], state["rank"]))),
    )


def _is_over(failure: InitFailure, ranks: Sequence[RankReport]) -> bool:
    """Whether the rank has started after it, in this process or in another."""
    return any(
        rank.rank == failure.rank and (rank.ready_ns or 0) > failure.time_ns for rank in ranks
    )


def _last_step(events: Sequence[Mapping[str, Any]]) -> Mapping[str, Any] | None:
    """The last of a process on its way through `init_rpc`; None if it took none."""
    steps = ("rendezvous", "init_rpc", "init-failed", "ready")
    return next((event for event in reversed(events) if event["event"] in steps), None)


def _rank(agent: Mapping[str, Mapping[str, Any]]) -> RankReport:
    first, ready, shutdown = agent["init_rpc"], agent.get("ready"), agent.get("shutdown")
    # A rank that only serves calls shutdown at once, and serves while it waits there.
    last = agent.get("ended") or shutdown or agent.get("state")
    return RankReport(
        pid=first["pid"],
        name=first["name"],
        rank=first["rank"],
        world_size=first["world_size"],
        role=first["role"],
        backend=first["backend"],
        num_worker_threads=first["num_worker_threads"],
        rpc_timeout_s=first["rpc_timeout"],
        options={knob: first[knob] for knob in _KNOBS},
        cuda_devices=first["cuda_devices"],
        init_ns=first["time_ns"],
        ready_ns=ready["time_ns"] if ready else None,
        shutdown_ns=shutdown["time_ns"] if shutdown else None,
        ended_ns=agent["ended"]["time_ns"] if "ended" in agent else None,
        calls=agent.get("ended", shutdown)["calls"] if shutdown else 0,
        cpu_s=last["cpu_s"] - ready["cpu_s"] if last and ready else None,
        used_ns=last["time_ns"] if last else None,
        peak_rss_mb=last["peak_rss_mb"] if last else None,
        threads=(shutdown or last)["threads"] if last else None,
    )
