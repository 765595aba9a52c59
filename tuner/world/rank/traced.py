"""Runs in rank 0 of a traced world: how much the tracer slows the steps, then their trace."""

import math
import statistics
from dataclasses import dataclass

from tuner.files import written_atomically
from tuner.trace.files.native_writer import trace_document
from tuner.trace.record.driver import TraceDriver
from tuner.trace.record.merge import merge
from tuner.world.launcher import TraceOrder
from tuner.world.rank.timing import StepTimer, Timing

# Between steps no call is under way, unless the workload makes some in the background.
DRAIN_S = 2.0
# Steps are traced or not in turns of at most this many: speed drifts less from turn to turn than
# over all steps. The first step of a turn finds its caches cold.
TURN_STEPS = 10
LEAST_TURNS = 4


@dataclass(frozen=True)
class TracedTiming:
    """What the traced steps took, and the tracing overhead."""

    timing: Timing
    tracing_overhead: float
    """Median traced step time over median untraced step time, of the same world."""


def time_traced_steps(timer: StepTimer, steps: int, order: TraceOrder) -> TracedTiming:
    """Measure the tracing overhead, then trace `steps` steps in a row and write the trace.

    The overhead is measured on as many steps, half of them traced, half not.

    Raises:
        TraceError: The trace is incomplete; then no file is written.
    """
    overhead = tracing_overhead(timer, math.ceil(steps / 2), operators=order.operators)
    driver = TraceDriver(operators=order.operators, drain_s=DRAIN_S)
    driver.start()
    try:
        traced = timer.time(steps)
    except BaseException:
        driver.abandon()
        raise
    recordings, clocks, window_ns = driver.stop()
    merged = merge(recordings, clocks, window_ns, steps=steps, tracing_overhead=overhead)
    with written_atomically(order.path) as partial:
        partial.write_bytes(trace_document(merged))
    return TracedTiming(traced, overhead)


def tracing_overhead(timer: StepTimer, steps: int, *, operators: bool) -> float:
    """Median traced step time over median untraced step time, of at least `steps` steps each.

    The turns go untraced, traced, traced, untraced, and so on, so that a steady drift cancels out.
    """
    turn = min(TURN_STEPS, math.ceil(steps / LEAST_TURNS))
    untraced = timer.time(turn).step_s
    traced: list[float] = []
    driver = TraceDriver(operators=operators, drain_s=DRAIN_S)
    driver.start()
    try:
        traced += timer.time(turn).step_s
        for number in range(1, math.ceil(steps / turn)):
            if number % 2:
                traced += timer.time(turn).step_s
                driver.pause()
                untraced += timer.time(turn).step_s
            else:
                untraced += timer.time(turn).step_s
                driver.resume()
                traced += timer.time(turn).step_s
    finally:
        driver.abandon()
    return statistics.median(traced) / statistics.median(untraced)
