"""What a trace is made of: the spans of each process, and those of all, joined.

Programs without our dependencies record them, too: standard library only.
"""

import re
from dataclasses import dataclass, field
from typing import Literal, NamedTuple, cast

from tuner.machine import DISTURBED_SHARE

CallKind = Literal["rpc_sync", "rpc_async", "rpc_remote", "to_here"]
"""What the client called. A proxy's call is the `rpc_*` that it makes."""
CallBody = Literal["python", "builtin", "script", "fetch"]
"""What runs on the server: Python, a builtin operator, TorchScript; or an RRef's value is read."""
CallStatus = Literal["ok", "raised", "timed-out", "unfinished"]
Link = Literal["exact", "inferred", ""]
"""How the server's side is known: by the call's id, by time and name, or not at all."""
STOPPED = "BaseException"
"""The error of a served function that raised no Exception: its server notices that later."""
# A call's id is rank * CALLS_PER_RANK + number, with the client's rank. It fits into the 53 bits
# that every reader of JSON keeps.
CALLS_PER_RANK = 1 << 32
REMOTE_OPERATOR = "#remote_op: "
"""Stands between a call's name and the name of an operator that it ran."""
# RPC names are letters, digits, underscores, hyphens and colons; a function's name is anything.
_CALL = re.compile(r"(rpc_sync|rpc_async|rpc_remote)#(.+)\(([\w:-]+) -> ([\w:-]+)\)")
_TO_HERE = re.compile(r"to_here#\(([\w:-]+)\)->\(([\w:-]+)\)")


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
    end_ns: int | None  # None if the call was still under way when the trace ended
    status: str
    error: str
    timeout_s: float | None = None  # after which PyTorch fails it; 0 for never, None if not known
    request_bytes: int | None = None  # pickle and tensors; None where PyTorch packs them in C++
    received_ns: int | None = None  # when a thread began to unpickle the answer, if that took long
    site: str = ""  # where the program issues it, `main.py:42`; empty if that is not known
    defined: str = ""  # where its function is defined, likewise
    request_tensors: int | None = None  # how many are in it
    same_as: int | None = None
    """An earlier call of this process: that made the RRef whose value this one fetches, or fetched
    it first; or whose large pickle was the same. None for none."""

    @property
    def has_server_span(self) -> bool:
        """Whether the server runs Python, which measures the span."""
        return self.body == "python"


class ServerSpan(NamedTuple):
    """A Python function as its server ran it. Unix nanoseconds by the server's clock."""

    call_id: int
    thread: int
    start_ns: int
    end_ns: int | None  # when the function left its thread; None if it was still running
    cpu_ns: int | None
    run_queue_ns: int | None  # None where the kernel does not measure it
    answered_ns: int | None = None  # when the thread had pickled the answer, if that is known
    error: str = ""  # what the function raised, in one line
    slices: int | None = None  # how often the thread was given a CPU in the function
    arrived_ns: int | None = None  # when a thread began to unpickle the request, if that took long
    unpickled_ns: int | None = None  # and when it had done so
    answer_tensors: int | None = None  # of an answer that took long to pickle
    answer_bytes: int | None = None  # of these tensors


class GilWait(NamedTuple):
    """A sample of who holds the GIL of a process: a thread that had slept wants it."""

    asked_ns: int
    waited_ns: int  # until it had the GIL; 0 if that was free
    slept_ns: int  # before it asked, for a random time


class Pause(NamedTuple):
    """A sample of a thread that issues calls: it is off the CPU, at a line of the program."""

    at_ns: int
    thread: int
    why: str  # sleep, io, lock or process
    site: str  # the program's own innermost line, or a library's
    is_open: bool  # whether the loop around it goes on until something happens


class OperatorSpan(NamedTuple):
    """An operator, or a TorchScript function, on any thread. Unix nanoseconds."""

    name: str
    thread: int
    start_ns: int
    end_ns: int
    is_operator: bool


class CallbackSpan(NamedTuple):
    """A callback of a future, as it ran. Unix nanoseconds by the clock of its process."""

    function: str
    thread: int
    call_id: int | None  # the call whose end ran it, if that is known
    holds_thread: bool  # a worker thread; else it ran inside other code, and is part of that
    start_ns: int
    end_ns: int | None  # None if it was still running
    cpu_ns: int | None
    run_queue_ns: int | None  # None where the kernel does not measure it


@dataclass(frozen=True, kw_only=True)
class TraceRank:
    """One process of a trace."""

    rank: int
    name: str  # its RPC name; `rank N` where the trace does not say
    num_worker_threads: int | None = None
    host: str = ""
    pid: int | None = None
    cpu_count: int | None = None  # logical CPUs that it may use
    cpu_s: float | None = None  # its CPU seconds in the window
    rpc_timeout_s: float | None = None  # of calls that name none of their own; 0 for never
    main_cpu_s: float | None = None  # of its main thread; None where the kernel does not say
    main_run_queue_s: float | None = None  # how long that one was ready and waited for a CPU
    others_cpu_s: float | None = None  # the same of the program's other threads together, which
    others_run_queue_s: float | None = None  # serve no calls
    intra_op_threads: int | None = None  # `torch.get_num_threads` at the end
    switch_interval_s: float | None = None
    """How long a thread may keep the GIL from others, at the end; None without a GIL."""
    pool_cpu_s: float | None = None  # the same of the threads that PyTorch's operators have started
    pool_run_queue_s: float | None = None  # beside those that run operators
    scripts_call: bool = False  # whether TorchScript in it makes calls, which are not recorded
    gil: tuple[GilWait, ...] = ()
    """Samples of who holds its GIL, in order; empty where nobody took any."""
    pauses: tuple[Pause, ...] = ()
    """Samples of its threads that issue calls, of those in `gil`, where one waited for no call."""
    threads: tuple[tuple[int, str], ...] = ()
    """Thread ids and what each is: `main`, `RPC worker 1`, or the kernel's name for it."""


@dataclass(frozen=True, kw_only=True)
class Facts:
    """What a trace says of itself."""

    base_time_ns: int
    """Unix time of its zero."""
    window_ns: tuple[int, int]
    """When recording began and ended."""
    ranks: tuple[TraceRank, ...]
    """What is known of each process."""
    operators_recorded: bool = True
    """Whether operators were recorded at all."""
    operators_until_ns: int | None = None
    """Operators that began from then on were too many, and are left out, on all ranks alike; None:
    none is left out."""
    steps: int | None = None
    """Steps of the workload in the window; None where no workload was traced."""
    clock_error_ns: int = 0
    """Times of different ranks are comparable to within this; 0 on one host."""
    tracing_overhead: float | None = None
    """Traced step time over untraced step time."""
    others_share: float | None = None
    """The share of the logical CPUs that other programs, and other virtual machines, took while it
    was recorded; None where that is not known."""
    losses: tuple[str, ...] = ()
    """What the trace lacks, each as a sentence."""

    @property
    def is_of_busy_machine(self) -> bool:
        """Whether others took so much that the times may not be the program's own."""
        return (self.others_share or 0.0) > DISTURBED_SHARE


class CallName(NamedTuple):
    """The parts of a call's name."""

    kind: CallKind
    function: str
    client: str
    server: str

    @property
    def body(self) -> CallBody:
        """What runs on the server, as far as the function's name says."""
        if self.kind == "to_here":
            return "fetch"
        if self.function.startswith("__torch__."):
            return "script"
        return "builtin" if self.function.startswith("aten::") else "python"


def call_name(span: ClientSpan, client: str) -> str:
    """The name that PyTorch's own profiler would give the call."""
    if span.kind == "to_here":
        return f"to_here#({client})->({span.server})"
    return f"{span.kind}#{span.function}({client} -> {span.server})"


def read_call_name(name: str) -> CallName | None:
    """The parts of a call's name; None if it is the name of something else."""
    if call := _CALL.fullmatch(name):
        return CallName(cast(CallKind, call[1]), *call.group(2, 3, 4))
    if fetch := _TO_HERE.fullmatch(name):
        return CallName("to_here", "", *fetch.groups())
    return None


@dataclass(frozen=True)
class MergedCall:
    """Both ends of a call; times are nanoseconds since the trace's base."""

    name: str
    client: str
    client_rank: int
    span: ClientSpan
    served: ServerSpan | None
    done_ns: int | None
    link: Link


class MergedCallback(NamedTuple):
    """A callback; times are nanoseconds since the trace's base."""

    rank: int
    span: CallbackSpan


class MergedOperator(NamedTuple):
    """An operator and the call that ran it; times are nanoseconds since the trace's base."""

    rank: int
    span: OperatorSpan
    call_id: int | None
    link: Link


@dataclass(frozen=True)
class MergedTrace:
    """A complete trace as plain values."""

    facts: Facts
    calls: list[MergedCall]
    operators: list[MergedOperator]
    callbacks: list[MergedCallback] = field(default_factory=list)


@dataclass(frozen=True, kw_only=True)
class RankRecording(TraceRank):
    """All spans of one process, and its own counts of calls to check them against."""

    boot_id: str  # equal for processes of one host, which share its clock
    client_spans: list[ClientSpan] = field(default_factory=list)
    server_spans: list[ServerSpan] = field(default_factory=list)
    done_ns: dict[int, int] = field(default_factory=dict)  # when `async_execution` was complete
    callbacks: list[CallbackSpan] = field(default_factory=list)
    operators: list[OperatorSpan] | None = None  # None if operators are not recorded
    operators_until_ns: int | None = None  # from then on not all are there; None: all are
    noted: list[OperatorSpan] = field(default_factory=list)  # noted in Python, recorded or not
    disturbed: bool = False  # whether another profiler ended the recording of operators early
    issued: dict[tuple[str, str], int]  # by server and body, counted when handed to C++
    arrived: dict[int, int]  # requests by the client's rank, counted before anything runs
