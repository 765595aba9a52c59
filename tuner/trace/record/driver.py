"""Traces all ranks from one of them: starts and stops the recording, and collects the spans.

All requests are RPCs themselves, so each process needs the package and nothing else.
"""

import time
import uuid
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Literal

import torch.distributed.rpc as rpc

from tuner.errors import TraceError
from tuner.torch_private.agent import all_workers
from tuner.torch_private.answers import error_line
from tuner.trace.model.spans import RankRecording
from tuner.trace.record import process
from tuner.trace.record.clock import SAME_CLOCK, ClockOffset, ClockSample, clock_offset

# Enough for one of them to meet no delay; each takes well under a millisecond.
CLOCK_SAMPLES = 50
_POLL_S = 0.002


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
            ready = self._everywhere("start tracing in", process.listen, self._operators)
            self._first_calls = {self._ranks[name]: first for name, (_, first) in ready.items()}
            boot_id, _ = ready[self._here]
            self._clocks = {name: _read_clock(name) for name in ready if ready[name][0] != boot_id}
            self._everywhere("start tracing in", process.issue)
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
            self._everywhere("stop tracing in", process.stop_issuing, here="first")
            until = time.monotonic() + self._drain_s
            while any(self._everywhere("ask", process.pending).values()):
                if time.monotonic() >= until:
                    break
                time.sleep(_POLL_S)
            clocks = dict.fromkeys(self._ranks, SAME_CLOCK)
            for name, before in self._clocks.items():
                clocks[name] = clock_offset(before, _read_clock(name))
            found = self._everywhere("collect the trace of", process.collect, self._first_calls)
        except BaseException:
            self.abandon()
            raise
        return [found[name] for name in self._ranks], clocks, (self._started_ns, stopped_ns)

    def pause(self) -> None:
        """Make all processes run as if they were not traced, until `resume`.

        For timing steps with and without tracing. Abandon a trace that was paused: its window has
        a gap, and its operators from before the pause are lost.
        """
        self._everywhere("pause tracing in", process.pause, here="first")

    def resume(self) -> None:
        """Continue after a `pause`."""
        self._everywhere("resume tracing in", process.resume)

    def abandon(self) -> None:
        """Stop in every process that can still be reached, and discard what it recorded."""
        process.abandon(self._trace)
        # A process that has ended, or lacks the package, has nothing to abandon.
        with suppress(Exception):
            arguments = (self._trace,)
            for future in [rpc.rpc_async(n, process.abandon, arguments) for n in self._others]:
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
        problems: list[str] = []

        def attempt(name: str, action: Callable[..., Any], *args: object) -> Any:
            try:
                return action(*args)
            except Exception as error:
                problems.append(f"cannot {what} {name}: {_reason(error)}")

        arguments = (self._trace, *args)
        answers: dict[str, Any] = {}
        if here == "first":
            answers[self._here] = attempt(self._here, request, *arguments)
        futures = [
            (name, attempt(name, rpc.rpc_async, name, request, arguments)) for name in self._others
        ]
        for name, future in futures:
            if future is not None:
                answers[name] = attempt(name, future.wait)
        if here == "last" and not problems:
            answers[self._here] = attempt(self._here, request, *arguments)
        if problems:
            raise TraceError("; ".join(problems))
        return answers


def _read_clock(name: str) -> list[ClockSample]:
    samples = []
    for _ in range(CLOCK_SAMPLES):
        sent_ns = time.time_ns()
        try:
            begun_ns, ended_ns = rpc.rpc_sync(name, process.read_clock)
        except Exception as error:
            raise TraceError(f"cannot read the clock of {name}: {_reason(error)}") from error
        samples.append(ClockSample(sent_ns, begun_ns, ended_ns, time.time_ns()))
    return samples


def _reason(error: Exception) -> str:
    is_missing = "No module named 'tuner" in str(error)
    return "rpc-tuner is not installed there" if is_missing else error_line(error)
