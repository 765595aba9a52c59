"""The layout of our own trace files: Chrome trace events, with facts about the trace before them.

A process per rank, a track per thread. A call is an async event on its client, since calls
overlap, with a slice for the moment in which it is issued; a slice on the server's thread, with
the operators nested in it; and an arrow from the one slice to the other. Every traced process
imports this: no pandas here.
"""

from typing import Literal

import msgspec

from tuner.trace.model.facts import Facts

FORMAT = 2
"""Rises with every change that a reader of the version before would get wrong.

- 1: the tracing overhead is under the key `observer_effect`.
- 2: it is under `tracing_overhead`.
"""
READ_FORMATS = range(1, FORMAT + 1)

MARK = b'{"rpc_tuner":'
"""What every file begins with."""

# Categories of events.
CALL: Literal["rpc"] = "rpc"
"""The client's span: `b` and `e`, the `b` with what is known of the call; and the arrow."""
ISSUE: Literal["rpc_issue"] = "rpc_issue"
"""A slice on the client's thread while it issues the call; the arrow starts there."""
SERVED: Literal["rpc_served"] = "rpc_served"
"""A slice on the server's thread, with what the server measured."""
OPERATOR: Literal["cpu_op"] = "cpu_op"
"""An operator. The category has Kineto's name."""


class Args(msgspec.Struct, gc=False):
    """The arguments of our events, and the `name` of metadata events."""

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


class Header(Facts, kw_only=True):
    """The facts about the trace, and the version of the file's format."""

    format: int
    observer_effect: float | None = None
    """The tracing overhead in format 1."""


class Document(msgspec.Struct):
    """A whole file."""

    rpc_tuner: Header
    traceEvents: list[Event]  # noqa: N815 - the format's own name
