"""What one process has recorded; travels by RPC to the one that gathers it."""

from dataclasses import dataclass

from tuner.trace.model.spans import ClientSpan, OperatorSpan, ServerSpan


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
