"""What is known of a trace as a whole, and of its ranks.

Every traced process imports this: standard library only.
"""

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class TraceRank:
    """One process of a trace."""

    rank: int
    name: str
    """Its RPC name; `rank N` where the trace does not say."""
    num_worker_threads: int | None = None
    host: str = ""
    pid: int | None = None
    cpu_count: int | None = None
    """Logical CPUs that the process may use."""
    cpu_s: float | None = None
    """CPU seconds of the process over the window."""
    rpc_timeout_s: float | None = None
    """What its calls get that name no timeout of their own; 0 is none at all."""
    main_cpu_s: float | None = None
    """CPU seconds of its main thread over the window; None where the kernel does not measure it."""
    main_run_queue_s: float | None = None
    """Seconds that its main thread was ready to run and waited for a CPU."""
    threads: tuple[tuple[int, str], ...] = ()
    """Thread ids and what each is: `main`, `RPC worker 1`, or the kernel's name for it."""


@dataclass(kw_only=True)
class Facts:
    """What a trace that we recorded says of itself; see `tuner.trace.model.trace.Trace`."""

    base_time_ns: int
    window_ns: tuple[int, int]
    ranks: tuple[TraceRank, ...]
    operators_recorded: bool = True
    steps: int | None = None
    clock_error_ns: int = 0
    tracing_overhead: float | None = None
    losses: tuple[str, ...] = ()
