"""The spans of a trace as plain values, as each process saw them.

Ranks record them, also in programs whose environment has none of our dependencies: standard library
only.
"""

from typing import Literal, NamedTuple

CallKind = Literal["rpc_sync", "rpc_async", "rpc_remote", "to_here"]
"""What the client called. A proxy's call is the `rpc_*` that it makes."""
CallBody = Literal["python", "builtin", "script", "fetch"]
"""What runs on the server: Python, a builtin operator, TorchScript; or the fetch of an RRef's
value."""
CallStatus = Literal["ok", "raised", "timed-out", "unfinished"]
Link = Literal["exact", "inferred", ""]
"""How the server's side is known: by the call's id, by time and name, or not at all."""

STOPPED = "BaseException"
"""The error of a served function that raised what is no Exception, such as SystemExit: its server
does not hear of that before the thread serves another call."""

# A call's id is rank * CALLS_PER_RANK + number, with the client's rank. It fits into the 53 bits
# that every reader of JSON keeps.
CALLS_PER_RANK = 1 << 32


class ClientSpan(NamedTuple):
    """A call as its client saw it. Times are Unix nanoseconds by the client's clock."""

    call_id: int
    kind: str
    body: str
    function: str
    server: str
    server_rank: int
    thread: int
    parent_call: int | None
    start_ns: int
    issued_ns: int
    end_ns: int | None
    """None if the call was still under way when the trace ended."""
    status: str
    error: str
    timeout_s: float | None = None
    """After how many seconds PyTorch fails the call; 0 for never, None where that is not known."""
    request_bytes: int | None = None
    """The size of what was sent, pickle and tensors; None where PyTorch packs it in C++."""

    @property
    def has_server_span(self) -> bool:
        """Whether the server runs Python, which measures the span."""
        return self.body == "python"


class ServerSpan(NamedTuple):
    """A Python function as its server ran it. Unix nanoseconds by the server's clock."""

    call_id: int
    thread: int
    start_ns: int
    end_ns: int | None
    """When the function left its thread; None if it was still running."""
    cpu_ns: int | None
    run_queue_ns: int | None
    """None where the kernel does not measure it."""
    answered_ns: int | None = None
    """When the thread had pickled the answer; None where that is not known."""
    error: str = ""
    """What the function raised, in one line."""


class OperatorSpan(NamedTuple):
    """An operator, or a TorchScript function, on any thread. Unix nanoseconds."""

    name: str
    thread: int
    start_ns: int
    end_ns: int
    is_operator: bool
