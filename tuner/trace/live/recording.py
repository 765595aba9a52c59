"""What one process has recorded: plain values that travel by RPC to the one that gathers them."""

from dataclasses import dataclass
from typing import NamedTuple

# A call's id is the client's rank and a number: rank * CALLS_PER_RANK + number. Both fit into the
# 53 bits that every reader of JSON keeps.
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

    @property
    def has_server_span(self) -> bool:
        """Whether Python runs on the server, and can tell when."""
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
    """None where the kernel does not keep it."""


class OperatorSpan(NamedTuple):
    """An operator, or a TorchScript function, on any thread. Unix nanoseconds."""

    name: str
    thread: int
    start_ns: int
    end_ns: int
    is_operator: bool


@dataclass(frozen=True, kw_only=True)
class RankRecording:
    """Everything of one process, and its own count of what should be there."""

    rank: int
    name: str
    host: str
    boot_id: str
    """Tells hosts apart: processes of one boot share its clock."""
    pid: int
    cpu_count: int
    num_worker_threads: int | None
    cpu_s: float
    threads: dict[int, str]
    client_spans: list[ClientSpan]
    server_spans: list[ServerSpan]
    done_ns: dict[int, int]
    """When the future of each `async_execution` call was complete."""
    operators: list[OperatorSpan] | None
    """None where they were not asked for."""
    disturbed: bool
    """Whether another profiler ended the recording of operators early."""
    issued: dict[tuple[str, str], int]
    """Calls issued, by server and body, counted where Python hands them to C++."""
    arrived: dict[int, int]
    """Requests that arrived, by the client's rank, counted before anything runs."""
