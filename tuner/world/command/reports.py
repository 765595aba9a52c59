"""What the processes of a program have reported, rank by rank."""

from bisect import bisect_left
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, NamedTuple, TypeVar

from tuner.text import first_of, listed, shortened
from tuner.world.messages import Message

BESIDE = "; if another command starts what is missing, name it with --beside"
_MOST_RANKS = 10_000
"""The largest world whose missing ranks are named: a program may say any number."""
_MOST_NAMED = 8
_REACH = ("it reaches every Python but one that is started with -S, -I or -E, or with an "
          "environment of its own, as after os.environ.clear()")  # fmt: skip
_KNOBS = ("num_worker_threads", "rpc_timeout", "transports", "channels", "intra_op_threads",
          "switch_interval", "cpu_binding")  # fmt: skip


_T = TypeVar("_T")


class ProcessEnd(NamedTuple):
    """How a process ended, as far as that is known. Times are Unix nanoseconds, here and below."""

    time_ns: int
    pid: int
    name: str
    """The RPC name, or `rank 2` of one that waited for the others; empty: it knew of neither."""
    error: str
    """What it raised, in one line; empty: nothing, or it could not report it."""
    traceback: str
    reported: bool
    """Whether it ended as Python does; not so by a signal, or by os._exit."""
    gone_ns: int | None
    """When it was seen to be gone; threads of it may go on when it has reported its end."""
    code: int | None
    """Its exit code, as `subprocess` has it, where it is known."""


class Raised(NamedTuple):
    """What a served call of a rank raised, or a thread of it; it may have been handled."""

    time_ns: int
    name: str
    error: str


@dataclass(frozen=True, kw_only=True)
class RankReport:
    """One rank of a program, from its `init_rpc` on. What it never came to is None."""

    pid: int
    name: str
    rank: int
    world_size: int | None
    role: str
    backend: str
    options: Mapping[str, Any]
    """The knobs that its agent was started with, as JSON."""
    cuda_devices: int
    init_ns: int
    """When the agent's start began; `init_rpc` is done at `ready_ns`."""
    ready_ns: int | None
    shutdown_ns: int | None
    """When `shutdown` was called; it is done at `ended_ns`."""
    ended_ns: int | None
    calls: int
    """Those that it issued until it was shut down; 0 if it never was."""
    functions: Mapping[str, int]
    """The same by what they call."""
    failed: int | None
    """How many of them failed at least; None where that is not known."""
    cpu_s: float | None
    """CPU seconds from `ready_ns` to `used_ns`: the end of `shutdown`, or else the last probe."""
    used_ns: int | None
    peak_rss_mb: float | None
    threads: int | None
    overridden: str = ""
    """Which process knob the program has set otherwise after the hook, as a clause."""
    intra_op_threads: int | None = None
    """Those that it had at its end, or last; None where that is not known."""
    has_gil: bool = True
    handing_ns: int | None = None
    """When it began to hand over what it has recorded; that is done at `handed_ns`."""
    handed_ns: int | None = None
    local_size: int = 0
    """How many ranks torchrun has started on its host; 0 if that is not known."""
    end: ProcessEnd | None = None
    """Of its process; None while it runs, and where it went on to start RPC again."""

    @classmethod
    def of(cls, agent: Mapping[str, Message]) -> "RankReport":
        """From the messages of an agent, by kind."""
        first, ready = agent["init_rpc"], agent.get("ready", {})
        shutdown, ended = agent.get("shutdown", {}), agent.get("ended", {})
        # A rank that only serves calls shutdown at once, and serves while it waits there.
        last = ended or shutdown or agent.get("state", {})
        # One that never shuts down reports its calls as it ends.
        told = ended or shutdown or agent.get("exit") or agent.get("answer") or {}
        same = ("pid", "name", "rank", "world_size", "role", "backend", "cuda_devices")
        return cls(
            **{fact: first[fact] for fact in same},
            options={knob: first[knob] for knob in _KNOBS if knob in first},
            local_size=first.get("local_size", 0),
            has_gil=first.get("has_gil", True),
            overridden=(shutdown or last).get("overridden", ""),
            intra_op_threads=(shutdown or last).get("intra_op_threads"),
            init_ns=first["time_ns"],
            ready_ns=ready.get("time_ns"),
            shutdown_ns=shutdown.get("time_ns"),
            ended_ns=ended.get("time_ns"),
            calls=(ended or shutdown).get("calls", 0) if shutdown else 0,
            functions=dict(told.get("functions", ())),
            failed=told.get("failed"),
            cpu_s=last["cpu_s"] - ready["cpu_s"] if last and ready else None,
            used_ns=last.get("time_ns"),
            peak_rss_mb=last.get("peak_rss_mb"),
            threads=(shutdown or last).get("threads"),
            handing_ns=agent.get("hand-over", {}).get("time_ns"),
            handed_ns=agent.get("record-end", {}).get("time_ns"),
        )


class Rendezvous(NamedTuple):
    """Where a process looks for the other ranks, and since when."""

    url: str
    no_listener: bool
    time_ns: int
    pid: int
    rank: int
    """-1 if it does not know."""
    world_size: int | None = None


class InitFailure(NamedTuple):
    """Why `init_rpc` failed for a rank that never got through it since."""

    time_ns: int
    pid: int
    rank: int
    name: str
    """The RPC name, or `rank 2` of one that did not get past the rendezvous."""
    error: str
    traceback: str

    @property
    def text(self) -> str:
        """As a sentence."""
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
    warned: tuple[str, ...] = ()
    """What PyTorch warned of in its own code, each once."""
    unmet: tuple[Rendezvous, ...] = ()
    """Of processes that did not come to start an agent."""
    init_failure: InitFailure | None = None
    """The first one: the others may have failed for it."""
    other_ends: tuple[ProcessEnd, ...] = ()
    """Of processes that never were a rank, and that raised."""
    raised: tuple[Raised, ...] = ()
    gone: frozenset[int] = frozenset()
    running: frozenset[int] = frozenset()
    """Those that have not yet run their exit handlers, as far as is known."""
    newest_start_ns: int = 0
    """When the latest of the processes began that live and are no rank (yet)."""
    states: tuple[Message, ...] = ()
    """All answers to probes, in the order of the questions."""
    counts: Mapping[int, Sequence[Message]] = field(default_factory=dict)
    """By process: how many calls it had made by when, in order."""

    def has_run(self, commands: Collection[int]) -> bool:
        """Whether all ranks, and these processes, have run their exit handlers; one of these that
        the hook did not reach counts as if it had."""
        return bool(self.ranks) and self.running.isdisjoint(
            [*commands, *(rank.pid for rank in self.ranks)]
        )

    def latest_states(self, questions: int) -> Sequence[Message]:
        """The answers to the last questions that any rank has answered."""
        first = self.states[-1]["number"] - questions + 1 if self.states else 0
        return self.states[bisect_left(self.states, first, key=lambda each: int(each["number"])) :]

    def waiting(self, hint: str = BESIDE) -> str:
        """Who waits in `init_rpc`, for whom and where, as a clause; empty if none does. The hint
        follows where ranks are missing."""
        waits = {process.pid: process.rank for process in self.unmet}
        waits |= {rank.pid: rank.rank for rank in self.latest if rank.ready_ns is None}
        if not waits:
            return ""
        sizes = [process.world_size for process in self.unmet]
        sizes += [rank.world_size for rank in self.ranks]
        missing = absent(sizes, [*waits.values(), *(rank.rank for rank in self.ranks)])
        who, wait = _ranks(waits.values()), "waits" if len(waits) == 1 else "wait"
        if -1 in waits.values():
            who = "1 process" if len(waits) == 1 else f"{len(waits)} processes"
        where = f" at {self.unmet[0].url}" if self.unmet else ""
        said = f"{who} {wait} in init_rpc for {_ranks(missing) or 'the others'}{where}"
        if self.no_listener_since_ns is None:
            return f"{said}{hint}" if missing else said
        return (
            f"{said}: under torchrun no process listens at a tcp:// address of the program's own; "
            "use init_method='env://', or unset TORCHELASTIC_USE_AGENT_STORE"
        )

    @property
    def no_listener_since_ns(self) -> int | None:
        """Since when a process waits at an address that no process will ever listen at."""
        return min((process.time_ns for process in self.unmet if process.no_listener), default=None)

    @property
    def is_ready(self) -> bool:
        """Whether the agents of all ranks have started."""
        ready = [rank.ready_ns is not None for rank in self.ranks]
        return bool(ready) and all(ready) and not self.missing_ranks

    @property
    def missing_ranks(self) -> list[int]:
        """Ranks that the others wait for, and that no process acknowledged."""
        return absent([rank.world_size for rank in self.ranks], (rank.rank for rank in self.ranks))

    @property
    def rpc_active_s(self) -> float | None:
        """Seconds from the last rank's `init_rpc` (the first one's, without a world size) to the
        last call of `shutdown`, which is the driver's: who only serves calls it at once. The sum of
        several worlds; None if a rank never came so far."""
        total_ns = 0
        for world in self.worlds:
            ready = [rank.ready_ns for rank in world if rank.ready_ns is not None]
            shutdown = [rank.shutdown_ns for rank in world if rank.shutdown_ns is not None]
            if len(ready) < len(world) or len(shutdown) < len(world):
                return None
            total_ns += max(shutdown) - (max(ready) if self.has_world_size else min(ready))
        return total_ns / 1e9 if self.ranks else None

    def handed_over_s(self, now_ns: int) -> float:
        """Seconds by which the program lasts longer since its ranks hand over what they recorded:
        in each world from when the last one began, to when the last one was done, or is gone."""
        total_ns = 0
        for world in self.worlds:
            begun = [rank for rank in world if rank.handing_ns is not None]
            gone_ns = {rank.pid: rank.end.gone_ns for rank in begun if rank.end is not None}
            ends = [rank.handed_ns or gone_ns.get(rank.pid) or now_ns for rank in begun]
            starts = [rank.handing_ns or now_ns for rank in begun]
            total_ns += max(0, max(ends) - max(starts)) if begun else 0
        return total_ns / 1e9

    @property
    def is_handing_over(self) -> bool:
        """Whether a rank hands over what it has recorded."""
        return any(
            rank.handing_ns is not None and rank.handed_ns is None and rank.pid not in self.gone
            for rank in self.latest
        )

    @property
    def used_s(self) -> float | None:
        """Seconds from the first rank's start to the last reading of `cpu_s`, if any is known."""
        total_ns = 0
        for world in self.worlds:
            if used := [(r.ready_ns, r.used_ns) for r in world if r.ready_ns and r.used_ns]:
                begins, ends = zip(*used, strict=True)
                total_ns += max(ends) - min(begins)
        return total_ns / 1e9 if total_ns > 0 else None

    @property
    def has_world_size(self) -> bool:
        """Whether the ranks know how many they are; else they may join late and leave early."""
        return all(rank.world_size is not None for rank in self.ranks)

    @property
    def worlds(self) -> list[list[RankReport]]:
        """The ranks by world, in order; without a world size it is one, which they join late."""
        if not self.has_world_size:
            return [[*self.ranks]]
        return by_world(sorted(self.ranks, key=lambda rank: rank.init_ns), lambda rank: rank.rank)

    @property
    def latest(self) -> list[RankReport]:
        """Each rank once, as it was started last; in order of rank."""
        return list({rank.rank: rank for rank in self.ranks}.values())

    def why_no_rank(self, *, has_ended_well: bool) -> str:
        """Why no rank is known, to follow how the program ended; empty if one is."""
        if self.ranks:
            return ""
        if not self.processes:
            return f", and the hook reached none of its processes: {_REACH}"
        what = f": {waiting}" if (waiting := self.waiting()) else " and never called init_rpc"
        if has_ended_well and not waiting:
            what += f", as far as the hook sees: {_REACH}"
        return "; ".join([what, *self.problems])

    def why_missing(self, without: str = "", hint: str = "") -> str:
        """Why ranks are missing that the others wait for, as a sentence; empty if none is. A rank
        that the hook did not reach runs `without` it; empty: the program has started all ranks."""
        if not self.missing_ranks:
            return self.waiting(hint) if self.unmet and not self.ranks else ""
        if self.init_failure is not None:
            return self.init_failure.text
        some = _ranks(self.missing_ranks)
        if len(self.unmet) >= len(self.missing_ranks):
            return f"{some} did not get past the rendezvous of all ranks at {self.unmet[0].url}"
        if waiting := self.waiting(hint):
            return waiting
        if not without:
            return f"the hook did not reach {some}: {_REACH}"
        unknown = f"this command knows nothing of {some}: another command may have started it"
        runs = f"it runs without {without}. The hook did not reach it then"
        return f"{unknown}. If this one did, {runs}: {_REACH}"

    def notes(self, without: str, hint: str = "") -> list[str]:
        """What a person has to know of ranks that may run `without` something."""
        return [*self.problems, *filter(None, [self.why_missing(without, hint)])]


def absent(sizes: Iterable[int | None], there: Iterable[int]) -> list[int]:
    """The ranks below the largest of these world sizes that are not there."""
    most = max((size or 0 for size in sizes), default=0)
    return sorted({*range(min(most, _MOST_RANKS))} - {*there})


def _ranks(numbers: Iterable[int]) -> str:
    """`rank 2`, or `ranks 0, 1 and 2`; empty if there is none."""
    names = [str(number) for number in sorted(numbers)]
    some = first_of(names, _MOST_NAMED) if len(names) > _MOST_NAMED else listed(names)
    return f"{'rank' if len(names) == 1 else 'ranks'} {some}" if names else ""


def agents(messages: Sequence[Message]) -> Iterator[dict[str, Message]]:
    """The messages of each agent of a process, by kind: a process may start RPC again."""
    starts = [place for place, message in enumerate(messages) if message["kind"] == "init_rpc"]
    for start, end in pairwise([*starts, len(messages)]):
        yield {message["kind"]: message for message in messages[start:end]}


def by_world(agents: Iterable[_T], rank_of: Callable[[_T], int]) -> list[list[_T]]:
    """Agents in the order of their starts, by world: a rank that is there begins another one."""
    worlds: list[dict[int, _T]] = []
    for agent in agents:
        if not worlds or rank_of(agent) in worlds[-1]:
            worlds.append({})
        worlds[-1][rank_of(agent)] = agent
    return [[*world.values()] for world in worlds]
