"""Traces all ranks from one of them: starts and ends in step, and gathers what each recorded.

Everything travels by RPC itself, so a program needs nothing but the package in each process.
"""

import time
import uuid
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Any, Literal

import torch.distributed.rpc as rpc

from tuner.errors import TraceError
from tuner.torch_private.agent import all_workers
from tuner.torch_private.answers import error_line
from tuner.trace.record import process
from tuner.trace.record.clock import SAME_CLOCK, ClockOffset, ClockSample, clock_offset
from tuner.trace.record.recording import RankRecording

# A request is answered in well under a millisecond; many, so that one of them met no delay.
CLOCK_SAMPLES = 50
_POLL_S = 0.002


class TraceDriver:
    """One trace of all ranks, from `start` to `stop`. Not for two threads at once."""

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
        self._clocks: dict[str, list[ClockSample]] = {}
        self._first_calls: dict[int, int] = {}
        self._started_ns = self._stopped_ns = 0

    def start(self) -> None:
        """Start recording in every process. TraceError, and nothing recorded, if one cannot."""
        try:
            ready = self._everywhere("start tracing in", process.listen, self._operators)
            self._first_calls = {self._ranks[name]: ready[name].first_call for name in ready}
            here = ready[self._here].boot_id
            far = [name for name in self._ranks if ready[name].boot_id != here]
            self._clocks = {name: _read_clock(name) for name in far}
            self._everywhere("start tracing in", process.issue)
        except BaseException:
            self.abandon()
            raise
        self._started_ns = time.time_ns()

    def stop(self) -> tuple[list[RankRecording], dict[str, ClockOffset], tuple[int, int]]:
        """Stop in every process; gives the recordings, the clocks, and the window.

        The recordings are in rank order. A clock is that of a process, by name, against this
        one's; the window is the time from the end of `start` to the begin of `stop`, by this
        process's clock, in Unix nanoseconds. Calls under way get `drain_s` seconds to end.
        """
        self._stopped_ns = time.time_ns()
        try:
            self._everywhere("stop tracing in", process.stop_issuing, here="first")
            until = time.monotonic() + self._drain_s
            while any(self._everywhere("ask", process.pending).values()):
                if time.monotonic() >= until:
                    break
                time.sleep(_POLL_S)
            clocks = {
                name: clock_offset(before, _read_clock(name))
                for name, before in self._clocks.items()
            }
            recordings = self._everywhere(
                "collect the trace of", process.collect, self._first_calls
            )
        except BaseException:
            self.abandon()
            raise
        offsets = {name: clocks.get(name, SAME_CLOCK) for name in self._ranks}
        window_ns = (self._started_ns, self._stopped_ns)
        return [recordings[name] for name in self._ranks], offsets, window_ns

    def pause(self) -> None:
        """Leave all processes as if they were not traced, until `resume`.

        A trace with a pause in it is for timing steps with and without it, and to be abandoned:
        its window has a hole, and its operators before the pause are gone.
        """
        self._everywhere("pause tracing in", process.pause, here="first")

    def resume(self) -> None:
        """Go on after a `pause`."""
        self._everywhere("resume tracing in", process.resume)

    def abandon(self) -> None:
        """Stop in every process that can still be reached, and forget what it recorded."""
        process.abandon(self._trace)
        # One that is gone, or has no tuner, has nothing to abandon.
        with suppress(Exception):
            futures = [
                rpc.rpc_async(name, process.abandon, args=(self._trace,)) for name in self._others
            ]
            for future in futures:
                with suppress(Exception):
                    future.wait()

    @property
    def _others(self) -> list[str]:
        return [name for name in self._ranks if name != self._here]

    def _everywhere(
        self,
        what: str,
        request: Callable[..., Any],
        *args: object,
        here: Literal["first", "last"] = "last",
    ) -> dict[str, Any]:
        """The answer of each process, by name.

        What starts the recording of calls comes last here, and what ends it first: the requests
        themselves are no part of the program.
        """
        problems: list[str] = []

        def attempt(name: str, action: Callable[[], Any]) -> Any:
            try:
                return action()
            except Exception as error:
                problems.append(f"cannot {what} {name}: {_reason(error)}")

        arguments = (self._trace, *args)
        answers: dict[str, Any] = {}
        if here == "first":
            answers[self._here] = attempt(self._here, partial(request, *arguments))
        futures = {
            name: attempt(name, partial(rpc.rpc_async, name, request, args=arguments))
            for name in self._others
        }
        for name, future in futures.items():
            if future is not None:
                answers[name] = attempt(name, future.wait)
        if here == "last" and not problems:
            answers[self._here] = attempt(self._here, partial(request, *arguments))
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
    if "No module named 'tuner" in str(error):
        return "rpc-tuner is not installed there"
    return error_line(error)
