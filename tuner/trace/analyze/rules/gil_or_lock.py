"""Calls wait for the GIL, or for a lock, that another call holds."""

from tuner.text import whole_percent
from tuner.trace.analyze.evidence import Cpu, Evidence
from tuner.trace.analyze.rules.thresholds import (
    BUSY,
    MOST,
    ONE_CPU,
    QUEUED,
    SEVERAL,
    short_of_threads,
)
from tuner.trace.analyze.rules.wording import (
    MOVE_WORK,
    logical_cpus,
    number,
    serving,
    short_time,
    waiting,
)

WAITED_FREE = 0.25
"""Calls that hardly waited while no thread was free were waiting for something else."""
OFF_CPU = 0.3
"""With a parallelism of 1.5 on one CPU, each call is off it for a third of its time."""
GIL_AT_LEAST = 0.5
"""Who holds the GIL is on the CPU, but it changes hands slowly; if less is used, it is a lock."""
LESS = 0.8
"""Calls that wait for each other are off the CPU for at most this share of the usual time when few
others run; calls that sleep are off it for as long as usual."""
UNHINDERED = 0.67
"""If calls that begin while no other runs are off the CPU for at most this share of the usual time,
calls wait for others. Not so with a GIL that many take turns with."""
GIL_LETS_ONE = 0.67
"""A GIL held for more of the served time than this allows a parallelism below 1.5."""


def gil_or_lock(found: Evidence) -> tuple[str, ...]:
    """What the rule says; empty if it does not fit."""
    cpu, use = found.cpu, found.use
    if cpu is None or use.busy_fraction < BUSY:
        return ()
    if _waits_though_threads_are_free(found, cpu):
        return (
            f"{serving(found)} and used {logical_cpus(cpu.cpus_used)}, while each waited "
            f"{short_time(found.means.queue_us)} though threads were free: calls wait for the GIL, "
            "and more threads do not help.",
            MOVE_WORK,
        )
    if use.parallelism < SEVERAL:
        return _gil_ahead(found, cpu)
    hinder = _hinder_each_other(found, cpu)
    if hinder is False or (hinder is None and not ONE_CPU[0] <= cpu.cpus_used <= ONE_CPU[1]):
        return ()
    gil = cpu.cpus_used >= GIL_AT_LEAST
    of_what = "the GIL or a lock" if gil else "a lock, or what works like one"
    operators = found.operator_parallelism
    in_operators = "" if operators is None else f", and operators with one of {number(operators)},"
    used = logical_cpus(cpu.cpus_used)
    return (
        f"Threads of {found.server} {'' if hinder else 'seem to '}wait for {of_what}: calls with "
        f"a parallelism of {number(use.parallelism)}{in_operators} used {used} together, each off "
        f"the CPU for {whole_percent(cpu.off_share)} of its time: more threads do not help.",
        MOVE_WORK if gil else "Hold it for less time, or use more processes.",
    )


def _waits_though_threads_are_free(found: Evidence, cpu: Cpu) -> bool:
    """Whether calls wait while others use one CPU, although threads are free: each needs the GIL.

    It is not the wire that holds the requests back: without a queue, a call takes no longer on the
    way than on the server.
    """
    means, use = found.means, found.use
    return (
        means.queue_share * use.waited_serving_share >= QUEUED
        and use.waited_full_share <= WAITED_FREE
        and means.transport_us <= means.served_us
        and ONE_CPU[0] <= cpu.cpus_used <= ONE_CPU[1]
    )


def _hinder_each_other(found: Evidence, cpu: Cpu) -> bool | None:
    """Whether calls are off the CPU because of each other; None if that is not known."""
    nested = found.nested_share >= MOST * cpu.off_share
    off = cpu.off_share >= OFF_CPU and cpu.off_share > cpu.run_queue_share
    if nested or not off:
        return False
    if cpu.off_first_ratio is not None and cpu.off_first_ratio <= UNHINDERED:
        return True
    by_cpu, whole = cpu.off_uncrowded_ratio, cpu.off_uncrowded_whole_ratio
    if by_cpu is None or whole is None or (by_cpu <= LESS) != (whole <= LESS):
        return None
    return whole <= LESS


def _gil_ahead(found: Evidence, cpu: Cpu) -> tuple[str, ...]:
    """If calls run one after another: that the GIL would keep more threads from helping."""
    gil = cpu.gil_share
    if gil is None or gil < GIL_LETS_ONE or not short_of_threads(found):
        return ()
    return (
        f"{waiting(found)}, but more threads do not help: for {whole_percent(gil)} of their "
        "time they are in Python or in short operators, which the GIL lets only one thread run.",
        MOVE_WORK,
    )
