"""What a call costs its processes on the CPU, beside its function: to send, to receive, to answer.

A trace shows how long a call is on its way, and of that only what is pickled for long. Between
processes of a host nothing travels: threads send, wake up, unpickle and answer, and of a call that
nothing hinders that is its whole way. Where calls are made one after another that is latency; of
calls under way at once it is CPU time, of which there is not so much. So much of the way as the
fastest calls of its name take is such time, or a part of it; no more than a process has used.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np
import pandas as pd

from tuner.trace.analyze.server_parallelism import window_length_ns
from tuner.trace.analyze.time_spans import floats
from tuner.trace.forecast.program import COMPUTE, COMPUTE_WITH_GIL, Program
from tuner.trace.forecast.replay import Machine
from tuner.trace.forecast.ways import UNHINDERED, Ways
from tuner.trace.model.trace import FloatArray, Trace

FEW = 5  # calls, which show nothing
BURST = 4  # calls
LONGER = 2.0  # than a request is on its way, a small answer is not
LEAST_NS = 100_000.0  # what a way takes longer than another by less shows nothing of its size
SMALL = 1 << 12  # bytes: what is on its way as long as nothing would be

SHARES = (1.0, 0.5, 0.0)
"""How much of the way of the fastest calls is CPU time: all of it, half, or, where calls were under
way at once and the trace contradicts that, none."""


SizeParts = tuple[Sequence[float], Sequence[float]]
"""By call: the part of the way of its request, and of its answer, that is for their size."""


class CallCosts(NamedTuple):
    """What calls cost their processes, in nanoseconds."""

    there: Sequence[float]  # by call of the part: on the CPU of its server
    back: Sequence[float]  # on that of its client
    has_gil: Sequence[bool]  # whether Python is needed for that
    fixed_ns: Mapping[int, float]
    """By rank: how long a call takes its caller beside, between its end and the next one."""
    used: Mapping[int, float]
    """By rank: how many CPUs its threads use that neither serve calls nor are the main one."""
    of_calls: Mapping[int, float]  # how many of these are used for calls
    by_size: Sequence[float]
    """By call: how much longer an answer is on its way, for its size, than any answer."""
    size_parts: tuple[SizeParts, SizeParts]  # the least, and the most


def call_costs(trace: Trace, part: Trace, ways: Ways) -> CallCosts:
    """Those of the calls of a part of a trace."""
    ids = part.calls["call_id"].to_numpy()
    hosts = {rank.rank: rank.host for rank in trace.ranks}
    used, of_calls, least = dict[int, float](), dict[int, float](), dict[int, float]()
    calls = trace.calls[trace.calls["end_ns"].notna()]
    to_server, to_client = _unhindered(calls, ways)
    window = max(window_length_ns(trace), 1)
    for rank in trace.ranks:
        served_s = np.nansum(floats(calls[calls["server_rank"] == rank.rank], "cpu_ns")) / 1e9
        wanted = to_server[(calls["server_rank"] == rank.rank).to_numpy()].sum()
        wanted = (wanted + to_client[(calls["client_rank"] == rank.rank).to_numpy()].sum()) / window
        if rank.cpu_s is None or rank.main_cpu_s is None:
            used[rank.rank] = wanted
        else:
            others = rank.cpu_s - rank.main_cpu_s - served_s
            used[rank.rank] = max(others, 0.0) * 1e9 / window
        of_calls[rank.rank] = min(wanted, used[rank.rank])
        least[rank.rank] = of_calls[rank.rank] / wanted if wanted > 0 else 0.0
    there, back = (
        pd.Series(each, index=calls["call_id"]).reindex(ids).fillna(0.0).tolist()
        for each in (to_server, to_client)
    )
    client, server = (part.calls[f"{end}_rank"].tolist() for end in ("client", "server"))
    is_local = [hosts.get(a) == hosts.get(b) for a, b in zip(client, server, strict=True)]
    return CallCosts(
        [
            ns * least.get(of, 0.0) * near
            for ns, of, near in zip(there, server, is_local, strict=True)
        ],
        [
            ns * least.get(of, 0.0) * near
            for ns, of, near in zip(back, client, is_local, strict=True)
        ],
        (part.calls["body"] == "python").tolist(),
        _fixed_ns(part, back),
        used,
        of_calls,
        *_by_size(part, np.array(there), np.array(back)),
    )


def _by_size(
    part: Trace, there: FloatArray, back: FloatArray
) -> tuple[list[float], tuple[SizeParts, SizeParts]]:
    """How much longer each answer is on its way than a small message, and the parts of all ways.

    A small message takes as long as the other way of the call, or as small requests between the
    same two processes, or up to LONGER times that.
    """
    small = pd.Series(np.where(floats(part.calls, "request_bytes") <= SMALL, there, np.inf))
    ends = [part.calls[f"{end}_rank"].to_numpy() for end in ("client", "server")]
    least = small.groupby(ends).transform("min").to_numpy(np.float64)
    is_known = (part.calls.groupby("name")["call_id"].transform("count") >= FEW).to_numpy()
    low, high = list[FloatArray](), list[FloatArray]()
    for way, other in ((there, back), (back, there)):
        own = np.where(way > 0, np.fmin(other, least) / np.maximum(way, 1.0), 1.0)
        low.append(np.maximum(1 - LONGER * own, 0.0))
        high.append(np.where(low[-1] > 0, 1 - own, 0.0))
    by_size = back * low[1]
    for parts in (low, high):
        for each, way in zip(parts, (there, back), strict=True):
            each[~is_known | (each * way < LEAST_NS)] = 0.0
    return by_size.tolist(), tuple((a.tolist(), b.tolist()) for a, b in (low, high))  # type: ignore[return-value]


def _unhindered(calls: pd.DataFrame, ways: Ways) -> tuple[FloatArray, FloatArray]:
    """How long the fastest calls of each name are on their way there and back, of those that were
    alone then: others of their server may be in the way; of all where too few were."""
    start, left = floats(calls, "start_ns"), floats(calls, "server_end_ns")
    end = np.fmax(floats(calls, "end_ns"), start)
    alone = np.zeros((2, len(calls)), bool)
    for server in calls["server_rank"].unique():
        own = (calls["server_rank"] == server).to_numpy()
        begun, ended = np.sort(start[own]), np.sort(end[own])
        for which, at in enumerate((start[own], left[own])):
            under_way = np.searchsorted(begun, at, "right") - np.searchsorted(ended, at, "right")
            alone[which, own] = under_way <= 1
    names = pd.factorize(calls["name"])[0]
    found = []
    for is_alone, way in zip(alone, ways[:2], strict=True):
        took = pd.Series(way.reindex(calls["call_id"]).to_numpy(np.float64))
        own = took.where(is_alone).groupby(names)
        every = took.groupby(names).transform("quantile", UNHINDERED)
        least = own.transform("quantile", UNHINDERED).where(own.transform("count") >= FEW, every)
        found.append(least.combine(every, min).fillna(0.0).to_numpy(np.float64))
    begun = floats(calls, "server_start_ns")
    there = np.fmin(found[0], _most_each(calls["server_rank"], begun))
    return there, np.fmin(found[1], _most_each(calls["client_rank"], end))


def _most_each(ranks: pd.Series, at: FloatArray) -> FloatArray:
    """By call: what each can cost its process at most, since so many came one upon the other."""
    found = np.full(len(at), np.inf)
    for rank in ranks.unique():
        own = (ranks == rank).to_numpy()
        times = np.sort(at[own & ~np.isnan(at)])
        each = (times[BURST:] - times[:-BURST]) / BURST
        if len(each) >= FEW:
            found[own] = np.quantile(each, UNHINDERED)
    return found


def _fixed_ns(part: Trace, back: Sequence[float]) -> dict[int, float]:
    """By rank: the usual time between the end of a call and the begin of the next, but no longer
    than an answer is on its way: then the caller does something itself."""
    calls = part.calls.assign(back=back)
    calls = calls[calls["kind"].isin(("rpc_sync", "to_here"))]
    found = {}
    for rank in calls["client_rank"].unique().tolist():
        own = calls[calls["client_rank"] == rank]
        gaps = []
        for _, of_thread in own.groupby("client_thread"):
            start, end = floats(of_thread, "start_ns"), floats(of_thread, "end_ns")
            gaps += [each for each in (start[1:] - end[:-1]).tolist() if each >= 0]
        if gaps:
            found[rank] = min(float(np.median(gaps)), float(own["back"].median()))
    return found


def with_call_costs(
    program: Program, costs: CallCosts, machine: Machine, share: float
) -> tuple[Program, Machine]:
    """A program in which so much of what calls cost is CPU time, and the CPUs that are left."""
    polling = list(machine.polling)
    for rank, cpus in costs.of_calls.items():
        polling[program.hosts[rank]] -= share * cpus
    polling = [max(each, 0.0) for each in polling]
    rates = [
        min(1.0, cpus / (1.0 + other)) for cpus, other in zip(machine.cpus, polling, strict=True)
    ]
    calls = list(program.calls)
    for place, call in enumerate(calls):
        if not call.is_seen or call.is_callback:
            continue
        there = min(share * costs.there[place], call.to_server)
        back = min(share * costs.back[place], call.to_client)
        kind = COMPUTE_WITH_GIL if costs.has_gil[place] else COMPUTE
        at = rates[program.hosts[call.server]], rates[program.hosts[call.client]]
        calls[place] = replace(
            call, to_server=call.to_server - there, to_client=call.to_client - back,
            arrives=[(kind, there * at[0])] if there > 0 else (),
            returns=[(kind, back * at[1])] if back > 0 else (),
        )  # fmt: skip
    return replace(program, calls=calls), machine._replace(polling=polling)
