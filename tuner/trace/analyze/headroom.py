"""How near a trace came to a deadlock: the fewest worker threads that each role needs."""

import math
from collections.abc import Collection, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

from tuner.roles import role_of
from tuner.text import plural
from tuner.torch_private.private_names import BACKWARD
from tuner.trace.analyze.call_times import BLOCKING, NEVER_NS, call_times, nested_waits
from tuner.trace.analyze.callbacks import NAME, with_callbacks
from tuner.trace.analyze.diagnosis_rules import few_named
from tuner.trace.analyze.time_spans import Spans, floats, open_over_time, united
from tuner.trace.model.trace import BoolArray, FloatArray, Trace

ALLOWED_OFF_US = 50
"""A call that was off the CPU for longer may have waited for another one: of 17,000 calls that only
computed, 99 % were off it for less than 20 us; a script's call took 150 us at least."""
OFTEN = 0.05  # a function is named if so many of its calls waited: a few may have met the GIL
WAITED = 0.1  # calls that were off the CPU for less of their time waited for nothing
SOON_NS, SOON = 500_000, 0.05
"""A wait that another call ended is over so soon after it, in ns or as a share of the wait."""
BESIDE = 0.25  # calls began together if the time between is no more of their wait
NEXT = 4  # each call is compared with so many that began after it
FEW = 4  # pairs of calls, which show nothing
MOST = 0.5


@dataclass(frozen=True, kw_only=True)
class LeastThreads:
    """The fewest worker threads that a role needs so that what was seen cannot deadlock."""

    role: str
    waiting: int
    """The most threads of one process that waited at once, in served calls, for calls of theirs."""
    may_wait: int
    """The same with those that were off the CPU, which may have waited for other calls."""
    functions: tuple[str, ...]  # what these calls ran, the most frequent first
    under_way: int  # the most calls to that process that were under way at once
    threads: int | None  # its worker threads; None if the trace does not say
    is_sure: bool
    """Whether every served call of the role was seen, on the CPU or in calls that are recorded."""
    has_ended: bool  # every call that the process served
    stuck: int  # its threads that waited, for calls of theirs, when the trace ended
    inside: str = "served calls"
    """Where these calls waited: there, in `callbacks`, or in both."""

    @property
    def least(self) -> int | None:
        """The fewest threads; None where calls may have waited that the trace does not show."""
        if not self.is_sure:
            return None
        if not self.waiting or self.threads is None or self.waiting < self.threads - 1:
            return self.waiting + 1
        is_all = self.waiting < self.threads and self.under_way <= self.waiting
        return self.waiting + 1 if is_all else None

    @property
    def at_least(self) -> int:
        """With fewer threads, the calls that were seen may deadlock."""
        if self.may_wait == self.threads and self.has_ended:
            return self.may_wait
        # An answer, or another served call that ends the wait, needs a thread.
        alone = not self.waiting and self.may_wait == self.under_way > 1
        return self.may_wait + (not alone)

    @property
    def is_deadlock(self) -> bool:
        """Whether all threads of the process waited at the end: no answer could come."""
        return self.stuck == self.threads

    @property
    def text(self) -> str:
        """What there is to say, in a sentence or two; empty where nothing is known."""
        calls = plural(self.waiting, "call")
        if self.is_deadlock or (self.least is None and self.is_sure):
            deadlock = "that is a deadlock. Give it more num_worker_threads"
            return (
                f"{self.role} had {calls} waiting inside {self.inside} at once, with "
                f"{plural(self.threads or 0, 'thread')}: "
                f"{deadlock if self.is_deadlock else 'it may need more'}."
            )
        if self.least is None:
            return self._doubt
        most = f"more than {calls}" if self.waiting else "a call"
        inside = self.inside if self.waiting > 1 else f"a {self.inside[:-1]}"
        enough = f"{plural(self.least, 'thread')} {'is' if self.least == 1 else 'are'} enough"
        return f"{self.role} never had {most} waiting inside {inside}: {enough} not to deadlock."

    def doubt(self, server: str) -> str:
        """Why fewer threads than `at_least` may not do for a process of the role."""
        calls = f"calls of {few_named(self.functions)} " if self.functions else "its calls "
        return (
            f"fewer than {plural(self.at_least, 'thread')} of {server} may deadlock, as {calls}"
            "seem to wait for each other, or for calls that the trace does not show"
        )

    @property
    def _doubt(self) -> str:
        if not self.functions or self.at_least < 2:
            return ""
        is_one = self.may_wait == 1
        at_once = "one at a time" if is_one else f"up to {self.may_wait} at once"
        own, so = " or waited for calls of their own", "Fewer"
        if not self.waiting:
            others = "" if is_one else "for each other, or "
            own, so = "", f"If they waited {others}for calls that the trace does not show, fewer"
        return (
            f"{self.role} ran {self._what} that were off the CPU{own}, "
            f"{at_once}. {so} than {self.at_least} threads may deadlock."
        )

    @property
    def _what(self) -> str:
        """What ran: `calls of f`, or `callbacks (g)`."""
        named = few_named([name.removeprefix(NAME) for name in self.functions])
        if all(name.startswith(NAME) for name in self.functions):
            return f"callbacks ({named})"
        return f"calls of {few_named(self.functions)}"


def least_threads(trace: Trace, roles: Sequence[tuple[str, str]] = ()) -> list[LeastThreads]:
    """What each role needs so that calls as those in the trace cannot deadlock.

    A served function that waits for a call of its own holds a thread, and the answer needs another
    one. One that returned before the answer did not wait for it. One that was off the CPU beside
    its calls may have waited for another served function, or for a call that the trace does not
    show, as those of scripts and of distributed autograd: then nothing is promised. For `roles` see
    `tuner.roles.role_of`.

    Returns:
        One value per role, in order of rank: that of a process in a deadlock, else of the process
        with the most threads waiting. No value where the trace lacks a rank, or does not say which
        calls are nested, as only ours do.
    """
    known, called = {rank.name for rank in trace.ranks}, set(trace.calls["server"].astype(str))
    has_all = called <= known and {rank.rank for rank in trace.ranks} == set(range(len(known)))
    if trace.source != "rpc-tuner" or trace.calls.empty or not has_all:
        return []
    trace = with_callbacks(trace)
    calls, held = trace.calls.set_index("call_id"), nested_waits(trace.calls)
    served = _served(trace.calls, held)
    off = served[served["is_off"]]
    off_cpu = (off.index.to_numpy(), off["start"].to_numpy(), off["end"].to_numpy())
    waiting = _most_open(served, held)
    stuck = _most_open(served, held.take(held.end == NEVER_NS))
    both = Spans(*map(np.concatenate, zip(held, off_cpu, strict=True)))
    may_wait = _most_open(served, united(both))
    open_ns = Spans.of(calls.fillna({"end_ns": NEVER_NS}))
    under_way = _most_open(calls, open_ns._replace(group=calls.index.to_numpy()))
    waits = served["is_off"] | served.index.isin(held.group)
    may_hide = (calls["body"] == "script").any() or _hides_calls(trace)
    by_role: dict[str, LeastThreads] = {}
    for rank in trace.ranks:
        role = role_of(rank.name, roles)
        names = [each.name for each in trace.ranks if role_of(each.name, roles) == role]
        mine = served[served["server"].isin(names)]
        is_sure = bool((mine["is_seen"] & ~mine["is_off"]).all())
        number = mine.loc[waits[mine.index], "function"].value_counts()
        often = number[number >= OFTEN * mine["function"].value_counts()[number.index]]
        found = LeastThreads(
            role=role,
            waiting=waiting.get(rank.name, 0),
            may_wait=may_wait.get(rank.name, 0),
            functions=tuple(often.index),
            under_way=under_way.get(rank.name, 0),
            threads=rank.num_worker_threads,
            is_sure=not may_hide and len(mine) > 0 and is_sure,
            has_ended=bool(mine["has_ended"][mine["server"] == rank.name].all()),
            stuck=stuck.get(rank.name, 0),
            inside=_inside(mine[mine.index.isin(held.group)]),
        )
        # Of equal ones, the first.
        both_of = (by_role.get(role, found), found)
        by_role[role] = max(both_of, key=lambda it: (it.is_deadlock, it.may_wait, it.waiting))
    return list(by_role.values())


def _inside(waited: pd.DataFrame) -> str:
    """What the rows are that waited for calls of their own."""
    kinds = {True: "callbacks", False: "served calls"}
    found = {kinds[is_callback] for is_callback in waited["function"].str.startswith(NAME)}
    return " and ".join(sorted(found or {"served calls"}, reverse=True))


def wait_for_others(trace: Trace, rank: int, explained: Collection[int] = ()) -> bool:
    """Whether calls that a process served may have waited for others that need its threads.

    False where they waited for nothing, or for none: most of their waits ended when no other call
    of the process began or ended, or took as long whenever the call began. Calls of which it is
    known otherwise what they waited for are left out, by their ids: `explained`.
    """
    calls = trace.calls
    calls = calls[(calls["server_rank"] == rank) & calls["server_end_ns"].notna()]
    served = _served(trace.calls, nested_waits(trace.calls))
    calls = calls[calls["call_id"].isin(served.index)]
    served = served.loc[calls["call_id"]]
    wall_ns = (served["end"] - served["start"]).to_numpy(np.float64)
    off_ns = 1e3 * served["off_us"].to_numpy(np.float64)
    waits = served["is_off"] & ~served.index.isin([*explained])
    waits &= ~(off_ns < WAITED * wall_ns)
    if not waits.any():
        return False
    if _hides_calls(trace) or np.isnan(off_ns[waits]).any():
        return True
    queued_ns = np.nan_to_num(floats(calls, "run_queue_ns"))
    is_apart = _is_apart(served, np.nan_to_num(off_ns), queued_ns)
    for _, own in served[waits].groupby("function"):
        places = served.index.get_indexer(own.index)
        apart_ns = off_ns[places][is_apart[places]].sum()
        if apart_ns < MOST * off_ns[places].sum() and not _last_alike(own):
            return True
    return False


def _is_apart(served: pd.DataFrame, off_ns: FloatArray, queued_ns: FloatArray) -> BoolArray:
    """Whether no other call of the process began, or ended, just before the end of each."""
    start, end = (served[edge].to_numpy(np.float64) for edge in ("start", "end"))
    starts, ends = np.sort(start), np.sort(end)
    soon_ns = np.maximum(SOON * off_ns, SOON_NS)
    since = end - queued_ns - soon_ns
    # Itself ends in this span, and may have begun in it.
    near = np.searchsorted(ends, end + soon_ns, "right") - np.searchsorted(ends, since) - 1
    near += np.searchsorted(starts, end) - np.searchsorted(starts, since) - (start >= since)
    return np.asarray(near <= 0)


def _last_alike(served: pd.DataFrame) -> bool:
    """Whether calls of a function that began a little later than another waited for as long.

    If they waited for one and the same thing, they would have waited for so much less.
    """
    ordered = served.sort_values("start")
    start, off = ordered["start"].to_numpy(np.float64), 1e3 * ordered["off_us"].to_numpy(np.float64)
    is_alike, weight = [np.zeros(0, bool)], [np.zeros(0)]
    for lag in range(1, min(NEXT, len(start) - 1) + 1):
        later, longer = start[lag:] - start[:-lag], off[lag:] - off[:-lag]
        together = (later > 0) & (later <= BESIDE * off[lag:])
        is_alike.append((np.abs(longer) < np.abs(longer + later))[together])
        weight.append(later[together])
    alike, weights = np.concatenate(is_alike), np.concatenate(weight)
    if len(alike) < FEW:
        return False
    # By chance half of them are, and none where they waited for one thing.
    return float(alike @ weights / weights.sum()) > MOST + 1 / math.sqrt(len(alike))


def _hides_calls(trace: Trace) -> bool:
    """Whether the ranks make calls that are not recorded."""
    is_backward = (trace.operators["name"] == BACKWARD).any()
    return bool(is_backward or any(rank.scripts_call for rank in trace.ranks))


def _served(calls: pd.DataFrame, held: Spans) -> pd.DataFrame:
    """By call id: what ran on servers, and whether it was off the CPU, beside `held`, in calls."""
    times = call_times(calls)
    # Beside an asynchronous call a function may compute first: of that time, it surely waited only
    # for what is longer than all of its time on the CPU.
    blocking_us = _sums_us(calls, nested_waits(calls, BLOCKING))
    beside_us = _sums_us(calls, held) - blocking_us
    computed_us = times["on_cpu_us"] + times["run_queue_us"]
    off_us = times["off_cpu_us"] - blocking_us - np.maximum(beside_us - computed_us, 0)
    begun = calls["server_start_ns"].notna()
    found = calls[["call_id"]].assign(
        server=calls["server"].astype(str),
        function=calls["function"].astype(str),
        start=calls["server_start_ns"].fillna(0).astype("int64"),
        end=calls["server_end_ns"].fillna(NEVER_NS).astype("int64"),
        has_ended=calls["server_end_ns"].notna() | ~begun,
        is_seen=begun & off_us.notna(),
        # An operator waits for no call; what a script waits for is not known.
        is_off=begun & (calls["body"] == "python") & ~(off_us <= ALLOWED_OFF_US),
        off_us=off_us,
    )
    return found[calls["body"] != "fetch"].set_index("call_id")


def _sums_us(calls: pd.DataFrame, spans: Spans) -> FloatArray:
    """The time of each call's spans; their group is the call's id."""
    row = pd.Index(calls["call_id"]).get_indexer(pd.Index(spans.group))
    return spans._replace(group=row.astype(np.int64)).by_group_ns(len(calls)) / 1e3


def _most_open(calls: pd.DataFrame, spans: Spans) -> dict[str, int]:
    """By server, the most of its calls' spans that were open at once; `calls` is by call id."""
    names = calls.loc[spans.group, "server"].astype(str).to_numpy()
    of_each = {str(name): spans.take(names == name) for name in np.unique(names)}
    return {
        name: int(open_over_time(own.start, own.end).level.max(initial=0))
        for name, own in of_each.items()
    }
