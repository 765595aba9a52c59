"""Recordings written by hand: ranks, and calls between them."""

from dataclasses import replace
from typing import Any

from tuner.trace.model.spans import (
    CALLS_PER_RANK,
    ClientSpan,
    OperatorSpan,
    RankRecording,
    ServerSpan,
)

RANKS = ("worker0", "worker1", "worker2")
MAIN = 1000
"""The process id of rank 0, and so its main thread; those of rank 1 and 2 follow."""


def client_span(number: int, *, client: int = 0, server: int = 1, **fields: Any) -> ClientSpan:
    """A call of 100 ns to a Python function; it begins at 1000 ns times its number."""
    start_ns = fields.get("start_ns", 1000 * number)
    span = ClientSpan(
        call_id=client * CALLS_PER_RANK + number,
        kind="rpc_async",
        body="python",
        function="work",
        server=RANKS[server],
        server_rank=server,
        thread=MAIN + client,
        parent_call=None,
        start_ns=start_ns,
        issued_ns=start_ns + 10,
        end_ns=start_ns + 100,
        status="ok",
        error="",
    )
    return span._replace(**fields)


def server_span(call: ClientSpan, **fields: Any) -> ServerSpan:
    """The server's span of a call: from 20 ns to 80 ns after the call's start."""
    span = ServerSpan(call.call_id, 2001, call.start_ns + 20, call.start_ns + 80, 50, 5)
    return span._replace(**fields)


def operator(start_ns: int, end_ns: int, name: str = "aten::mul", **fields: Any) -> OperatorSpan:
    """An operator on the first RPC thread."""
    return OperatorSpan(name, 2001, start_ns, end_ns, True)._replace(**fields)


def recording(rank: int, **fields: Any) -> RankRecording:
    """A process that recorded nothing but these fields; by default its counts fit its spans."""
    empty = RankRecording(
        rank=rank,
        name=RANKS[rank],
        host="here",
        boot_id="boot",
        pid=MAIN + rank,
        cpu_count=2,
        num_worker_threads=4,
        cpu_s=0.5,
        threads=((MAIN + rank, "main"),),
        operators=[],
        issued={},
        arrived={},
    )
    filled = replace(empty, **fields)
    if "issued" not in fields:
        for span in filled.client_spans:
            key = (span.server, span.body)
            filled.issued[key] = filled.issued.get(key, 0) + 1
    if "arrived" not in fields:
        for served in filled.server_spans:
            client = served.call_id // CALLS_PER_RANK
            filled.arrived[client] = filled.arrived.get(client, 0) + 1
    return filled


def pair(*calls: ClientSpan, **server_fields: Any) -> list[RankRecording]:
    """The complete recordings of both ranks, of calls from worker0 to worker1."""
    served = [server_span(call) for call in calls if call.has_server_span]
    return [
        recording(0, client_spans=list(calls)),
        recording(1, **{"server_spans": served, **server_fields}),
    ]
