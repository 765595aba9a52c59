"""What the driver asks of each traced process, by RPC: one function per request.

Every request names its trace, so a trace that was refused does not disturb another one.
"""

import os
import platform
import threading
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import torch.distributed.rpc as rpc

from tuner.cpus import usable_cpus
from tuner.torch_private.agent import default_timeout_s, worker_threads
from tuner.torch_private.operators import OperatorProfiler
from tuner.torch_private.support import missing_tracing_support
from tuner.trace.model.spans import CALLS_PER_RANK, OperatorSpan, RankRecording
from tuner.trace.record.client import Client
from tuner.trace.record.clock import HOST_VARIABLE
from tuner.trace.record.server import Server
from tuner.trace.record.threads import Usage, forget_threads
from tuner.trace.record.wire import Ends

_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")


@dataclass
class _Tracing:
    """A trace under way in this process."""

    name: str
    client: Client
    server: Server
    with_operators: bool
    operators: OperatorProfiler | None
    usage: Usage | None = None
    cpu_s: float = 0.0
    main_thread_s: tuple[float, float] | None = None

    def end(self) -> tuple[list[OperatorSpan] | None, bool]:
        """Stop recording; returns the operators, and whether another profiler ended them early."""
        self.client.stop()
        self.server.stop()
        Ends.client = Ends.server = None
        if self.operators is None:
            return None, False
        operators, disturbed = self.operators.stop()
        return [OperatorSpan(*each) for each in operators], disturbed


_tracing: _Tracing | None = None
# Two ranks may start a trace at the same time.
_listening = threading.Lock()


def listen(trace: str, operators: bool) -> tuple[str, int]:
    """Record the calls that this process serves, and its operators.

    Returns the boot id, and the smallest id of a call of this trace. RuntimeError if the process is
    already being traced or profiled, or its torch cannot be traced.
    """
    global _tracing
    if missing := missing_tracing_support(operators=operators):
        raise RuntimeError("; ".join(missing))
    client, server = Client(rpc.get_worker_info().id), Server()
    with _listening:
        if _tracing is not None or Ends.server is not None:
            raise RuntimeError("this process is already being traced")
        profiler = OperatorProfiler() if operators else None
        _tracing = _Tracing(trace, client, server, operators, profiler)
        server.start()
        Ends.client, Ends.server = client, server
    return boot_id(), client.first_call


def issue(trace: str) -> None:
    """Record the calls that this process issues. All processes listen by now."""
    tracing = _here(trace)
    tracing.usage = Usage()
    tracing.client.start()


def pause(trace: str) -> None:
    """Record no new calls until `resume`; the operators recorded so far are lost."""
    tracing = _here(trace)
    tracing.client.pause()
    tracing.server.stop()
    if tracing.operators is not None:
        tracing.operators.stop()
        tracing.operators = None


def resume(trace: str) -> None:
    """Record again after a `pause`."""
    tracing = _here(trace)
    if tracing.with_operators:
        tracing.operators = OperatorProfiler()
    tracing.server.start()
    tracing.client.resume()


@contextmanager
def unrecorded() -> Iterator[None]:
    """Record no call that this process issues meanwhile."""
    client = None if _tracing is None else _tracing.client
    if client is None or not client.is_issuing:
        yield
        return
    client.is_issuing = False
    try:
        yield
    finally:
        client.is_issuing = True


def stop_issuing(trace: str) -> None:
    """Record no new calls that this process issues."""
    tracing = _here(trace)
    tracing.client.is_issuing = False
    if tracing.usage is not None:
        tracing.cpu_s, tracing.main_thread_s = tracing.usage.read()


def pending(trace: str) -> int:
    """How many recorded calls are under way in this process."""
    tracing = _here(trace)
    return tracing.client.pending + tracing.server.pending


def collect(trace: str, first_calls: Mapping[int, int]) -> RankRecording:
    """End the trace in this process, and return everything recorded.

    `first_calls` has, by rank, the smallest id of a call of this trace.
    """
    global _tracing
    tracing = _here(trace)
    _tracing = None
    operators, disturbed = tracing.end()
    client, server = tracing.client, tracing.server

    def is_ours(call_id: int) -> bool:
        return call_id >= first_calls[call_id // CALLS_PER_RANK]

    client_spans = client.spans()
    server_spans = [span for span in server.spans() if is_ours(span.call_id)]
    arrived = Counter(each // CALLS_PER_RANK for each in server.arrivals if is_ours(each))
    forget_threads()
    worker = rpc.get_worker_info()
    return RankRecording(
        rank=worker.id,
        name=worker.name,
        host=platform.node(),
        boot_id=boot_id(),
        pid=os.getpid(),
        cpu_count=usable_cpus(),
        num_worker_threads=worker_threads(),
        rpc_timeout_s=default_timeout_s(),
        cpu_s=tracing.cpu_s,
        main_thread_s=tracing.main_thread_s,
        threads=thread_names(
            serving={span.thread for span in server_spans},
            others={span.thread for span in (*client_spans, *(operators or ()))},
        ),
        client_spans=client_spans,
        server_spans=server_spans,
        done_ns={call: done for call, done in server.done_ns.items() if is_ours(call)},
        operators=operators,
        noted=client.operators,
        disturbed=disturbed,
        issued=client.issued,
        arrived=dict(arrived),
    )


def abandon(trace: str) -> None:
    """End this trace in this process, if it is under way, and discard what it recorded."""
    global _tracing
    if _tracing is not None and _tracing.name == trace:
        tracing, _tracing = _tracing, None
        tracing.end()
        forget_threads()


def read_clock() -> tuple[int, int]:
    """Unix nanoseconds by this process's clock: when the call begins, and when it ends."""
    return time.time_ns(), time.time_ns()


def boot_id() -> str:
    """Equal for all processes that share one clock: those under one kernel, and on one host."""
    host = os.environ.get(HOST_VARIABLE, "")
    try:
        return _BOOT_ID.read_text().strip() + host
    except OSError:
        return platform.node() + host


def _here(trace: str) -> _Tracing:
    if _tracing is None or _tracing.name != trace:
        raise RuntimeError("this process is no longer being traced")
    return _tracing


def thread_names(serving: Iterable[int], others: Iterable[int]) -> dict[int, str]:
    """A name for each thread: its role, or the program's name for it, or the kernel's."""
    names = {thread: f"thread {thread}" for thread in others}
    for thread in names:
        with suppress(OSError):  # the thread has ended
            command = Path(f"/proc/self/task/{thread}/comm").read_text().strip()
            names[thread] = f"{command} {thread}"
    for known in threading.enumerate():
        if known.native_id in names and not known.name.startswith("Dummy-"):
            names[known.native_id] = known.name
    numbered = enumerate(sorted(set(serving)), start=1)
    names.update((thread, f"RPC worker {number}") for number, thread in numbered)
    return {**names, os.getpid(): "main"}
