"""Runs in rank 0 of a traced world: steps under the tracer, between steps without it."""

import math
import statistics
from dataclasses import dataclass

from tuner.files import written_atomically
from tuner.trace.live.driver import TraceDriver
from tuner.trace.live.merge import merge
from tuner.trace.perfetto import trace_document
from tuner.world.launcher import TraceOrder
from tuner.world.timing import StepTimer, Timing

# Between steps nothing is under way, unless the workload calls in the background.
DRAIN_S = 2.0


@dataclass(frozen=True)
class TracedTiming:
    """What the traced steps took, and what the tracing added to them."""

    timing: Timing
    observer_effect: float
    """Median traced step over median untraced step, of the same world."""


def time_traced_steps(timer: StepTimer, steps: int, order: TraceOrder) -> TracedTiming:
    """Trace `steps` steps, with half as many untraced before and after; write the trace.

    TraceError if it is incomplete; then no file is written.
    """
    untraced = timer.time(math.ceil(steps / 2)).step_s
    driver = TraceDriver(operators=order.operators, drain_s=DRAIN_S)
    driver.start()
    try:
        traced = timer.time(steps)
    except BaseException:
        driver.abandon()
        raise
    recordings, clocks, window_ns = driver.stop()
    untraced += timer.time(math.ceil(steps / 2)).step_s
    effect = statistics.median(traced.step_s) / statistics.median(untraced)
    merged = merge(recordings, clocks, window_ns, steps=steps, observer_effect=effect)
    with written_atomically(order.path) as partial:
        partial.write_bytes(trace_document(merged))
    return TracedTiming(traced, effect)
