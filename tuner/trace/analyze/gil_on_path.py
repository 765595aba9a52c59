"""The waits on the critical path that are for a GIL: of the server, or of the client.

Of all pieces of a kind at a process, such a share is as samples of its GIL found it held in them.
Where a call also has a way to go, or sleeps, only what is beyond that can be a wait.
"""

from collections.abc import Iterator, Mapping
from typing import NamedTuple

import numpy as np

from tuner.trace.analyze import path_walk
from tuner.trace.analyze.call_times import call_times
from tuner.trace.analyze.gil_use import HELD, GilUse, Held, Serving, serving, woken_ns
from tuner.trace.analyze.path_walk import arrivals
from tuner.trace.analyze.server_parallelism import threads_taken
from tuner.trace.analyze.time_spans import floats, open_over_time, summed
from tuner.trace.model.trace import FloatArray, IntArray, Trace

NOBODY = -1


class Waits(NamedTuple):
    """The pieces of a path, with the waits for a GIL apart."""

    pieces: IntArray  # start, end, part and call of each
    weight: FloatArray
    rank: IntArray  # whose GIL each waits for, or NOBODY
    serving: Mapping[str, Serving]  # by process


def with_gil(trace: Trace, pieces: IntArray, weight: FloatArray) -> Waits:
    """Tell the waits for a GIL apart in a path; as it is where no GIL is held for long."""
    nobody = np.full(len(weight), NOBODY)
    ranks = {rank.rank for rank in trace.ranks if rank.gil}
    taken = threads_taken(trace) if ranks else {}
    known = {rank: serving(trace, rank, taken) for rank in sorted(ranks)}
    held = {rank: found for rank, found in known.items() if found.is_limit}
    if not held:
        return Waits(pieces, weight, nobody, {})
    start, end, part, _ = pieces
    share, whose = np.zeros(len(weight)), nobody.copy()
    for rank, kind, most in _candidates(trace, pieces, held):
        here = (most > 0) & (part == kind)
        spans = open_over_time(start[here], end[here])
        found = GilUse.of(trace, rank).held(spans)
        likely = found if found.is_known else Held(held[rank].held.share, 0)
        if likely.share < HELD:
            continue
        is_more = here & (most * likely.share > share)
        share[is_more], whose[is_more] = (most * likely.share)[is_more], rank
    waits = np.flatnonzero(share > 0)
    of_gil = pieces[:, waits]
    of_gil[2] = path_walk.GIL
    return Waits(
        np.concatenate([pieces, of_gil], axis=1),
        np.concatenate([weight * (1 - share), (weight * share)[waits]]),
        np.concatenate([nobody, whose[waits]]),
        {trace.process(rank).name: found for rank, found in held.items()},
    )


def _candidates(
    trace: Trace, pieces: IntArray, held: Mapping[int, Serving]
) -> Iterator[tuple[int, int, FloatArray]]:
    """By process and kind of piece: the share of each piece that can be a wait for its GIL."""
    start, end, part, call = pieces
    calls, length = trace.calls, np.maximum(end - start, 1)
    server, client = (calls[f"{end}_rank"].to_numpy()[call] for end in ("server", "client"))
    ends = (calls["server_start_ns"], calls["server_end_ns"])
    served, left = (each.fillna(calls["start_ns"]).to_numpy(np.int64) for each in ends)
    arrived, _ = arrivals(trace, served, calls["start_ns"].to_numpy())
    times = call_times(calls)
    queue_ns = np.nan_to_num(times["queue_us"].to_numpy()) * 1e3
    excess_there = np.maximum(queue_ns - (served - arrived), 0)
    answered = np.fmax(np.fmax(left, floats(calls, "answered_ns")), floats(calls, "done_ns"))
    back = np.fmin(floats(calls, "received_ns"), floats(calls, "end_ns")) - answered
    back = np.where(calls["server_end_ns"].isna(), np.nan, back)
    fastest = _fastest(trace, back)
    excess_back = np.nan_to_num(np.maximum(back - fastest, 0))
    off = call_times(calls)["off_cpu_us"].to_numpy() * 1e3
    with np.errstate(invalid="ignore", divide="ignore"):
        awake = np.nan_to_num(np.minimum(woken_ns(trace) / off, 1.0))
    part_time = summed(call[part == path_walk.TO_CLIENT], length[part == path_walk.TO_CLIENT],
                       len(calls))  # fmt: skip
    for rank, found in held.items():
        at_server, at_client = (side == rank for side in (server, client))
        by_calls = 1.0 if found.by == "calls" else 0.0
        yield rank, path_walk.DISPATCH, at_server * 1.0
        yield rank, path_walk.QUEUE, at_server * by_calls
        yield rank, path_walk.TO_SERVER, at_server * np.minimum(excess_there[call] / length, 1.0)
        yield rank, path_walk.OFF_CPU, at_server * awake[call]
        back_share = np.minimum(excess_back / np.maximum(part_time, 1), 1.0)[call]
        yield rank, path_walk.TO_CLIENT, (at_server | at_client) * back_share


def _fastest(trace: Trace, took: FloatArray) -> FloatArray:
    """The least of each call's name."""
    names = trace.calls["name"].cat.codes.to_numpy()
    least = np.full(int(names.max(initial=-1)) + 1, np.inf)
    np.fmin.at(least, names, took)
    return least[names]
