"""The logical CPUs are full: threads that could run wait for one."""

from tuner.text import whole_percent
from tuner.trace.analyze.evidence import Evidence
from tuner.trace.analyze.rules.thresholds import BUSY, FULL_HOST
from tuner.trace.analyze.rules.wording import logical_cpus, number

RUN_QUEUE = 0.2
"""Waiting for a CPU for this share of the served time is more than a scheduler's usual delays."""
RUN_QUEUE_ON_FULL_HOST = 0.1
"""Less is enough where the processes of the trace keep all logical CPUs of the machine busy."""


def cpus_full(found: Evidence) -> tuple[str, ...]:
    """What the rule says; empty if it does not fit."""
    cpu, used, cpus = found.cpu, found.host_cpus_used, found.cpu_count
    if cpu is None or found.use.busy_fraction < BUSY:
        return ()
    host_full = host_is_full(found)
    served_full = cpus is not None and cpu.cpus_used >= FULL_HOST * cpus
    ready = cpu.run_queue_share >= (RUN_QUEUE_ON_FULL_HOST if host_full else RUN_QUEUE)
    # Calls that are off the CPU for longer than they wait for one have another limit first.
    if not (served_full or (ready and cpu.run_queue_share >= cpu.off_share)):
        return ()
    said = (
        f"The logical CPUs are full: the calls that {found.server} ran, with a parallelism of "
        f"{number(found.use.parallelism)}, used {logical_cpus(cpu.cpus_used, cpus)} and waited for "
        f"a free one for {whole_percent(cpu.run_queue_share)} of their time: more threads do not "
        "help."
    )
    if used is None or served_full:
        return (said,)
    if not host_full:
        return (said, *taken_by_others(found))
    served = cpu.cpus_used * found.use.busy_fraction
    polling = ": the shm transport polls on one in each process" if used - served >= 1 else ""
    return (said, f"{_together(found)}{polling}.")


def host_is_full(found: Evidence) -> bool:
    """Whether the processes of the trace keep all logical CPUs of the machine busy."""
    used, cpus = found.host_cpus_used, found.cpu_count
    return used is not None and cpus is not None and used >= FULL_HOST * cpus


def taken_by_others(found: Evidence) -> tuple[str, ...]:
    """That other programs took the CPUs that calls waited for; empty if that is not shown.

    The trace's processes may have used what they used while the server was busy.
    """
    used, cpus = found.host_cpus_used, found.cpu_count
    if used is None or cpus is None or used >= FULL_HOST * cpus * found.use.busy_fraction:
        return ()
    return (f"{_together(found)}: other programs, or a limit on CPU time, took the rest.",)


def _together(found: Evidence) -> str:
    assert found.host_cpus_used is not None
    used = logical_cpus(found.host_cpus_used, found.cpu_count)
    return f"All processes of the trace used {used}"
