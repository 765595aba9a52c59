"""Which process of a program failed first, and whether the others wait for it in vain."""

from bisect import bisect_left
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from itertools import chain, groupby
from typing import NamedTuple

from tuner.text import shortened
from tuner.world.command.reports import ProcessEnd, ProgramReport, Raised, RankReport
from tuner.world.messages import Message
from tuner.world.postmortem import ending, was_interrupted, was_killed

GRACE_S = 3.0
"""After a rank has failed, the program gets this long to end, or to begin to start it again; and
`shutdown`, in which ranks wait for one that is gone."""
UNBEGUN_S = 30.0
"""So long it gets where it may be trying again: in `init_rpc`, or with new processes."""
STILL_S = 4.0
"""Ranks that do nothing at all for so long wait in vain, where something has failed before."""
# So ends PyTorch's error of a rank whose peer is gone: that one failed first.
_BROKEN = "(this error originated at tensorpipe/"
# Of a CPU, for the threads of the program in a rank, and for how coarse the clocks are.
_IDLE_SHARE, _IDLE_S = 0.005, 0.01


@dataclass(frozen=True)
class Cause:
    """What kept a run of a program from a good end: how a process ended, or what it raised."""

    time_ns: int
    rank: str | None
    """Its name; None: of no rank that is known."""
    text: str
    traceback: str = ""
    in_init: bool = False
    killed_externally: bool = False


def failed_first(report: ProgramReport, until_ns: int | None = None) -> Cause | None:
    """The first rank whose own end is a failure, whatever became of the others; None if none is.
    What came after the program's end, `until_ns`, is no cause of it."""
    causes = [_of_end(rank) for rank in _gone(report) if _is_failure(rank.end)]
    if (failed := report.init_failure) is not None:
        causes += [Cause(failed.time_ns, failed.name, failed.text, failed.traceback, in_init=True)]
    first = _first([cause for cause in causes if until_ns is None or cause.time_ns <= until_ns])
    if first is not None and _BROKEN in first.text:
        return _peer_of(first, report) or first
    return first


def given_up(report: ProgramReport, now_ns: int) -> Cause | None:
    """Why a run cannot come to a good end any more; None while it can."""
    if (first := failed_first(report)) is not None:
        unbegun = report.init_failure is not None and report.init_failure.pid not in report.gone
        may_try_again = unbegun or report.newest_start_ns > first.time_ns
        if now_ns - first.time_ns > (UNBEGUN_S if may_try_again else GRACE_S) * 1e9:
            return first
    return stuck(report, now_ns)


def stuck(report: ProgramReport, now_ns: int) -> Cause | None:
    """For what the ranks wait in vain: what failed before all of them stood still; None if nothing.
    Where others go on, a rank that ended without `shutdown`, or a failed call, is no failure."""
    gone = [*_gone(report)]
    if waited_for := [_of_end(rank) for rank in gone if _is_waited_for(rank, report, now_ns)]:
        return _first(waited_for)
    living = _living(report)
    failed = [_of_end(rank) for rank in gone if _is_failure(rank.end)]
    causes = _before(_still(report, living), [*failed, *map(_of_stranger, report.other_ends)])
    # All else may be as the program wants it, and then a thread of it goes on some time.
    still = _still(report, living, daemons=True)
    causes += _before(still, [_of_end(rank) for rank in gone if _is_owed(rank)])
    if still is not None and _waits_in_rpc(report, living):
        # They are in order of time.
        since = bisect_left(report.raised, still.moved_ns, key=lambda raised: raised.time_ns)
        causes += _before(still, [*map(_of_raised, report.raised[since:])])
    return _first(causes)


def alone_gone(report: ProgramReport) -> str:
    """The name of the only rank that is gone without `shutdown`; empty if none or several are."""
    names = [rank.name for rank in _gone(report) if _is_owed(rank)]
    return names[0] if len(names) == 1 else ""


def suspected_ns(report: ProgramReport) -> int | None:
    """When something happened last that ranks may wait for in vain; None if nothing did."""
    ends = [rank.end for rank in _gone(report) if _is_failure(rank.end) or _is_owed(rank)]
    # The ranks' errors are in order of time.
    times = [e.time_ns for e in (*report.other_ends, *report.raised[-1:], *ends) if e]
    return max(times, default=None)


def _gone(report: ProgramReport) -> Iterator[RankReport]:
    """The ranks whose processes have ended, and that no process has taken the place of."""
    # In order of rank, then of time.
    started = {rank.rank: rank.init_ns for rank in report.ranks}
    for rank in report.ranks:
        if rank.end is not None and started[rank.rank] <= rank.end.time_ns:
            yield rank


def _is_failure(end: ProcessEnd | None) -> bool:
    """Whether a process was neither done nor asked to end."""
    if end is None or end.error:
        return end is not None
    return not end.reported and bool(end.code) and not was_interrupted(end.code or 0)


def _is_owed(rank: RankReport) -> bool:
    """Whether the others may wait for it: they learn of its end by `shutdown` alone."""
    return bool(rank.end and rank.end.gone_ns) and rank.shutdown_ns is None


def _is_waited_for(rank: RankReport, report: ProgramReport, now_ns: int) -> bool:
    """Whether others wait for it in `shutdown`, which waits for each rank of a world."""
    if not _is_owed(rank) or rank.world_size is None or rank.end is None:
        return False
    outside = [each for each in report.latest if each.shutdown_ns is None]
    if any(process.end is not None and process.end.gone_ns is None for process in outside):
        return False  # it is about to end
    # Those that are done now may have gone on until then, and now the program may end the others.
    ended_ns = max(map(_ended_ns, _gone(report)))
    states = {state["pid"]: state for state in report.states}
    waits = [
        max(each.shutdown_ns, ended_ns)
        for each in report.latest
        if each.shutdown_ns is not None and each.ended_ns is None and each.end is None
        # It is in there, and for as long as it takes.
        if (state := states.get(each.pid)) is None
        or (not state["sleeps"] and state["pool_size"] is not None)
    ]
    if not any(now_ns - since_ns > GRACE_S * 1e9 for since_ns in waits):
        return False
    # A rank that serves calls shutdown at once: those that call it may go on.
    others = {process.pid for process in outside} | {process.pid for process in report.unmet}
    others &= _living(report)
    return not others or bool(_before(_still(report, others), [_of_end(rank)]))


def _ended_ns(rank: RankReport) -> int:
    """When a rank was gone, as far as that is known."""
    return (rank.end.gone_ns or rank.end.time_ns) if rank.end is not None else 0


def _living(report: ProgramReport) -> set[int]:
    """The ids of the ranks that run, and are not shut down."""
    living = {rank.pid for rank in report.latest if rank.ended_ns is None and rank.end is None}
    return living | {process.pid for process in report.unmet if process.pid not in report.gone}


def _waits_in_rpc(report: ProgramReport, living: set[int]) -> bool:
    """Whether one of these ranks waits for another one, as far as RPC knows."""
    if any(rank.pid in living and rank.shutdown_ns is not None for rank in report.latest):
        return True
    silent = {*living}
    for state in reversed(report.states):
        if state["pid"] in silent:
            silent.remove(state["pid"])
            if state["pool_size"] is None or state["serving"] or state["calling"]:
                return True
        if not silent:
            break
    return False


def _peer_of(broken: Cause, report: ProgramReport) -> Cause | None:
    """The rank whose end has broken a connection, if it is known which one it was."""
    lost = [rank for rank in _gone(report) if rank.shutdown_ns is None and rank.name != broken.rank]
    silent = [_of_end(rank) for rank in lost if rank.end and not rank.end.reported]
    reported = [_of_end(rank) for rank in lost if rank.end and rank.end.reported]
    earlier = _first([cause for cause in reported if cause.time_ns < broken.time_ns])
    return earlier or (silent[0] if len(silent) == 1 else None)


def _of_end(rank: RankReport) -> Cause:
    end = rank.end
    assert end is not None
    where = ", in shutdown" if rank.shutdown_ns is not None and rank.ended_ns is None else ""
    if rank.ready_ns is None:
        where = ", in init_rpc"
    if end.error:
        text = f"{end.name} failed first{where}: {shortened(end.error)}"
    elif end.code and not end.reported:
        text = f"{end.name} failed first{where} ({ending(end.code)})"
    elif end.reported:
        text = f"{end.name} ended without shutdown, and others wait for it"
    else:
        text = f"{end.name} was killed first, or it called os._exit"
    killed = not end.reported and was_killed(end.code or 0)
    return Cause(end.time_ns, end.name, text, end.traceback, rank.ready_ns is None, killed)


def _of_stranger(end: ProcessEnd) -> Cause:
    who, where = (end.name, ", in init_rpc") if end.name else ("a process that is no rank", "")
    text = f"{who} failed first{where}: {shortened(end.error)}"
    return Cause(end.time_ns, end.name or None, text, end.traceback, in_init=bool(end.name))


def _of_raised(raised: Raised) -> Cause:
    text = f"{raised.name or 'a process'} failed first: {shortened(raised.error)}"
    return Cause(raised.time_ns, raised.name or None, text)


def _first(causes: list[Cause]) -> Cause | None:
    return min(causes, key=lambda cause: (_BROKEN in cause.text, cause.time_ns), default=None)


class _Still(NamedTuple):
    """When all living ranks stood still."""

    since_ns: int
    until_ns: int
    moved_ns: int
    """When they were seen last before their last call."""


def _before(still: _Still | None, causes: list[Cause]) -> list[Cause]:
    """Those of the causes after which the ranks have stood still for long enough."""
    if still is None:
        return []
    limit_ns = still.until_ns - STILL_S * 1e9
    return [cause for cause in causes if max(cause.time_ns, still.since_ns) <= limit_ns]


def _still(report: ProgramReport, living: set[int], *, daemons: bool = False) -> _Still | None:
    """Since when all these ranks, and with `daemons` their daemon threads, do nothing; None if one
    does anything."""
    complete = _complete(report, living)
    last = next(complete, None) if living else None
    if last is None:
        return None
    if daemons and any(state["daemon_sleeps"] for state in last):
        return None
    # What has no agent is in init_rpc; or its shutdown has failed, and it goes on.
    begun = {rank.pid for rank in report.latest if rank.ready_ns is not None}
    begun -= {process.pid for process in report.unmet}
    calls = [state["calls"] for state in last]
    is_alike = True
    since, moved = list[Message](), list[Message]()
    # Not all answers, which are more with each look: those since it moved last.
    for each in chain([last], complete):
        is_alike = is_alike and all(map(partial(_is_still, begun), each, last))
        if is_alike:
            since = each
        elif not since:
            return None
        if not moved and [state["calls"] for state in each] != calls:
            moved = each
        if moved and not is_alike:
            break
    return _Still(
        # One that has ended since may have gone on until then.
        since_ns=max([*(state["time_ns"] for state in since), *map(_ended_ns, _gone(report))]),
        until_ns=min(state["time_ns"] for state in last),
        moved_ns=min((state["time_ns"] for state in moved), default=0),
    )


def _complete(report: ProgramReport, living: set[int]) -> Iterator[list[Message]]:
    """The answers of all these ranks to each question that all have answered, the latest first: one
    that is busy answers late, or not at all."""
    for _, answers in groupby(reversed(report.states), key=lambda state: state["number"]):
        found = {state["pid"]: state for state in reversed([*answers])}
        if living <= found.keys():
            yield [found[pid] for pid in living]


def _is_still(begun: set[int], before: Message, now: Message) -> bool:
    """Whether a rank did nothing between two answers, and waits for no time to go by."""
    if before["pool_size"] is now["pool_size"] is None and now["pid"] not in begun:
        return True
    if before["busy_s"] is None or now["busy_s"] is None or before["sleeps"] or now["sleeps"]:
        return False
    used_s, passed_s = (now[name] - before[name] for name in ("busy_s", "monotonic_s"))
    is_idle = used_s <= _IDLE_S + _IDLE_SHARE * passed_s
    return is_idle and all(before[n] == now[n] for n in ("calls", "serving", "calling"))
