"""What calls of a program wait for together: semaphores, and results that several complete.

A function that waits off the CPU until another function of its process has been left, time and
again, takes a semaphore which the other one gives back. Calls of a function that were served at
once, but never inside operators at once, take turns with these.
"""

from collections import defaultdict
from itertools import permutations
from typing import NamedTuple

import numpy as np
import pandas as pd

from tuner.trace.analyze.call_times import call_times
from tuner.trace.analyze.server_evidence import gather
from tuner.trace.analyze.time_spans import Spans, floats, united
from tuner.trace.model.trace import FloatArray, IntArray, Trace

WAITING = 0.9  # a function that is off the CPU for so much of its time only waits
VARY = 0.3  # waits that vary less than this, relative to the mean, may last for a fixed time
FEW = 4  # calls, or turns, which show nothing
UNEXPLAINED = 0.1  # of the time of all waits, or of the calls waited for, may be so much
MOST_PERMITS = 64
GIL = 0.5  # of the time of all waits: others had it for no longer


class Held(NamedTuple):
    """When a call had a semaphore, in nanoseconds."""

    semaphore: int
    since: float
    until: float


class Turns(NamedTuple):
    """The semaphores of a program, and what its calls, by their place, do with them."""

    permits: list[int]  # by semaphore: how many calls can have it at once
    takes: dict[int, int]  # the semaphore that a call waits for, and then ends
    gives: dict[int, int]  # the one that a call gives back at its end
    holds: dict[int, Held]

    @classmethod
    def of(cls, trace: Trace) -> "Turns":
        """Those that a trace shows; none where no function only waits for another."""
        calls = trace.calls
        begun, left = floats(calls, "server_start_ns"), floats(calls, "server_end_ns")
        off = call_times(calls)["off_cpu_us"].to_numpy() * 1e3
        rows = calls[~np.isnan(left) & ~np.isnan(off)].sort_values("server_start_ns")
        by = rows.groupby(["server_rank", "function"], observed=True)
        groups = dict[tuple[int, str], IntArray]((key, own.index.to_numpy()) for key, own in by)  # type: ignore[misc]
        waits: dict[tuple[str, str], int] = {}
        pairs = [each for each in permutations(groups, 2) if each[0][0] == each[1][0]]
        for waiting, other in pairs:
            own, given = groups[waiting], np.sort(left[groups[other]])
            only_waits = np.sum(off[own]) >= WAITING * np.sum(left[own] - begun[own])
            if only_waits and not calls.loc[own, "call_id"].isin(calls["parent_call"]).any():
                permits = _permits(begun[own], left[own], given)
                if permits is not None and not _is_gil(trace, own):
                    waits[waiting[1], other[1]] = permits
        found, servers = cls([], {}, {}, {}), set[int]()
        for waiting, other in pairs:
            permits = waits.get((waiting[1], other[1]))
            if permits is None or (other[1], waiting[1]) in waits:
                continue  # or it is not known which of the two waits
            # What a function does in one process it does in all.
            own, others = groups[waiting], groups[other]
            early = np.sort(left[others])[: max(len(own) - permits, 0)]
            early = early - left[own][permits : permits + len(early)]
            if np.maximum(early, 0).sum() <= UNEXPLAINED * np.sum(left[others] - begun[others]):
                found.takes.update(dict.fromkeys(own.tolist(), len(found.permits)))
                found.gives.update(dict.fromkeys(others.tolist(), len(found.permits)))
                found.permits.append(permits)
                servers.add(waiting[0])
        for (server, _), own in groups.items():
            if server in servers:
                found._add_turns(trace, own)
        return found

    @property
    def places(self) -> set[int]:
        """Where the calls are that do anything with one."""
        return {*self.takes, *self.gives, *self.holds}

    def _add_turns(self, trace: Trace, places: IntArray) -> None:
        """Add a semaphore for the calls of a function, if they take turns with their operators."""
        calls, operators = trace.calls.loc[places], trace.operators
        spans = operators[operators["call_id"].isin(calls["call_id"])].groupby("call_id")
        edges = spans["start_ns"].min(), spans["end_ns"].max()
        first, last = (each.reindex(calls["call_id"]).to_numpy(np.float64) for each in edges)
        if np.isnan(first).any():
            return
        order = np.argsort(first)
        begun, first, last = floats(calls, "server_start_ns")[order], first[order], last[order]
        waited = np.concatenate(([False], begun[1:] < last[:-1]))
        if waited.sum() < FEW or (first[1:] < last[:-1]).any():
            return
        since = np.where(waited, first, begun)
        for place, start, end in zip(places[order].tolist(), since, last, strict=True):
            self.holds[place] = Held(len(self.permits), float(start), float(end))
        self.permits.append(1)


def joins_of(calls: pd.DataFrame) -> tuple[list[int], dict[int, int]]:
    """The results that are complete when several calls of a function have been served.

    How many calls each group has, and the group of each call.
    """
    served, left, done = (
        floats(calls, name) for name in ("server_start_ns", "server_end_ns", "done_ns")
    )
    function = calls["function"].cat.codes.to_numpy()
    rows = np.flatnonzero(~np.isnan(done))
    groups = defaultdict[int, list[int]](list)
    for row in rows[np.argsort(done[rows], kind="stable")].tolist():
        if row in groups:
            continue  # it has completed others, and so itself, whatever is served by now
        # The call that was being served then has completed it.
        same = rows[function[rows] == function[row]]
        is_by = (served[same] <= done[row]) & (left[same] >= done[row]) & (same != row)
        if is_by.any():
            groups[int(same[is_by][-1])].append(row)
    sizes, group = list[int](), dict[int, int]()
    for last, others in groups.items():
        members = {*others, last}
        group |= dict.fromkeys(members, len(sizes))
        sizes.append(len(members))
    return sizes, group


def _is_gil(trace: Trace, places: IntArray) -> bool:
    """Whether calls may have waited for the GIL, since others of their process had it for long."""
    calls = trace.calls.loc[places]
    served = Spans(np.zeros(len(calls), np.int64), *(
        calls[f"server_{edge}_ns"].to_numpy(np.int64) for edge in ("start", "end")
    ))  # fmt: skip
    found = gather(trace, int(calls["server_rank"].iloc[0]))
    if found.cpu is None:
        return True
    share = found.cpu.on_share if found.cpu.gil_share is None else found.cpu.gil_share
    gil_ns = share * found.served_calls * found.means.served_us * 1e3
    return gil_ns > GIL * united(served).total_ns()


def _permits(begun: FloatArray, left: FloatArray, given: FloatArray) -> int | None:
    """How many calls pass at once, if others pass as it is given back; None if it is not so."""
    waited = left - begun
    if np.std(waited) <= VARY * np.mean(waited):
        return None
    for permits in range(max(len(begun) - len(given), 0), min(len(begun) - FEW, MOST_PERMITS)):
        until = begun.copy()
        until[permits:] = np.maximum(begun[permits:], given[: len(begun) - permits])
        if np.abs(left - until).sum() <= UNEXPLAINED * waited.sum():
            return permits
    return None
