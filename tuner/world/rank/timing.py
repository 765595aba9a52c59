"""Runs in rank 0: warms up, times the steps, and in a traced world traces them."""

import random
import statistics
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from math import ceil

# By its name: a workload may patch the clock for itself.
from time import perf_counter_ns
from typing import NamedTuple

from tuner.files import written_atomically
from tuner.trace.files.native_writer import trace_document
from tuner.trace.record.driver import TraceDriver
from tuner.trace.record.merge import merge
from tuner.world.launcher import TraceOrder

# Allocators, caches and the scheduler's placement of threads need about this long to settle.
WARM_UP_S = 0.05
WARM_UP_STEPS = 20
# A p99 needs no more; steps of nanoseconds would fill the memory.
MOST_SAMPLES = 2000
# Between steps no call is under way, unless the workload makes some in the background.
DRAIN_S = 2.0
# Steps are traced or not in turns of at most this many: speed drifts less from turn to turn than
# over all steps. The first step of a turn finds its caches cold.
TURN_STEPS = 10
LEAST_TURNS = 4


class Timing(NamedTuple):
    """The timed steps of a world."""

    step_s: list[float]
    """Seconds of each, or of MOST_SAMPLES that were drawn at random, in order."""
    steps: int
    """How many there were."""
    wall_s: float
    """Seconds that they took together."""
    cpu_s: list[float]
    """CPU seconds meanwhile, one for each process."""


class StepTimer:
    """Runs a workload's step again and again; `on_step` gets how many are done so far."""

    def __init__(
        self, step: Callable[[], None], *, min_time_s: float,
        cpu_clocks: Callable[[], Sequence[float]], on_step: Callable[[int], None],
    ) -> None:  # fmt: skip
        self._step = step
        self._min_time_s = min_time_s
        self._cpu_clocks = cpu_clocks
        self._on_step = on_step
        self._done = 0
        # One of its own: a workload has seeded the other one for itself.
        self._random = random.Random(MOST_SAMPLES).random

    def warm_up(self) -> None:
        """Run steps that are no samples: for WARM_UP_S at least; then until WARM_UP_STEPS are done,
        but for no longer than the timed steps last at least."""
        # The first step pays the connection set-up.
        seconds = self._run_one()
        while seconds < WARM_UP_S or (self._done < WARM_UP_STEPS and seconds < self._min_time_s):
            seconds += self._run_one()

    def time(self, steps: int | None) -> Timing:
        """Time `steps` steps or, if that is None, as many as last `min_time_s`; one at least."""
        cpu_before = self._cpu_clocks()
        kept: dict[int, tuple[int, float]] = {}
        count = 0
        start_ns = perf_counter_ns()
        end_ns = start_ns + self._min_time_s * 1e9
        while count == 0 or (perf_counter_ns() < end_ns if steps is None else count < steps):
            seconds = self._run_one()
            # The last of n is kept with a chance of MOST_SAMPLES / n: each of them is as likely.
            place = count if count < MOST_SAMPLES else int(self._random() * (count + 1))
            if place < MOST_SAMPLES:
                kept[place] = (count, seconds)
            count += 1
        wall_s = (perf_counter_ns() - start_ns) / 1e9
        cpu_s = [now - then for then, now in zip(cpu_before, self._cpu_clocks(), strict=True)]
        return Timing([seconds for _, seconds in sorted(kept.values())], count, wall_s, cpu_s)

    def _run_one(self) -> float:
        start_ns = perf_counter_ns()
        self._step()
        seconds = (perf_counter_ns() - start_ns) / 1e9
        self._done += 1
        self._on_step(self._done)
        return seconds


def time_traced_steps(
    timer: StepTimer, steps: int, order: TraceOrder,
    handing_over: Callable[[], AbstractContextManager[None]],
) -> tuple[Timing, float | None]:  # fmt: skip
    """Measure the tracing overhead on so many steps, then trace as many and write the trace.
    TraceError, and no file, if the trace is incomplete. What is no time of the workload is done in
    the context `handing_over`."""
    driver = TraceDriver(operators=order.operators, drain_s=DRAIN_S)
    overhead = _tracing_overhead(timer, ceil(steps / 2), driver, handing_over)
    driver = TraceDriver(operators=order.operators, drain_s=DRAIN_S)
    driver.start()
    try:
        traced = timer.time(steps)
    except BaseException:
        driver.abandon()
        raise
    with handing_over():
        recordings, clocks, window_ns = driver.stop()
        merged = merge(recordings, clocks, window_ns, steps=steps, tracing_overhead=overhead)
        with written_atomically(order.path) as partial:
            partial.write_bytes(trace_document(merged))
    return traced, overhead


def _tracing_overhead(
    timer: StepTimer, steps: int, driver: TraceDriver,
    handing_over: Callable[[], AbstractContextManager[None]],
) -> float | None:  # fmt: skip
    """Median traced step time over median untraced step time, of at least `steps` steps each. The
    turns go untraced, traced, traced, untraced, and so on: a steady drift cancels out. None if the
    steps have so many operators that not all were recorded in a turn."""

    def has_all() -> bool:
        with handing_over():
            return driver.pause()

    turn = min(TURN_STEPS, ceil(steps / LEAST_TURNS))
    step_s = {False: timer.time(turn).step_s}
    driver.start()
    try:
        is_traced = True
        step_s[True] = timer.time(turn).step_s
        for _ in range(1, ceil(steps / turn)):
            step_s[is_traced] += timer.time(turn).step_s
            if not is_traced:
                driver.resume()
            elif not has_all():
                return None
            is_traced = not is_traced
            step_s[is_traced] += timer.time(turn).step_s
        if is_traced and not has_all():
            return None
    finally:
        with handing_over():
            driver.abandon()
    return statistics.median(step_s[True]) / statistics.median(step_s[False])
