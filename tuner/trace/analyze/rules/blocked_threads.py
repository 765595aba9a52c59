"""The server's threads are at work, but do little but wait: they sleep, or call others."""

from tuner.text import whole_percent
from tuner.trace.analyze.evidence import Evidence
from tuner.trace.analyze.rules.thresholds import IDLE, MOST, QUEUED, SEVERAL, short_of_threads
from tuner.trace.analyze.rules.wording import serving, waiting

BLOCKED = 0.8
"""A thread that is off the CPU for this share of its time does little but wait."""
FULL = 0.5
"""All threads were at work for most of the busy time."""


def blocked_threads(found: Evidence) -> tuple[str, ...]:
    """What the rule says; empty if it does not fit."""
    cpu, use = found.cpu, found.use
    if cpu is None or cpu.off_share < BLOCKED:
        return ()
    nested = found.nested_share >= MOST * cpu.off_share
    unknown = "asleep, or waiting for I/O or a call that is not recorded"
    why = "waiting for calls of their own" if nested else unknown
    blocked = f"They were off the CPU for {whole_percent(cpu.off_share)} of their time, {why}."
    if short_of_threads(found):
        if not nested and use.parallelism >= SEVERAL and cpu.off_first_ratio is None:
            # No call began alone, which would show whether calls wait for each other.
            blocked = f"{blocked[:-1]}; if they wait for a lock, more threads do not help."
        return (f"{waiting(found)}: more threads help.", blocked)
    limits = use.full_share >= FULL and use.busy_fraction >= IDLE
    if not limits or found.means.queue_share >= QUEUED:
        return ()
    hardly = f"{serving(found)}, and they hardly waited for a thread"
    return (f"{hardly}: the calls themselves are the limit.", blocked)
