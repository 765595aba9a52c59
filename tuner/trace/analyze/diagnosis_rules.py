"""The rules of the diagnosis: each says, from a server's evidence, whether it fits and why."""

from collections.abc import Sequence

from tuner.text import duration, first_of, listed, plural, three_digits, whole_percent
from tuner.trace.analyze.server_evidence import Cpu, Evidence
from tuner.trace.model.spans import TraceRank

BUSY = 0.3  # a server that works for less of the window than this is not what limits the program
MOST = 0.5
"""What takes more than this share is the one to name: a server that fills the time, threads that
are all at work. Calls that waited for a thread for less of their wait waited for something else."""
QUEUED = 0.15
"""Calls that wait for a thread for less of their latency than this: the estimate's own jitter."""
MATERIAL = 0.05  # a queue that takes less of the window than this is not worth a thread
SEVERAL = 1.5
"""The parallelism from which several calls run at once; at 1.0 they run one after another. Also
how many times it must rise if more threads are to be worth naming."""
ONE_CPU = (0.75, 1.25)
"""Calls that hold one lock in turn use one CPU together: less because handing the lock over takes
time, more because of what they do without it."""
FULL_HOST = 0.9
"""The share of the machine's logical CPUs from which they are full: the kernel takes the rest."""
DO_NOT_HELP = "more threads do not help"
MOST_NAMED = 3  # processes, or functions, that are named
WAITS_FOR = "I/O, a lock, the GIL or a call that is not recorded"
"""What a thread that is off the CPU may wait for: calls of scripts never pass through Python."""
MOVE_WORK = "Move work into longer operators, which release the GIL, or to more processes."
BLOCKED = 0.8  # a thread that is off the CPU for this share of its time does little but wait
RUN_QUEUE = 0.2
"""Waiting for a CPU for this share of the served time is more than a scheduler's usual delays."""
RUN_QUEUE_ON_FULL_HOST = 0.1
"""Less is enough where the processes of the trace keep all logical CPUs of the machine busy."""
WAITED_FREE = 0.25
"""Calls that hardly waited while no thread was free were waiting for something else."""
OFF_CPU = 0.3  # with a parallelism of 1.5 on one CPU, each call is off it for a third of its time
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
DEFAULT_THREADS = 16  # PyTorch's num_worker_threads: a bound beyond it is not worth naming


def waits_for(*, has_pools: bool) -> str:
    """What a thread that is off the CPU may wait for, where its operators have threads to help or
    have none."""
    return f"an operator's threads, {WAITS_FOR}" if has_pools else WAITS_FOR


def short_of_threads(found: Evidence) -> bool:
    """Whether calls waited noticeably, and mostly because all threads were at work."""
    queue_share, use = found.means.queue_share, found.use
    is_noticeable = queue_share >= QUEUED and queue_share * use.in_flight_fraction >= MATERIAL
    return is_noticeable and use.waited_full_share >= MOST


def host_is_full(found: Evidence) -> bool:
    """Whether the processes of the trace keep all logical CPUs of the machine busy."""
    used, cpus = found.host_cpus_used, found.cpu_count
    return used is not None and cpus is not None and used >= FULL_HOST * cpus


def host_cpus(found: Evidence) -> str:
    """How many logical CPUs the trace's processes used, where that is known."""
    return logical_cpus(found.host_cpus_used or 0.0, found.cpu_count)


def logical_cpus(used: float, of: int | None = None) -> str:
    """`2 of 4 logical CPUs`; `0.8 logical CPUs` without `of`."""
    if of is not None:
        return f"{_number(used)} of {plural(of, 'logical CPU')}"
    return f"{_number(used)} logical CPU{'s' * (_number(used) != '1')}"


def few_named(names: Sequence[str]) -> str:
    """`a and b`, or `a, b, c, 4 more`."""
    return listed(names) if len(names) <= MOST_NAMED else first_of(names, MOST_NAMED)


def short_time(us: float) -> str:
    """As `tuner.text.duration`: one screen has one format."""
    return duration(us / 1e6)


def scaled(value: float, units: Sequence[str]) -> str:
    """Three digits, in the unit that fits: each is a thousand times the one before."""
    place = 0 if value < 1e3 else 1 if value < 1e6 else 2
    return f"{_number(value / 1e3**place)} {units[place]}"


def _number(value: float) -> str:
    return three_digits(round(value, 2))


def main_thread_used(process: TraceRank, seconds: float) -> str:
    """What is known of a main thread: `main thread was on the CPU for 70 % of the time`."""
    on_cpu, ready = (
        None if used_s is None else whole_percent(min(used_s / seconds, 1.0))
        for used_s in (process.main_cpu_s, process.main_run_queue_s)
    )
    waited = "" if ready is None else f", and waited for a CPU for {ready}"
    return f"main thread was on the CPU for {on_cpu} of the time{waited}"


def own_threads_used(cpu_s: float, seconds: float) -> str:
    """What is known of the others: `threads that serve no calls were on 0.9 logical CPUs`."""
    return f"threads that serve no calls were on {logical_cpus(cpu_s / seconds)}"


def _serving(found: Evidence) -> str:
    """How the server ran its calls: the beginning of a sentence."""
    use = found.use
    how = "in parallel" if use.parallelism >= SEVERAL else "one after another"
    on_threads = f"parallelism {_number(use.parallelism)} on {plural(found.pool, 'thread')}"
    busy = f"busy {whole_percent(use.busy_fraction)} of the time"
    return f"{found.server} ran its {found.work} {how} ({on_threads}, {busy})"


def _waiting(found: Evidence) -> str:
    """The same while others waited; the caller adds what follows from it."""
    waited = f"Each waited {short_time(found.means.queue_us)} for a thread"
    return f"{_serving(found)}. {waited}, {whole_percent(found.means.queue_share)} of its latency"


# Each of the rules below gives what it says; nothing if it does not fit.


def blocked_threads(found: Evidence) -> tuple[str, ...]:
    """That calls are off the CPU, asleep or waiting for others."""
    cpu, use = found.cpu, found.use
    if cpu is None or cpu.off_share < BLOCKED:
        return ()
    nested = found.nested_share >= MOST * cpu.off_share
    unknown = "slept, or waited for I/O or a call that is not recorded"
    why = f"They {'waited for calls of their own' if nested else unknown}."
    blocked = f"They were off the CPU for {whole_percent(cpu.off_share)} of their time. {why}"
    if short_of_threads(found):
        if not nested and use.parallelism >= SEVERAL and not _are_known_to_sleep(cpu):
            blocked = f"{blocked} If they wait for a lock, more threads do not help."
        return (f"{_waiting(found)}: more threads help.", blocked)
    limits = use.full_share >= MOST and use.busy_fraction >= MOST
    if not limits or found.means.queue_share >= QUEUED:
        return ()
    hardly = "They hardly waited for a thread: the calls themselves are the limit."
    return (f"{_serving(found)}. {hardly}", blocked)


def _are_known_to_sleep(cpu: Cpu) -> bool:
    """Whether it is known that calls do not wait for each other: some began alone, or they end as
    calls do that sleep."""
    return cpu.takes_turns is False or cpu.off_first_ratio is not None


def cpus_full(found: Evidence) -> tuple[str, ...]:
    """That the logical CPUs are full."""
    cpu, used, cpus = found.cpu, found.host_cpus_used, found.cpu_count
    if cpu is None or found.use.busy_fraction < BUSY:
        return ()
    served_full = cpus is not None and cpu.cpus_used >= FULL_HOST * cpus
    ready = RUN_QUEUE_ON_FULL_HOST if host_is_full(found) else RUN_QUEUE
    # Calls that are off the CPU for longer than they wait for one have another limit first.
    if not (served_full or cpu.run_queue_share >= max(ready, cpu.off_share)):
        return ()
    others = () if used is None or served_full or host_is_full(found) else taken_by_others(found)
    rest = (used or 0.0) - cpu.cpus_used * found.use.busy_fraction - found.host_known_cpus
    is_polled = rest >= 1 and not served_full and host_is_full(found)
    # Against other programs, and against threads that poll, more threads get more of the CPUs.
    helps = "" if others or (is_polled and short_of_threads(found)) else f": {DO_NOT_HELP}"
    said = (
        f"The logical CPUs are full{helps}. The calls that "
        f"{found.server} ran, with a parallelism of {_number(found.use.parallelism)}, used "
        f"{logical_cpus(cpu.cpus_used, cpus)}. They waited for a free one for "
        f"{whole_percent(cpu.run_queue_share)} of their time."
    )
    if used is None or served_full:
        return (said,)
    if not host_is_full(found):
        return (said, *others)
    polling = ": the shm transport polls on one in each process" if is_polled else ""
    return (said, f"All processes of the trace used {host_cpus(found)}{polling}.")


def taken_by_others(found: Evidence) -> tuple[str, ...]:
    """That other programs took the CPUs that calls waited for; empty if that is not shown.

    The trace's processes may have used what they used while the server was busy.
    """
    used, cpus = found.host_cpus_used, found.cpu_count
    if used is None or cpus is None or used >= FULL_HOST * cpus * found.use.busy_fraction:
        return ()
    rest = "Other programs, or a limit on CPU time, took the rest."
    return (f"All processes of the trace used {host_cpus(found)}. {rest}",)


def gil_or_lock(found: Evidence) -> tuple[str, ...]:
    """That calls wait for each other."""
    cpu, use = found.cpu, found.use
    if cpu is None or use.busy_fraction < BUSY:
        return ()
    uses_one_cpu = ONE_CPU[0] <= cpu.cpus_used <= ONE_CPU[1]
    if uses_one_cpu and _waits_though_threads_are_free(found):
        return (
            f"Calls wait for the GIL of {found.server}: more threads do not help. "
            f"Each waited {short_time(found.means.queue_us)} though threads were free. "
            f"{_serving(found)}. They used {logical_cpus(cpu.cpus_used)}.",
            MOVE_WORK,
        )
    if use.parallelism < SEVERAL:
        return _gil_ahead(found, cpu)
    hinder = _hinder_each_other(found, cpu)
    if hinder is False or (hinder is None and not uses_one_cpu):
        return ()
    gil = cpu.cpus_used >= GIL_AT_LEAST
    of_what = "the GIL or a lock" if gil else "a lock, or what works like one"
    operators = found.operator_parallelism
    in_operators = "" if operators is None else f", and operators one of {_number(operators)}"
    return (
        f"Threads of {found.server} {'' if hinder else 'seem to '}wait for {of_what}: more threads "
        f"do not help. Calls had a parallelism of {_number(use.parallelism)}{in_operators}. "
        f"They used {logical_cpus(cpu.cpus_used)} together. Each call was off the CPU for "
        f"{whole_percent(cpu.off_share)} of its time.",
        MOVE_WORK if gil else "Hold the lock for less time, or use more processes.",
    )


def _waits_though_threads_are_free(found: Evidence) -> bool:
    """Whether calls wait while others run, although threads are free: each needs the GIL.

    It is not the wire that holds the requests back: without a queue, a call takes no longer on the
    way than on the server.
    """
    means, use = found.means, found.use
    waits_long = means.queue_share * use.waited_serving_share >= QUEUED
    is_free = use.waited_full_share <= WAITED_FREE
    return waits_long and is_free and means.transport_us <= means.served_us


def _hinder_each_other(found: Evidence, cpu: Cpu) -> bool | None:
    """Whether calls are off the CPU because of each other; None if that is not known."""
    nested = found.nested_share >= MOST * cpu.off_share
    if nested or cpu.off_share < OFF_CPU or cpu.off_share <= cpu.run_queue_share:
        return False
    if cpu.off_first_ratio is not None and cpu.off_first_ratio <= UNHINDERED:
        return True
    if cpu.takes_turns is not None and cpu.cpus_used < GIL_AT_LEAST:
        return cpu.takes_turns
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
        f"{_waiting(found)}, but more threads do not help. For {whole_percent(gil)} of their time, "
        "calls are in Python or in short operators. The GIL lets only one thread run these.",
        MOVE_WORK,
    )


def queueing(found: Evidence) -> tuple[str, ...]:
    """That calls wait for a thread, and more of them would help."""
    most, why = _highest_parallelism(found)
    if not short_of_threads(found) or most < SEVERAL * found.use.parallelism:
        return ()
    cpu, conditions = found.cpu, []
    if cpu is None:
        unknown = "The trace does not tell whether they were on the CPU while they ran."
        return (f"{_waiting(found)}: more threads help.", unknown)
    # Calls that compute need more than a thread.
    if cpu.on_share >= MOST and cpu.gil_share is None and found.use.parallelism < SEVERAL:
        conditions.append("the calls release the GIL, as operators do")
    if cpu.on_share >= MOST and host_is_full(found):
        conditions.append(f"they get a CPU ({host_cpus(found)} are in use)")
    on_cpu = f"They were on the CPU for {whole_percent(cpu.on_share)} of their time"
    if conditions:
        helps = f"More threads help if {' and '.join(conditions)}"
        return (f"{_waiting(found)}. {helps}.", f"{on_cpu}.")
    named = most < DEFAULT_THREADS
    bound = f" The parallelism cannot exceed {three_digits(most)}, {why}." if named else ""
    return (f"{_waiting(found)}: more threads help.", f"{on_cpu}.{bound}")


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
