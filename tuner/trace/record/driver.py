"""Traces all ranks from one of them, by RPCs: starts and stops recording, and collects the spans.

Every request names its trace, so a trace that was refused does not disturb another one.
"""

import os
import platform
import threading
import time
import uuid
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any, Literal

import torch.distributed.rpc as rpc

from tuner.cpus import usable_cpus
from tuner.errors import TraceError
from tuner.process_knobs import intra_op_threads_now, traced_interval_s
from tuner.torch_private.agent import (
    all_workers,
    default_timeout_s,
    scripts_call,
    worker_threads,
)
from tuner.torch_private.answers import error_line
from tuner.torch_private.operators import OperatorProfiler, RecordedOperators, operators_here
from tuner.torch_private.support import missing_tracing_support
from tuner.trace.model.spans import CALLS_PER_RANK, OperatorSpan, RankRecording
from tuner.trace.record.client import Client
from tuner.trace.record.clock import SAME_CLOCK, ClockOffset, ClockSample, boot_id, clock_offset
from tuner.trace.record.server import Server, serving_now
from tuner.trace.record.threads import NOTHING_USED, Usage, Used, forget_threads, thread_names
from tuner.trace.record.wire import Ends

CLOCK_SAMPLES = 50  # enough for one of them to meet no delay; each takes less than a millisecond
_POLL_S = 0.002
_ANSWER_S = 120.0
"""What a process gets to answer, whatever the program gives its calls: to hand over operators takes
seconds."""


class TraceDriver:
    """One trace of all ranks, from `start` to `stop`. For one thread."""

    def __init__(self, *, operators: bool, drain_s: float) -> None:
        self._trace = uuid.uuid4().hex
        self._operators = operators
        self._drain_s = drain_s
        try:
            self._here = rpc.get_worker_info().name
            workers = all_workers()
        except RuntimeError as error:
            raise TraceError("RPC is not running in this process: trace after init_rpc") from error
        self._ranks = {name: rank for rank, name in workers}
        self._others = [name for name in self._ranks if name != self._here]
        self._clocks: dict[str, list[ClockSample]] = {}
        self._first_calls: dict[int, int] = {}
        self._started_ns = 0

    def start(self) -> None:
        """Start recording in every process; in none, and TraceError, if one of them cannot."""
        try:
            ready = self._everywhere("start tracing in", _listen, self._operators)
            self._first_calls = {self._ranks[name]: first for name, (_, first) in ready.items()}
            here, _ = ready[self._here]
            self._clocks = {name: _read_clock(name) for name in ready if ready[name][0] != here}
            self._everywhere("start tracing in", _issue)
        except BaseException:
            self.abandon()
            raise
        self._started_ns = time.time_ns()

    def stop(self) -> tuple[list[RankRecording], dict[str, ClockOffset], tuple[int, int]]:
        """Stop in every process, `drain_s` seconds later at most, once no call is under way.

        Returns:
            The recordings in rank order; the offsets from this process's clock, by process name;
            and the window in Unix nanoseconds by this clock, from the end of `start` until now.
        """
        stopped_ns = time.time_ns()
        try:
            self._everywhere("stop tracing in", _stop_issuing, here="first")
            until = time.monotonic() + self._drain_s
            while any(self._everywhere("ask", _pending).values()) and time.monotonic() < until:
                time.sleep(_POLL_S)
            clocks = dict.fromkeys(self._ranks, SAME_CLOCK)
            for name, before in self._clocks.items():
                clocks[name] = clock_offset(before, _read_clock(name))
            found = self._everywhere("collect the trace of", _collect, self._first_calls)
        except BaseException:
            self.abandon()
            raise
        return [found[name] for name in self._ranks], clocks, (self._started_ns, stopped_ns)

    def pause(self) -> bool:
        """Make all processes run as if they were not traced, until `resume`: to time them so.
        Whether all have recorded until now: where operators are very many, only the first are.

        Abandon a trace that was paused: its operators from before the pause are lost.
        """
        return all(self._everywhere("pause tracing in", _pause, here="first").values())

    def resume(self) -> None:
        """Continue after a `pause`."""
        self._everywhere("resume tracing in", _resume)

    def abandon(self) -> None:
        """Stop in every process that can still be reached, and discard what it recorded."""
        _abandon(self._trace)
        # A process that has ended, or lacks the package, has nothing to abandon.
        with suppress(Exception):
            for future in [rpc.rpc_async(n, _abandon, (self._trace,)) for n in self._others]:
                with suppress(Exception):
                    future.wait()

    def _everywhere(
        self,
        what: str,
        request: Callable[..., Any],
        *args: object,
        here: Literal["first", "last"] = "last",
    ) -> dict[str, Any]:
        """The answer of each process, by name; TraceError says which cannot do it.

        The requests must not be recorded: recording starts in this process last, and ends first.
        """
        answers: dict[str, Any] = {}
        problems: list[str] = []
        arguments = (self._trace, *args)

        def attempt(name: str, action: Callable[..., Any], *args: object) -> None:
            try:
                answers[name] = action(*args)
            except Exception as error:
                problems.append(f"cannot {what} {name}: {_reason(error)}")

        if here == "first":
            attempt(self._here, request, *arguments)
        for name in self._others:
            attempt(name, rpc.rpc_async, name, request, arguments, None, _ANSWER_S)
        for name in self._others:
            if name in answers:
                attempt(name, answers[name].wait)
        if here == "last" and not problems:
            attempt(self._here, request, *arguments)
        if problems:
            raise TraceError("; ".join(problems))
        return answers


def _read_clock(name: str) -> list[ClockSample]:
    def sample() -> ClockSample:
        sent_ns = time.time_ns()
        begun_ns, ended_ns = rpc.rpc_sync(name, _clock_now)
        return ClockSample(sent_ns, begun_ns, ended_ns, time.time_ns())

    try:
        return [sample() for _ in range(CLOCK_SAMPLES)]
    except Exception as error:
        raise TraceError(f"cannot read the clock of {name}: {_reason(error)}") from error


def _reason(error: Exception) -> str:
    is_missing = "No module named 'tuner" in str(error)
    return "rpc-tuner is not installed there" if is_missing else error_line(error)


@dataclass
class _Tracing:
    """A trace under way in this process."""

    name: str
    client: Client
    server: Server
    with_operators: bool
    operators: OperatorProfiler | None
    usage: Usage
    used: Used = NOTHING_USED

    def end(self) -> OperatorProfiler | None:
        """Stop recording calls; returns what still records operators, if anything does."""
        self.client.stop()
        self.server.stop()
        Ends.client = Ends.server = None
        return self.operators


_tracing: _Tracing | None = None
_listening = threading.Lock()  # two ranks may start a trace at the same time


def _listen(trace: str, operators: bool) -> tuple[str, int]:
    """Record what this process serves; returns its boot id, and the smallest id of its calls."""
    global _tracing
    if missing := missing_tracing_support(operators=operators):
        raise RuntimeError("; ".join(missing))
    usage = Usage()
    client = Client(rpc.get_worker_info().id, see_threads=usage.look_at_times)
    server = Server()
    with _listening:
        if _tracing is not None or Ends.server is not None:
            raise RuntimeError("this process is already being traced")
        profiler = OperatorProfiler(operators_here()) if operators else None
        _tracing = _Tracing(trace, client, server, operators, profiler, usage)
        server.start()
        Ends.client, Ends.server = client, server
    return boot_id(), client.first_call


def _issue(trace: str) -> None:
    tracing = _here(trace)
    tracing.usage.begin()
    tracing.client.start()


def _pause(trace: str) -> bool:
    tracing = _here(trace)
    tracing.client.pause()
    tracing.server.stop()
    profiler, tracing.operators = tracing.operators, None
    if profiler is not None:
        profiler.discard()
    return profiler is None or not profiler.is_cut


def _resume(trace: str) -> None:
    tracing = _here(trace)
    if tracing.with_operators:
        tracing.operators = OperatorProfiler(operators_here())
    tracing.server.start()
    tracing.client.resume()


@contextmanager
def unrecorded() -> Iterator[None]:
    """Record no call that this process issues meanwhile."""
    if _tracing is None or not _tracing.client.is_issuing:
        yield
        return
    client = _tracing.client
    client.is_issuing = False
    try:
        yield
    finally:
        client.is_issuing = True


def _stop_issuing(trace: str) -> None:
    tracing = _here(trace)
    tracing.client.is_issuing = False
    tracing.used = tracing.usage.read()


def _pending(trace: str) -> int:
    return _here(trace).client.pending + len(serving_now())


def _collect(trace: str, first_calls: Mapping[int, int]) -> RankRecording:
    """End the trace in this process; `first_calls` has the smallest ids of its calls, by rank."""
    global _tracing
    tracing = _here(trace)
    _tracing = None
    profiler = tracing.end()
    recorded = profiler.stop() if profiler is not None else RecordedOperators([], False, None)
    operators = [OperatorSpan(*span) for span in recorded.spans]
    client, server = tracing.client, tracing.server

    def is_ours(call_id: int) -> bool:
        return call_id >= first_calls[call_id // CALLS_PER_RANK]

    client_spans, callbacks = client.spans(), client.callbacks.spans()
    server_spans = [span for span in server.spans() if is_ours(span.call_id)]
    held = {callback.thread for callback in callbacks if callback.holds_thread}
    others = {operator.thread for operator in operators} | {
        callback.thread for callback in callbacks
    }
    names = thread_names(
        serving={span.thread for span in server_spans} | held,
        others={span.thread for span in client_spans} | others,
    )
    forget_threads()
    worker, used = rpc.get_worker_info(), tracing.used
    main_cpu_s, main_run_queue_s = used.main or (None, None)
    others_cpu_s, others_run_queue_s = used.others or (None, None)
    pool_cpu_s, pool_run_queue_s = used.pool or (None, None)
    return RankRecording(
        rank=worker.id,
        name=worker.name,
        host=platform.node(),
        boot_id=boot_id(),
        pid=os.getpid(),
        cpu_count=usable_cpus(),
        num_worker_threads=worker_threads(),
        rpc_timeout_s=default_timeout_s(),
        cpu_s=used.cpu_s,
        main_cpu_s=main_cpu_s,
        main_run_queue_s=main_run_queue_s,
        others_cpu_s=others_cpu_s,
        others_run_queue_s=others_run_queue_s,
        intra_op_threads=intra_op_threads_now(),
        switch_interval_s=traced_interval_s(),
        pool_cpu_s=pool_cpu_s,
        pool_run_queue_s=pool_run_queue_s,
        scripts_call=scripts_call(),
        threads=tuple(names.items()),
        client_spans=client_spans,
        server_spans=server_spans,
        done_ns={call: done for call, done in server.done_ns.items() if is_ours(call)},
        operators=None if profiler is None else operators,
        operators_until_ns=recorded.until_ns,
        callbacks=callbacks,
        noted=client.operators,
        gil=tuple(client.gil),
        pauses=tuple(client.pauses),
        disturbed=recorded.was_disturbed,
        issued=client.issued,
        arrived=Counter(each // CALLS_PER_RANK for each in server.arrivals if is_ours(each)),
    )


def _abandon(trace: str) -> None:
    """End this trace, if it is under way in this process, and discard it."""
    global _tracing
    if _tracing is not None and _tracing.name == trace:
        tracing, _tracing = _tracing, None
        if (profiler := tracing.end()) is not None:
            profiler.discard()
        forget_threads()


def _clock_now() -> tuple[int, int]:
    return time.time_ns(), time.time_ns()


def _here(trace: str) -> _Tracing:
    if _tracing is None or _tracing.name != trace:
        raise RuntimeError("this process is no longer being traced")
    return _tracing
