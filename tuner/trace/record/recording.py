"""What one process recorded. It travels by RPC to the driver, or by a file to the command."""

from dataclasses import dataclass, field

from tuner.trace.model.spans import ClientSpan, OperatorSpan, ServerSpan


@dataclass(frozen=True, kw_only=True)
class RankRecording:
    """All spans of one process, and its own counts of calls to check them against."""

    rank: int
    name: str
    host: str
    boot_id: str
    """Equal for processes of one host, which share its clock."""
    pid: int
    cpu_count: int
    num_worker_threads: int | None
    cpu_s: float | None
    """None for a process that was killed."""
    threads: dict[int, str]
    client_spans: list[ClientSpan]
    server_spans: list[ServerSpan]
    done_ns: dict[int, int]
    """When the future of each `async_execution` call was complete."""
    operators: list[OperatorSpan] | None
    """None if operators are not recorded."""
    noted: list[OperatorSpan] = field(default_factory=list)
    """Operators that are noted in Python, whether operators are recorded or not."""
    main_thread_s: tuple[float, float] | None = None
    """CPU seconds of the main thread, and seconds that it waited for a CPU."""
    disturbed: bool
    """Whether another profiler ended the recording of operators early."""
    issued: dict[tuple[str, str], int]
    """Calls issued, by server and body, counted when Python hands them to C++."""
    arrived: dict[int, int]
    """Requests that arrived, by the client's rank, counted before anything runs."""
    rpc_timeout_s: float | None = None
    """What calls get that name no timeout of their own."""
