"""The JSON of our own trace files: the Chrome trace event format, which Perfetto opens.

What records a trace imports this, in every process: no pandas here. `FORMAT` changes with anything
that a reader of an older version would get wrong.
"""

from dataclasses import dataclass
from typing import Literal

import msgspec

FORMAT = 2

CallKind = Literal["rpc_sync", "rpc_async", "rpc_remote", "to_here"]
"""What the client called. A proxy's call is the `rpc_*` that it makes."""
CallBody = Literal["python", "builtin", "script", "fetch"]
"""What runs on the server: Python, an operator, TorchScript; or an RRef's value is fetched."""
CallStatus = Literal["ok", "raised", "timed-out", "unfinished"]
Link = Literal["exact", "inferred", ""]
"""How the server's side is known: by the call's id, by time and name, or not at all."""


class Args(msgspec.Struct, gc=False):
    """What our own events carry, and the `name` of metadata events."""

    name: str | None = None
    call: int | None = None
    """The call's id, on every event that belongs to one."""
    kind: str = ""
    body: str = ""
    function: str = ""
    client: str = ""
    server: str = ""
    client_rank: int = 0
    server_rank: int = 0
    issued_ns: int | None = None
    status: str = ""
    error: str = ""
    parent: int | None = None
    link: str = ""
    done_ns: int | None = None
    cpu_ns: int | None = None
    run_queue_ns: int | None = None


class Event(msgspec.Struct, gc=False):
    """One event. `ts` and `dur` are microseconds since the base, with three decimals."""

    name: str = ""
    ph: str = ""
    cat: str = ""
    ts: float | None = None
    dur: float | None = None
    pid: int | None = None
    """The rank."""
    tid: int | None = None
    id: int | None = None
    """The call's id, on async events and arrows."""
    args: Args | None = None


@dataclass(frozen=True, kw_only=True)
class TraceRank:
    """One process of a trace."""

    rank: int
    name: str
    """Its RPC name; `rank N` where the trace does not tell."""
    num_worker_threads: int | None = None
    host: str = ""
    pid: int | None = None
    cpu_count: int | None = None
    cpu_s: float | None = None
    """CPU seconds of the process over the window."""
    threads: tuple[tuple[int, str], ...] = ()
    """Thread ids and what each is: `main`, `RPC worker 1`, or the kernel's name for it."""


class Facts(msgspec.Struct):
    """What our own traces say of themselves, under the key `rpc_tuner`."""

    format: int
    base_time_ns: int
    window_ns: tuple[int, int]
    ranks: tuple[TraceRank, ...]
    operators_recorded: bool = True
    steps: int | None = None
    clock_error_ns: int = 0
    tracing_overhead: float | None = None
    losses: tuple[str, ...] = ()


class Document(msgspec.Struct):
    """A whole file. `rpc_tuner` comes first in it: readers know our traces by that."""

    rpc_tuner: Facts
    traceEvents: list[Event]  # noqa: N815 - the format's own name


# Categories of our own events.
CALL: Literal["rpc"] = "rpc"
"""Client spans: `b` and `e`, the `b` with the call's facts."""
ISSUE: Literal["rpc_issue"] = "rpc_issue"
"""A slice on the client's thread while it hands the call over; where the arrow starts."""
SERVED: Literal["rpc_served"] = "rpc_served"
"""A slice on the server's thread, with what the server measured."""
OPERATOR: Literal["cpu_op"] = "cpu_op"
"""An ATen operator; Kineto's own name for the category."""
