"""What limits a world's calls: one or two sentences that follow from numbers.

The rules are tried in the order of `RULES`, and the first that fits gives the answer. Causes come
before their effects: with full CPUs everything takes longer, also the waits for locks and threads;
and threads that wait for each other, or sleep, make calls queue. So a queue is put down to the
number of threads only where no cause before it explains it. The caller or the wire is the limit if
the server is not. Every rule needs clear numbers; if none fits, there is "no clear limit".
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from tuner.text import plural, whole_percent
from tuner.trace.analyze.evidence import Evidence, gather
from tuner.trace.analyze.rules.blocked_threads import blocked_threads
from tuner.trace.analyze.rules.caller_or_wire import caller_or_wire
from tuner.trace.analyze.rules.cpus_full import cpus_full
from tuner.trace.analyze.rules.gil_or_lock import gil_or_lock
from tuner.trace.analyze.rules.queueing import queueing
from tuner.trace.analyze.rules.wording import number, short_time, subject
from tuner.trace.model.trace import Trace

Rule = Literal[
    "cpus-full", "gil-or-lock", "blocked-threads", "queueing", "caller-or-wire", "no-clear-limit"
]
RULES: tuple[tuple[Rule, Callable[[Evidence], tuple[str, ...]]], ...] = (
    ("cpus-full", cpus_full),
    ("gil-or-lock", gil_or_lock),
    ("blocked-threads", blocked_threads),
    ("queueing", queueing),
    ("caller-or-wire", caller_or_wire),
)

ENOUGH_CALLS = 10
"""Fewer served calls are too few to judge by."""
KNOWN_SHARE = 0.8
"""The share of the calls to the server that must be known from start to end to speak for all."""


@dataclass(frozen=True, kw_only=True)
class Diagnosis:
    """What limits the calls of a trace."""

    rule: Rule
    sentences: tuple[str, ...]
    numbers: Evidence | None
    """What the sentences follow from; None if the trace does not show how a call was served."""

    @property
    def text(self) -> str:
        """The sentences as one paragraph."""
        return " ".join(self.sentences)


def diagnose(trace: Trace) -> Diagnosis:
    """Says what limits the busiest server, which is the one with the most served time.

    Args:
        trace: Any trace; one without servers' spans has "no clear limit".

    Returns:
        The rule that fits, one or two sentences, and the numbers that they follow from.
    """
    found = gather(trace)
    if found is None:
        why = "does not show how any call was served" if len(trace.calls) else "holds no calls"
        said = f"No clear limit: the trace {why}."
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
        return f"No clear limit: the trace holds only {plural(found.means.calls, 'answered call')}."
    if found.served_calls < KNOWN_SHARE * found.calls:
        known = f"only {found.served_calls:,} of the {found.calls:,} calls to {subject(found)}"
        return f"No clear limit: the trace shows how {known} were served."
    return ""


def _no_clear_limit(found: Evidence) -> tuple[str, ...]:
    means, use, cpu = found.means, found.use, found.cpu
    on_cpu = f" ({whole_percent(cpu.on_share)} of that on the CPU)" if cpu else ""
    pending = f"; its result was complete {short_time(means.pending_us)} later"
    said = (
        f"No clear limit: {subject(found)} was busy for {whole_percent(use.busy_fraction)} of the "
        f"time, with a parallelism of {number(use.parallelism)} on {plural(found.pool, 'thread')}; "
        f"of its {short_time(means.latency_us)}, a call waited {short_time(means.queue_us)} for a "
        f"thread and was served for {short_time(means.served_us)}{on_cpu}"
        f"{pending if means.pending_us else ''}."
    )
    if found.threads is None or use.parallelism_max >= found.threads:
        return (said,)
    most = f"At most {use.parallelism_max} of its {found.threads} threads were at work at a time"
    return (said, f"{most}: more do not help.")
