"""What the driver of a trace asks of each process, by RPC: one function per request."""

import os
import platform
import threading
import time
from dataclasses import dataclass
from pathlib import Path

import torch.distributed.rpc as rpc

from tuner.torch_private import OperatorProfiler, agent_gauges, missing_tracing_support
from tuner.trace.live.recording import OperatorSpan, RankRecording
from tuner.trace.live.spans import SpanRecorder

_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")


@dataclass
class _Tracing:
    """A trace under way in this process."""

    spans: SpanRecorder
    operators: OperatorProfiler | None
    cpu_started_s: float
    cpu_s: float = 0.0


_tracing: _Tracing | None = None


def listen(operators: bool) -> str:
    """Record what this process serves, and its operators; gives the id of its boot.

    RuntimeError if it is being traced or profiled already, or its torch cannot be traced.
    """
    global _tracing
    if missing := missing_tracing_support():
        raise RuntimeError("; ".join(missing))
    recorder = SpanRecorder(rpc.get_worker_info().id)
    recorder.listen()
    try:
        profiler = OperatorProfiler() if operators else None
    except BaseException:
        recorder.stop_listening()
        raise
    _tracing = _Tracing(recorder, profiler, time.process_time())
    return boot_id()


def issue() -> None:
    """Record what this process issues; all processes listen by now."""
    _here().spans.issue()


def stop_issuing() -> None:
    """Record no new calls of this process."""
    tracing = _here()
    tracing.spans.stop_issuing()
    tracing.cpu_s = time.process_time() - tracing.cpu_started_s


def pending() -> int:
    """Recorded calls that are under way in this process."""
    return _here().spans.pending


def collect() -> RankRecording:
    """End the trace in this process, and give everything recorded."""
    global _tracing
    tracing = _here()
    _tracing = None
    operators = None
    if tracing.operators is not None:
        operators = [OperatorSpan(*each) for each in tracing.operators.stop()]
    spans = tracing.spans
    spans.stop_listening()
    issued, arrived = spans.counts()
    server_spans = spans.server_spans()
    worker = rpc.get_worker_info()
    threads = agent_gauges().get("agent.thread_pool_size", "")
    return RankRecording(
        rank=worker.id,
        name=worker.name,
        host=platform.node(),
        boot_id=boot_id(),
        pid=os.getpid(),
        cpu_count=len(os.sched_getaffinity(0)),
        num_worker_threads=int(threads) if threads.isdecimal() else None,
        cpu_s=tracing.cpu_s,
        threads=_threads({span.thread for span in server_spans}),
        client_spans=spans.client_spans(),
        server_spans=server_spans,
        done_ns=spans.done_ns(),
        operators=operators,
        issued=issued,
        arrived=arrived,
    )


def abandon() -> None:
    """End the trace in this process, if there is one, and forget what it recorded."""
    if _tracing is not None:
        collect()


def read_clock() -> tuple[int, int]:
    """Unix nanoseconds by this process's clock, twice: as the call begins, and as it ends."""
    return time.time_ns(), time.time_ns()


def boot_id() -> str:
    """The same for all processes under one kernel, and so under one clock."""
    try:
        return _BOOT_ID.read_text().strip()
    except OSError:
        return platform.node()


def _here() -> _Tracing:
    if _tracing is None:
        raise RuntimeError("this process is not being traced")
    return _tracing


def _threads(serving: set[int]) -> dict[int, str]:
    """Thread ids and what they are; a thread that has ended has no name any more."""
    named = {thread.native_id: thread.name for thread in threading.enumerate() if thread.native_id}
    workers = {
        thread: f"RPC worker {number}" for number, thread in enumerate(sorted(serving), start=1)
    }
    return {**named, **workers, os.getpid(): "main"}
