"""How near a trace came to what would stop it: too few threads, and `rpc_timeout`."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

from tuner.roles import role_of
from tuner.text import percent, plural, three_digits
from tuner.trace.analyze.intervals import IntArray, Spans, open_over_time, united
from tuner.trace.model.trace import Trace

_NEVER_NS = np.iinfo(np.int64).max
"""The end of what did not end."""


@dataclass(frozen=True, kw_only=True)
class LeastThreads:
    """The fewest worker threads that a role needs so that what was seen cannot deadlock."""

    role: str
    waiting: int
    """The most threads of one process that waited at once, in served calls, for calls of theirs."""
    under_way: int
    """The most calls to that process that were under way at once."""
    threads: int | None
    """The worker threads of that process; None if the trace does not tell."""

    @property
    def least(self) -> int | None:
        """The fewest threads; None where threads were so short that more might have waited."""
        if self.threads is None or self.waiting < self.threads - 1:
            return self.waiting + 1
        is_all = self.waiting < self.threads and self.under_way <= self.waiting
        return self.waiting + 1 if is_all else None

    @property
    def is_deadlock(self) -> bool:
        """Whether all threads of the process waited: no answer could come."""
        return self.least is None and self.waiting == self.threads

    @property
    def text(self) -> str:
        """What there is to say, in a sentence or two."""
        if self.least is None:
            return (
                f"{self.role} had {plural(self.waiting, 'call')} waiting inside served calls at "
                f"once, with {plural(self.threads or 0, 'thread')}: "
                + (
                    "that is a deadlock. Give it more num_worker_threads."
                    if self.is_deadlock
                    else "it may need more."
                )
            )
        threads = "1 thread is" if self.least == 1 else f"{self.least} threads are"
        enough = f"{threads} enough not to deadlock"
        if not self.waiting:
            return f"{self.role} never had a call waiting inside a served call: {enough}."
        inside = "a served call" if self.waiting == 1 else "served calls"
        calls = plural(self.waiting, "call")
        return f"{self.role} never had more than {calls} waiting inside {inside}: {enough}."


@dataclass(frozen=True, kw_only=True)
class SlowestCall:
    """The call that came nearest to its client's `rpc_timeout`, or had no answer for longest."""

    name: str
    took_s: float
    """To its end, or to the trace's."""
    has_ended: bool
    rpc_timeout_s: float

    @property
    def text(self) -> str:
        """One sentence."""
        took = f"{three_digits(self.took_s)} s"
        limit = f"{three_digits(self.rpc_timeout_s)} s"
        part = percent(self.took_s / self.rpc_timeout_s)
        verb = "took" if self.has_ended else "had no answer after"
        return f"The slowest call {verb} {took}, {part} of rpc_timeout ({limit}): {self.name}."


def least_threads(trace: Trace, roles: Sequence[tuple[str, str]] = ()) -> list[LeastThreads]:
    """What each role needs so that nested calls as those in the trace cannot deadlock.

    A served function that waits for a call of its own holds a thread, and the answer needs another
    one. A function that had not ended by the time of the answer may have waited for it; one that
    returned before did not.

    Args:
        trace: A trace; one that was not recorded by us does not tell which calls are nested.
        roles: Pairs of a role and a pattern of its RPC names; see `tuner.roles.role_of`.

    Returns:
        One value per role, in order of rank: that of the process with the most threads waiting.
        No value where the trace lacks a rank: what that one served, or called, is not known.
    """
    if trace.source != "rpc-tuner" or trace.calls.empty or not _has_all_ranks(trace):
        return []
    waiting, under_way = _most_waiting(trace), _most_under_way(trace)
    by_role: dict[str, LeastThreads] = {}
    for rank in trace.ranks:
        role = role_of(rank.name, roles)
        found = LeastThreads(
            role=role,
            waiting=waiting.get(rank.name, 0),
            under_way=under_way.get(rank.name, 0),
            threads=rank.num_worker_threads,
        )
        if role not in by_role or by_role[role].waiting < found.waiting:
            by_role[role] = found
    return list(by_role.values())


def slowest_call(trace: Trace) -> SlowestCall | None:
    """The call that came nearest to its client's `rpc_timeout`; a call's own timeout is not known.

    Args:
        trace: Any trace.

    Returns:
        The call; None if there is none, or if the trace does not know of a timeout.
    """
    limits_s = {rank.name: rank.rpc_timeout_s for rank in trace.ranks if rank.rpc_timeout_s}
    calls = trace.calls[trace.calls["client"].isin(list(limits_s))]
    if calls.empty:
        return None
    took_s = (calls["end_ns"].fillna(trace.window_ns[1]) - calls["start_ns"]).astype(float) / 1e9
    limit_s = calls["client"].astype(str).map(limits_s).astype(float)
    slowest = int((took_s / limit_s).to_numpy().argmax())
    return SlowestCall(
        name=str(calls["name"].iloc[slowest]),
        took_s=float(took_s.iloc[slowest]),
        has_ended=str(calls["status"].iloc[slowest]) != "unfinished",
        rpc_timeout_s=float(limit_s.iloc[slowest]),
    )


def _has_all_ranks(trace: Trace) -> bool:
    names = {rank.name for rank in trace.ranks}
    called = set(trace.calls["server"].astype(str))
    return called <= names and {rank.rank for rank in trace.ranks} == set(range(len(names)))


def _most_waiting(trace: Trace) -> dict[str, int]:
    """By server, the most of its threads that waited at once in served calls."""
    columns = ["call_id", "server", "server_start_ns", "server_end_ns"]
    outer = trace.calls[columns].set_index("call_id")
    inner = trace.calls[trace.calls["parent_call"].isin(outer.index)]
    inner = inner[inner["kind"].isin(["rpc_sync", "rpc_async", "to_here"])]
    if inner.empty:
        return {}
    around = outer.loc[inner["parent_call"].to_numpy(np.int64)]
    left = around["server_end_ns"].fillna(_NEVER_NS).to_numpy(np.int64)
    answered = inner["end_ns"].fillna(_NEVER_NS).to_numpy(np.int64)
    spans = Spans(
        inner["parent_call"].to_numpy(np.int64),
        inner["start_ns"].to_numpy(np.int64),
        np.minimum(answered, left),
    )
    # Nobody waited for what came back later than the function ended.
    waited = (answered <= left) | (inner["kind"] != "rpc_async").to_numpy()
    held = united(spans.take(waited))
    return _most_open(outer.loc[held.group, "server"], held.start, held.end)


def _most_under_way(trace: Trace) -> dict[str, int]:
    """By server, the most calls to it that were under way at once."""
    ends = trace.calls["end_ns"].fillna(_NEVER_NS).to_numpy(np.int64)
    return _most_open(trace.calls["server"], trace.calls["start_ns"].to_numpy(np.int64), ends)


def _most_open(servers: pd.Series, start: IntArray, end: IntArray) -> dict[str, int]:
    """By server, the most of its spans that were open at once."""
    names = servers.astype(str).to_numpy()
    most = {}
    for name in np.unique(names):
        here = names == name
        most[str(name)] = int(open_over_time(start[here], end[here]).level.max(initial=0))
    return most
