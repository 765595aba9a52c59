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

# Between steps nothing is under way, unless the workload calls in the background.
DRAIN_S = 2.0
# Steps are traced or not in turns of so many at most: speed drifts less from turn to turn than over
# all. The first step of a turn finds its caches cold.
TURN_STEPS = 10
LEAST_TURNS = 4


@dataclass(frozen=True)
class TracedTiming:
    """What the traced steps took, and what the tracing added to them."""

    timing: Timing
    tracing_overhead: float
    """Median traced step over median untraced step, of the same world."""


def time_traced_steps(timer: StepTimer, steps: int, order: TraceOrder) -> TracedTiming:
    """Measure the observer effect, then trace `steps` steps at a stretch and write the trace.

    Before the trace as many steps are run as in it, half of them traced, half not. TraceError if
    the trace is incomplete; then no file is written.
    """
    effect = tracing_overhead(timer, math.ceil(steps / 2), operators=order.operators)
    driver = TraceDriver(operators=order.operators, drain_s=DRAIN_S)
    driver.start()
    try:
        traced = timer.time(steps)
    except BaseException:
        driver.abandon()
        raise
    recordings, clocks, window_ns = driver.stop()
    merged = merge(recordings, clocks, window_ns, steps=steps, tracing_overhead=effect)
    with written_atomically(order.path) as partial:
        partial.write_bytes(trace_document(merged))
    return TracedTiming(traced, effect)


def tracing_overhead(timer: StepTimer, steps: int, *, operators: bool) -> float:
    """Median traced step over median untraced step, `steps` of each at least.

    The turns go untraced, traced, traced, untraced, and so on: a steady drift cancels out.
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
