"""Why a world's calls take as long as they do: one or two sentences that follow from numbers.

The rules are tried in the order of `RULES`, and the first that fits speaks. Causes come before what
they cause: on full cores everything takes longer, the waits for locks and for threads too; threads
that wait for each other, or sleep, also make calls queue. So a queue is laid to the number of
threads alone only where none of those explains it. That the caller or the wire is the limit remains
when the server is not. Every rule needs clear numbers: where none fits, there is "no clear limit".
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from tuner.trace.analyze.evidence import Cpu, Evidence, gather
from tuner.trace.model.trace import Trace

Rule = Literal[
    "cores-full", "gil-or-lock", "blocked-threads", "queueing", "caller-or-wire", "no-clear-limit"
]

ENOUGH_CALLS = 10
"""Fewer served calls are an anecdote."""
KNOWN_SHARE = 0.8
"""Of the calls to the server, how many must be known from start to end to speak for all."""
BUSY = 0.3
"""A server that works for less of the window than this is not what limits the program."""
IDLE = 0.5
"""A server that works for less of the window than this leaves more to the caller and the wire."""

QUEUED = 0.15
"""Calls that wait for a thread for less of their latency than this: the estimate's own jitter."""
MATERIAL = 0.05
"""A queue that takes less of the window than this is not worth a thread."""
WAITED_FULL = 0.5
"""Calls that mostly waited while a thread was free were not waiting for a thread."""
WAITED_FREE = 0.25
"""Calls that hardly waited while no thread was free were waiting for something else."""

RUN_QUEUE = 0.2
"""Ready without a core for this share of the served time: more than a scheduler's usual delays."""
RUN_QUEUE_ON_FULL_HOST = 0.1
"""Enough, where the processes together keep the machine's cores on."""
FULL_HOST = 0.9
"""Share of the machine's cores from which they are full: the kernel takes some of the rest."""

SEVERAL = 1.5
"""From here on, calls are served several at once; at 1.0, one after another."""
OFF_CPU = 0.3
"""1.5 calls at once that share one core are each off it for a third of their time."""
ONE_CORE = (0.75, 1.25)
"""Calls that hold one lock in turn use one core together: less what it takes to hand the lock over,
plus what they do without it."""
GIL_AT_LEAST = 0.5
"""Who holds the GIL is on the CPU, but it changes hands slowly; with less, it is another lock."""
LESS = 0.8
"""Calls that wait for each other are off the CPU for at most this share of what is usual when in
little company; calls that sleep, for as long."""
UNHINDERED = 0.67
"""Calls that begin while no other is in service are off the CPU for at most this share of what is
usual: then it is for others that calls wait. Not seen of a GIL that many take turns with."""
GAIN = 1.5
"""More threads are worth naming if this many times as many calls could run at once."""
DEFAULT_THREADS = 16
"""PyTorch's num_worker_threads: a bound beyond it is not worth naming."""
GIL_LETS_ONE = 0.67
"""The GIL, if held for more of the served time than this, lets fewer than 1.5 calls run at once."""

BLOCKED = 0.8
"""Share of its time off the CPU from which a thread does little but wait."""
FULL = 0.5
"""All threads were at work for most of the busy time."""
SERVED_LITTLE = 0.3
"""Calls that are served for less of their latency than this spend it elsewhere."""
MOST = 0.5
"""What takes more than this share is the one to name."""


MOVE_WORK = "Move work into longer operators, which release the GIL, or to more processes."


@dataclass(frozen=True, kw_only=True)
class Diagnosis:
    """What limits the calls of a trace."""

    rule: Rule
    sentences: tuple[str, ...]
    numbers: Evidence | None
    """What the sentences rest on; None if the trace shows no call being served."""

    @property
    def text(self) -> str:
        """The sentences as one paragraph."""
        return " ".join(self.sentences)


def diagnose(trace: Trace) -> Diagnosis:
    """What limits the calls of the server with the most served time."""
    found = gather(trace)
    if found is None:
        why = "its server's side is known of no call" if len(trace.calls) else "it holds no calls"
        said = f"No clear limit: the trace cannot tell, for {why}."
        return Diagnosis(rule="no-clear-limit", sentences=(said,), numbers=None)
    return judge(found)


def judge(found: Evidence) -> Diagnosis:
    """What the evidence says, by the first rule that fits."""
    if doubt := _doubt(found):
        return Diagnosis(rule="no-clear-limit", sentences=(doubt,), numbers=found)
    for rule, said_by in RULES:
        if sentences := said_by(found):
            return Diagnosis(rule=rule, sentences=sentences, numbers=found)
    return Diagnosis(rule="no-clear-limit", sentences=_no_clear_limit(found), numbers=found)


def _doubt(found: Evidence) -> str:
    """Why the evidence is too little to judge by; empty if it is not."""
    if found.means.calls < ENOUGH_CALLS:
        return f"No clear limit: the answers to {_count(found.means.calls, 'call')} cannot tell."
    if found.served_calls < KNOWN_SHARE * found.calls:
        known = f"{found.served_calls} of the {found.calls} calls to {_subject(found)}"
        return f"No clear limit: the trace shows how only {known} were served."
    return ""


def _cores_full(found: Evidence) -> tuple[str, ...]:
    cpu, used, cores = found.cpu, found.host_cores, found.cpu_count
    if cpu is None or found.use.busy_fraction < BUSY:
        return ()
    host_full = used is not None and cores is not None and used >= FULL_HOST * cores
    served_full = cores is not None and cpu.cores >= FULL_HOST * cores
    ready = cpu.run_queue_share >= (RUN_QUEUE_ON_FULL_HOST if host_full else RUN_QUEUE)
    # Calls that are off the CPU for longer than they wait for one have another limit first.
    if not (served_full or (ready and cpu.run_queue_share >= cpu.off_share)):
        return ()
    of_all = f"of {cores} " if cores is not None else ""
    said = (
        f"The cores are full: the calls that {_subject(found)} served, {found.use.at_once:.1f} at "
        f"once, used {cpu.cores:.2f} {of_all}cores and were ready without a core for "
        f"{_percent(cpu.run_queue_share)} of their time: more threads do not help."
    )
    if used is None or served_full:
        return (said,)
    together = f"All processes of the trace used {used:.1f} {of_all}cores"
    if not host_full:
        return (said, f"{together}: other programs, or a limit on CPU time, had the rest.")
    served = cpu.cores * found.use.busy_fraction
    polling = ": the shm transport polls on a core in each" if used - served >= 1 else ""
    return (said, f"{together}{polling}.")


def _gil_or_lock(found: Evidence) -> tuple[str, ...]:
    cpu, use = found.cpu, found.use
    if cpu is None or use.busy_fraction < BUSY:
        return ()
    if _waits_though_threads_are_free(found, cpu):
        return (
            f"{_serving(found)} and used {cpu.cores:.2f} cores, while each waited "
            f"{_duration(found.means.queue_us)} though threads were free: calls wait for the GIL, "
            "and more threads do not help.",
            MOVE_WORK,
        )
    if use.at_once < SEVERAL:
        return _gil_ahead(found, cpu)
    hinder = _hinder_each_other(found, cpu)
    if hinder is False or (hinder is None and not ONE_CORE[0] <= cpu.cores <= ONE_CORE[1]):
        return ()
    gil = cpu.cores >= GIL_AT_LEAST
    of_what = "the GIL or a lock" if gil else "a lock, or what works like one"
    operators = found.operators_at_once
    in_operators = f", their operators ran {operators:.1f} at once" if operators is not None else ""
    return (
        f"Threads of {_subject(found)} {'' if hinder else 'seem to '}wait for {of_what}: "
        f"{use.at_once:.1f} calls at once used {cpu.cores:.2f} cores together{in_operators}, each "
        f"off the CPU for {_percent(cpu.off_share)} of its time: more threads do not help.",
        MOVE_WORK if gil else "Hold it for less, or use more processes.",
    )


def _waits_though_threads_are_free(found: Evidence, cpu: Cpu) -> bool:
    """Whether calls wait for others to be served, one core's worth at a time, with threads free.

    A thread needs the GIL to begin. What is not on the way to hold a request back: one alone takes
    no longer there and back than it is served, so requests arrive faster than they are served.
    """
    means, use = found.means, found.use
    return (
        means.queue_share * use.waited_serving_share >= QUEUED
        and use.waited_full_share <= WAITED_FREE
        and means.transport_us <= means.served_us
        and ONE_CORE[0] <= cpu.cores <= ONE_CORE[1]
    )


def _hinder_each_other(found: Evidence, cpu: Cpu) -> bool | None:
    """Whether calls are off the CPU because of each other; None if their company cannot tell."""
    nested = found.nested_share >= MOST * cpu.off_share
    off = cpu.off_share >= OFF_CPU and cpu.off_share > cpu.run_queue_share
    if nested or not off:
        return False
    if cpu.off_first_ratio is not None and cpu.off_first_ratio <= UNHINDERED:
        return True
    return None if cpu.off_uncrowded_ratio is None else cpu.off_uncrowded_ratio <= LESS


def _gil_ahead(found: Evidence, cpu: Cpu) -> tuple[str, ...]:
    """Of calls served one after another: what the GIL would let several threads gain."""
    gil = cpu.gil_share
    if gil is None or gil < GIL_LETS_ONE or not _short_of_threads(found):
        return ()
    return (
        f"{_waiting(found)}, but more threads do not help: for {_percent(gil)} of their "
        "time they are in Python or in short operators, which the GIL lets only one thread run.",
        MOVE_WORK,
    )


def _blocked_threads(found: Evidence) -> tuple[str, ...]:
    cpu, use = found.cpu, found.use
    if cpu is None or cpu.off_share < BLOCKED:
        return ()
    nested = found.nested_share >= MOST * cpu.off_share
    why = "waiting for calls of their own" if nested else "asleep, or waiting for I/O"
    blocked = f"They were off the CPU for {_percent(cpu.off_share)} of their time, {why}."
    if _short_of_threads(found):
        if not nested and use.at_once >= SEVERAL and cpu.off_first_ratio is None:
            # None began alone, to show whether it is for each other that they wait.
            blocked = f"{blocked[:-1]}; if it is for a lock, more threads do not help after all."
        return (f"{_waiting(found)}: more threads help.", blocked)
    limits = use.full_share >= FULL and use.busy_fraction >= IDLE
    if not limits or found.means.queue_share >= QUEUED:
        return ()
    hardly = f"{_serving(found)}, and they hardly waited for a thread"
    return (f"{hardly}: the calls themselves are the limit.", blocked)


def _queueing(found: Evidence) -> tuple[str, ...]:
    most, why = _most_at_once(found)
    if not _short_of_threads(found) or most < GAIN * found.use.at_once:
        return ()
    cpu = found.cpu
    if cpu is None:
        unknown = "Whether they were on the CPU meanwhile, the trace does not tell."
        return (f"{_waiting(found)}: more threads help.", unknown)
    on_cpu = f"They were on the CPU for {_percent(cpu.on_share)} of their time"
    if conditions := _conditions(found, cpu):
        return (f"{_waiting(found)}: more threads help if {conditions}.", f"{on_cpu}.")
    named = most < DEFAULT_THREADS
    bound = f"; no more than {most:.3g} at once can gain, {why}" if named else ""
    return (f"{_waiting(found)}: more threads help.", f"{on_cpu}{bound}.")


def _conditions(found: Evidence, cpu: Cpu) -> str:
    """What has to hold for more threads to help calls that compute; empty if it is known to."""
    if cpu.on_share < MOST:
        return ""
    conditions = []
    if cpu.gil_share is None and found.use.at_once < SEVERAL:
        conditions.append("the calls release the GIL, as operators do")
    used, cores = found.host_cores, found.cpu_count
    if used is not None and cores is not None and used >= FULL_HOST * cores:
        conditions.append(f"they get a core ({used:.1f} of {cores} are in use)")
    return " and ".join(conditions)


def _caller_or_wire(found: Evidence) -> tuple[str, ...]:
    means, use = found.means, found.use
    served_little = means.served_share < SERVED_LITTLE and means.queue_share < QUEUED
    pending = means.pending_us >= MOST * means.latency_us
    if pending or (use.busy_fraction >= IDLE and not served_little):
        return ()
    # Waiting while a thread was free is part of the way.
    way_us = means.transport_us + means.queue_us * (1 - use.waited_full_share)
    way_share = way_us / means.latency_us
    if use.in_flight_fraction < MOST:
        limit = "The caller is the limit"
    elif way_share >= MOST:
        limit = "The wire is the limit"
    else:
        limit = "The caller or the wire is the limit"
    return (
        f"{limit}: {_subject(found)} served for {_percent(use.busy_fraction)} of the time, and a "
        f"call to it was under way for {_percent(use.in_flight_fraction)}.",
        f"Of a call's {_duration(means.latency_us)}, {_duration(way_us)} ({_percent(way_share)}) "
        "were the way to the server and back: pickling, transport, waking a thread.",
    )


def _no_clear_limit(found: Evidence) -> tuple[str, ...]:
    means, use, cpu = found.means, found.use, found.cpu
    on_cpu = f" ({_percent(cpu.on_share)} of that on the CPU)" if cpu else ""
    pending = f", {_duration(means.pending_us)} until its result was complete"
    said = (
        f"No clear limit: {_subject(found)} was busy for {_percent(use.busy_fraction)} of the time "
        f"with {use.at_once:.1f} calls at once on {_count(found.pool, 'thread')}; of a call's "
        f"{_duration(means.latency_us)}, {_duration(means.queue_us)} were the wait to be served, "
        f"{_duration(means.served_us)} the serving{on_cpu}{pending if means.pending_us else ''}."
    )
    if found.threads is None or use.at_once_max >= found.threads:
        return (said,)
    most = f"At no time were more than {use.at_once_max} of its {found.threads} threads at work"
    return (said, f"{most}: more do not help.")


RULES: tuple[tuple[Rule, Callable[[Evidence], tuple[str, ...]]], ...] = (
    ("cores-full", _cores_full),
    ("gil-or-lock", _gil_or_lock),
    ("blocked-threads", _blocked_threads),
    ("queueing", _queueing),
    ("caller-or-wire", _caller_or_wire),
)


def _short_of_threads(found: Evidence) -> bool:
    """Whether calls waited, noticeably and for the most part, because all threads were at work."""
    queue_share = found.means.queue_share
    return (
        queue_share >= QUEUED
        and queue_share * found.use.in_flight_fraction >= MATERIAL
        and found.use.waited_full_share >= WAITED_FULL
    )


def _most_at_once(found: Evidence) -> tuple[float, str]:
    """How many calls at once the GIL and the cores allow, and why; infinity if not known."""
    bounds = [(float("inf"), "")]
    cpu = found.cpu
    if cpu and found.cpu_count and cpu.on_share:
        cores = _count(found.cpu_count, "core")
        bounds.append((found.cpu_count / cpu.on_share, f"as the machine has {cores}"))
    if cpu and cpu.gil_share and cpu.cores * cpu.gil_share / cpu.on_share <= ONE_CORE[1]:
        # More than one core's worth would mean that it is native code, which releases the GIL.
        held = f"as the GIL is held for {_percent(cpu.gil_share)} of it"
        bounds.append((1 / cpu.gil_share, held))
    return min(bounds)


def _waiting(found: Evidence) -> str:
    """How the server served while calls waited; what follows from it, the caller adds."""
    waited = f"while each waited {_duration(found.means.queue_us)} for a thread"
    return f"{_serving(found)} {waited} ({_percent(found.means.queue_share)} of its latency)"


def _serving(found: Evidence) -> str:
    use, threads = found.use, _count(found.pool, "thread")
    busy = f"busy {_percent(use.busy_fraction)} of the time"
    if use.at_once >= SEVERAL:
        return f"{_subject(found)} served {use.at_once:.1f} calls at once on {threads} ({busy})"
    at_once = f"{use.at_once:.1f} at a time on {threads}"
    return f"{_subject(found)} ran its calls one after another ({at_once}, {busy})"


def _subject(found: Evidence) -> str:
    """The server's name; which of several it is."""
    if found.servers == 1:
        return found.server
    return f"{found.server}, the busiest of {found.servers} servers,"


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def _percent(share: float) -> str:
    return f"{100 * share:.0f} %"


def _duration(us: float) -> str:
    """Three digits, in the unit that suits."""
    value, unit = us, "us"
    if us >= 1e3:
        value, unit = (us / 1e6, "s") if us >= 1e6 else (us / 1e3, "ms")
    decimals = 0 if value >= 100 or value < 0.01 else 1 if value >= 10 else 2
    return f"{value:.{decimals}f} {unit}"
