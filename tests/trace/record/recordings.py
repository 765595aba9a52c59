"""Recordings written by hand: ranks, and calls between them."""

from collections import Counter
from dataclasses import replace
from typing import Any

from tuner.trace.model import spans
from tuner.trace.model.spans import ClientSpan, OperatorSpan, RankRecording, ServerSpan

RANKS = ("worker0", "worker1", "worker2")
MAIN = 1000
"""The process id of rank 0, and so its main thread; those of rank 1 and 2 follow."""


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
