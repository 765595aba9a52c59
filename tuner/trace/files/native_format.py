"""The layout of our own trace files: Chrome trace events, with facts about the trace before them.

A process per rank, a track per thread. A call is an async event on its client, since calls
overlap, with a slice for the moment in which it is issued; a slice on the server's thread, with
the operators nested in it; and an arrow from the one slice to the other. Every traced process
imports this: standard library only.
"""

from typing import Literal

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
