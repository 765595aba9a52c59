"""Recordings written by hand: ranks, and calls between them."""

from collections import Counter
from dataclasses import replace
from typing import Any

from tuner.trace.model import spans
from tuner.trace.model.spans import (
    ClientSpan,
    MergedTrace,
    OperatorSpan,
    RankRecording,
    ServerSpan,
)
from tuner.trace.record.clock import SAME_CLOCK
from tuner.trace.record.merge import merge

RANKS = ("worker0", "worker1", "worker2")
MAIN = 1000
"""The process id of rank 0, and so its main thread; those of rank 1 and 2 follow."""
T0 = 1_700_000_000_000_000_000
ONE_CLOCK = dict.fromkeys(RANKS, SAME_CLOCK)


def client_span(number: int, *, client: int = 0, server: int = 1, **fields: Any) -> ClientSpan:
    """A call of 100 ns to a Python function; it begins at 1000 ns times its number."""
    begun_ns = fields.get("start_ns", 1000 * number)
    call_id = client * spans.CALLS_PER_RANK + number
    return ClientSpan(
        call_id, "rpc_async", "python", "work", RANKS[server], server, MAIN + client, None,
        begun_ns, begun_ns + 10, begun_ns + 100, "ok", "",
    )._replace(**fields)  # fmt: skip


def server_span(call: ClientSpan, **fields: Any) -> ServerSpan:
    """The server's span of a call: from 20 ns to 80 ns after the call's start."""
    times = call.start_ns + 20, call.start_ns + 80
    return ServerSpan(call.call_id, 2001, *times, 50, 5)._replace(**fields)


def operator(start_ns: int, end_ns: int, name: str = "aten::mul", **fields: Any) -> OperatorSpan:
    """An operator on the first RPC thread."""
    return OperatorSpan(name, 2001, start_ns, end_ns, True)._replace(**fields)


def recording(rank: int, **fields: Any) -> RankRecording:
    """A process that recorded nothing but these fields; by default its counts fit its spans."""
    clients = [span.call_id // spans.CALLS_PER_RANK for span in fields.get("server_spans", ())]
    empty = RankRecording(
        rank=rank, name=RANKS[rank], host="here", boot_id="boot", pid=MAIN + rank, cpu_count=2,
        num_worker_threads=4, cpu_s=0.5, threads=((MAIN + rank, "main"),), operators=[],
        issued=Counter((span.server, span.body) for span in fields.get("client_spans", ())),
        arrived=Counter(clients),
    )  # fmt: skip
    return replace(empty, **fields)


def pair(*calls: ClientSpan, **server_fields: Any) -> list[RankRecording]:
    """The complete recordings of both ranks, of calls from worker0 to worker1."""
    served = [server_span(call) for call in calls if call.has_server_span]
    return [
        recording(0, client_spans=list(calls)),
        recording(1, **{"server_spans": served, **server_fields}),
    ]


def complete() -> list[RankRecording]:
    """A call of a function with two operators, a builtin, a fetch, and a call without an answer."""
    call = client_span(0, start_ns=T0 + 1000)
    builtin = client_span(1, start_ns=T0 + 2000, body="builtin", function="aten::add")
    fetch = client_span(2, start_ns=T0 + 3000, body="fetch", function="", kind="to_here")
    hanging = client_span(3, start_ns=T0 + 4000, end_ns=None, status="unfinished")
    served = [server_span(call), server_span(hanging, end_ns=None, cpu_ns=None, run_queue_ns=None)]
    operators = [
        operator(T0 + 1030, T0 + 1050),
        operator(T0 + 1035, T0 + 1040, "aten::empty"),
        operator(T0 + 2020, T0 + 2050, "aten::add"),
        operator(T0 + 900, T0 + 910, "aten::set_"),
        operator(T0 + 1060, T0 + 1070, "scripted", is_operator=False),
    ]
    done_ns = {call.call_id: T0 + 1090}
    threads = ((MAIN + 1, "main"), (2001, "RPC worker"))
    return pair(
        call, builtin, fetch, hanging, server_spans=served, done_ns=done_ns, operators=operators,
        threads=threads,
    )  # fmt: skip


def merged(start_ns: int = 950, **facts: Any) -> MergedTrace:
    """The trace of these, whose window begins so long after T0."""
    return merge(complete(), ONE_CLOCK, (T0 + start_ns, T0 + 5000), **facts)
