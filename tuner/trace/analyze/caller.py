"""What the caller does while it waits for no call."""

import numpy as np

from tuner.text import listed, whole_percent
from tuner.trace.analyze.intervals import Spans, parents
from tuner.trace.analyze.parallelism import server_name, window
from tuner.trace.analyze.path.frames import Driver
from tuner.trace.analyze.rules.wording import WAITS_FOR
from tuner.trace.model.trace import Trace

MOST = 0.5
"""What takes this share of the caller's own time is what it does."""
NAMED = 0.05
"""An operator is named if it takes this share of the time."""


def caller_meanwhile(
    trace: Trace, driver: Driver, own_share: float, *, is_whole: bool = True
) -> str:
    """A sentence on what the caller does, as far as the trace has it.

    Args:
        trace: The trace.
        driver: The caller.
        own_share: The share of the time in which it waits for no call.
        is_whole: Whether that time is most of the trace. What is known of the caller's CPU times
            and operators is of the whole trace, and says nothing of a part.

    Returns:
        Whether its thread computes, waits for a CPU, or neither; and its busiest operator.
    """
    process, name = trace.process(driver.rank), server_name(trace, driver.rank)
    unknown = f"The trace does not tell whether {name} computes meanwhile"
    if not is_whole:
        return f"{unknown}: its CPU time is known of the whole recording only."
    operator = _busiest_operator(trace, driver)
    opened, closed = window(trace)
    of_main = process is not None and driver.is_alone and driver.thread == process.pid
    if process is None or not of_main or process.main_cpu_s is None or closed <= opened:
        return f"{unknown}; of its operators, {operator}." if operator else f"{unknown}."
    seconds = (closed - opened) / 1e9
    on_cpu, run_queue = process.main_cpu_s / seconds, (process.main_run_queue_s or 0.0) / seconds
    does = f"sleeps, or waits for {WAITS_FOR}"
    if on_cpu >= MOST * own_share:
        does = "computes" + (f"; of its operators, {operator}" if operator else "")
    elif run_queue >= MOST * own_share:
        does = "waits for a free CPU"
    used = main_thread_used(on_cpu, None if process.main_run_queue_s is None else run_queue)
    return f"Meanwhile {name} {does}: its main thread {used}."


def main_thread_used(on_cpu: float, run_queue: float | None) -> str:
    """What a main thread did, by its shares of the time: `was on the CPU for 70 % of the time`."""
    used = [f"was on the CPU for {whole_percent(min(on_cpu, 1.0))} of the time"]
    if run_queue is not None:
        used.append(f"waited for a free one for {whole_percent(min(run_queue, 1.0))}")
    return listed(used)


def _busiest_operator(trace: Trace, driver: Driver) -> str:
    """The operator, of those that no other one ran, with the most time; empty if it has little."""
    operators = trace.operators
    opened, closed = window(trace)
    mine = operators[
        (operators["rank"] == driver.rank) & (operators["thread"] == driver.thread)
    ].reset_index(drop=True)
    if mine.empty or closed <= opened:
        return ""
    start, end = mine["start_ns"].to_numpy(), mine["end_ns"].to_numpy()
    outer = parents(Spans(np.zeros(len(mine), np.int64), start, end)) < 0
    lasted = (mine["end_ns"] - mine["start_ns"])[outer]
    by_name = lasted.groupby(mine.loc[outer, "name"], observed=True).sum()
    share = float(by_name.max()) / (closed - opened)
    if share < NAMED:
        return ""
    return f"{by_name.idxmax()} takes the most, {whole_percent(share)} of the time"
