"""What the processes of a program have reported, rank by rank."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tuner.text import first_of, listed
from tuner.world.command.events import by_world
from tuner.world.command.process_reports import (
    InitFailure,
    ProcessEnd,
    Raised,
    RankReport,
    Rendezvous,
    read_process,
)

_REACH = (
    "it reaches every Python but one that is started with -S, -I or -E, or with an environment of "
    "its own"
)
BESIDE = "; if another command starts what is missing, name it with --beside"
MOST_RANKS = 10_000
"""The largest world whose missing ranks are named: a program may say any number."""
_MOST_NAMED = 8


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
    other_ends: tuple[ProcessEnd, ...] = ()
    """Those of processes that never were a rank, and that raised."""
    raised: tuple[Raised, ...] = ()
    """In order of time; of what a process raised within a second, the first."""
    gone: frozenset[int] = frozenset()
    """The ids of processes that are gone."""
    newest_start_ns: int = 0
    """When the latest of the processes began that live and are no rank (yet)."""
    states: tuple[Mapping[str, Any], ...] = ()
    """All answers to probes, in the order of the questions."""

    def waiting(self, hint: str = BESIDE) -> str:
        """Who waits in `init_rpc`, for whom and where, as a clause; empty if none does.

        Args:
            hint: What follows where ranks are missing that nothing has started here.
        """
        waits = {each.pid: each.rank for each in self.unmet}
        waits |= {rank.pid: rank.rank for rank in self.latest if rank.ready_ns is None}
        if not waits:
            return ""
        sizes = [each.world_size or 0 for each in self.unmet]
        sizes += [rank.world_size or 0 for rank in self.ranks]
        here = {*waits.values(), *(rank.rank for rank in self.ranks)}
        absent = sorted({*range(min(max(sizes), MOST_RANKS))} - here)
        who = _ranks(waits.values())
        if -1 in waits.values():
            who = "1 process" if len(waits) == 1 else f"{len(waits)} processes"
        said = f"{who} {'waits' if len(waits) == 1 else 'wait'} in init_rpc for " + (
            _ranks(absent) if absent else "the others"
        )
        if self.unmet:
            said += f" at {self.unmet[0].url}"
        if self.no_listener_since_ns is None:
            return f"{said}{hint}" if absent else said
        return (
            f"{said}: under torchrun no process listens at a tcp:// address of the program's own; "
            "use init_method='env://', or unset TORCHELASTIC_USE_AGENT_STORE"
        )

    @property
    def no_listener_since_ns(self) -> int | None:
        """Since when a process waits at an address that no process will ever listen at."""
        return min((each.time_ns for each in self.unmet if each.no_listener), default=None)

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
        """Whether the ranks know how many they are; else they may join late and leave early."""
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
        waiting = self.waiting()
        what = f": {waiting}" if waiting else " and never called init_rpc"
        return "".join([what, *(f"; {each}" for each in self.problems)])

    def why_missing(self, without: str = "", hint: str = "") -> str:
        """Why ranks are missing that the others wait for, as a sentence; empty if none is.

        Args:
            without: What a rank runs without that the hook did not reach; empty: the program is
                known to have started all of its ranks.
            hint: See `waiting`.
        """
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
        return (
            f"this command knows nothing of {some}: another command may have started it; if this "
            f"one did, it runs without {without}, and the hook did not reach it: {_REACH}"
        )

    def notes(self, without: str, hint: str = "") -> list[str]:
        """What a person has to know of ranks that may run `without` something."""
        return [*self.problems, *filter(None, [self.why_missing(without, hint)])]


def _ranks(numbers: Iterable[int]) -> str:
    """`rank 2`, or `ranks 0, 1 and 2`."""
    names = [str(number) for number in sorted(numbers)]
    some = first_of(names, _MOST_NAMED) if len(names) > _MOST_NAMED else listed(names)
    return f"{'rank' if len(names) == 1 else 'ranks'} {some}"


def read_reports(folder: Path) -> ProgramReport:
    """Everything that the processes have written to the folder."""
    processes = [read_process(file) for file in sorted(folder.glob("*.jsonl"))]
    ranks = [rank for process in processes for rank in process.ranks]
    failures = [process.init_failure for process in processes if process.init_failure is not None]
    others = [process for process in processes if not process.ranks]
    states = [state for process in processes for state in process.states]
    return ProgramReport(
        ranks=tuple(sorted(ranks, key=lambda rank: (rank.rank, rank.init_ns))),
        processes=len(processes),
        problems=tuple(problem for process in processes for problem in process.problems),
        unmet=tuple(process.unmet for process in processes if process.unmet is not None),
        init_failure=min((each for each in failures if not _is_over(each, ranks)), default=None),
        other_ends=tuple(sorted(each.end for each in others if each.end and each.end.error)),
        raised=tuple(sorted(each for process in processes for each in process.raised)),
        gone=frozenset(each.end.pid for each in processes if each.end and each.end.gone_ns),
        newest_start_ns=max((each.began_ns for each in others if each.end is None), default=0),
        states=tuple(sorted(states, key=lambda state: (state["number"], state["rank"]))),
    )


def _is_over(failure: InitFailure, ranks: Sequence[RankReport]) -> bool:
    """Whether the rank has started after it, in this process or in another."""
    return any(
        rank.rank == failure.rank and (rank.ready_ns or 0) > failure.time_ns for rank in ranks
    )
