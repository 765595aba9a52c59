"""Calls wait for a thread, and more of them could run in parallel."""

from tuner.text import plural, three_digits, whole_percent
from tuner.trace.analyze.evidence import Cpu, Evidence
from tuner.trace.analyze.rules.thresholds import (
    FULL_HOST,
    MOST,
    ONE_CPU,
    SEVERAL,
    short_of_threads,
)
from tuner.trace.analyze.rules.wording import logical_cpus, waiting

GAIN = 1.5
"""More threads are worth naming if they could raise the parallelism this many times."""
DEFAULT_THREADS = 16
"""PyTorch's num_worker_threads: a bound beyond it is not worth naming."""


def queueing(found: Evidence) -> tuple[str, ...]:
    """What the rule says; empty if it does not fit."""
    most, why = _highest_parallelism(found)
    if not short_of_threads(found) or most < GAIN * found.use.parallelism:
        return ()
    cpu = found.cpu
    if cpu is None:
        unknown = "The trace does not tell whether they were on the CPU while they ran."
        return (f"{waiting(found)}: more threads help.", unknown)
    on_cpu = f"They were on the CPU for {whole_percent(cpu.on_share)} of their time"
    if conditions := _conditions(found, cpu):
        return (f"{waiting(found)}: more threads help if {conditions}.", f"{on_cpu}.")
    named = most < DEFAULT_THREADS
    bound = f"; the parallelism cannot exceed {three_digits(most)}, {why}" if named else ""
    return (f"{waiting(found)}: more threads help.", f"{on_cpu}{bound}.")


def _conditions(found: Evidence, cpu: Cpu) -> str:
    """The conditions under which more threads help calls that compute; empty if there are none."""
    if cpu.on_share < MOST:
        return ""
    conditions = []
    if cpu.gil_share is None and found.use.parallelism < SEVERAL:
        conditions.append("the calls release the GIL, as operators do")
    used, cpus = found.host_cpus_used, found.cpu_count
    if used is not None and cpus is not None and used >= FULL_HOST * cpus:
        conditions.append(f"they get a CPU ({logical_cpus(used, cpus)} are in use)")
    return " and ".join(conditions)


def _highest_parallelism(found: Evidence) -> tuple[float, str]:
    """The parallelism that the GIL and the CPUs allow, and why; infinity if that is not known."""
    bounds = [(float("inf"), "")]
    cpu = found.cpu
    if cpu and found.cpu_count and cpu.on_share:
        cpus = plural(found.cpu_count, "logical CPU")
        bounds.append((found.cpu_count / cpu.on_share, f"as the machine has {cpus}"))
    if cpu and cpu.gil_share and cpu.cpus_used * cpu.gil_share / cpu.on_share <= ONE_CPU[1]:
        # If it were more than one CPU's worth, it would be native code, which releases the GIL.
        held = f"as the GIL is held for {whole_percent(cpu.gil_share)} of their time"
        bounds.append((1 / cpu.gil_share, held))
    return min(bounds)
