"""The offset of another process's clock from ours, measured with small calls."""

import os
import platform
from pathlib import Path
from typing import NamedTuple

HOST_VARIABLE = "RPC_TUNER_HOST"
"""The environment variable that names the host of a process, where a launcher knows several."""
_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")


class ClockSample(NamedTuple):
    """One call, in Unix nanoseconds: sent and answered by our clock, begun and ended by theirs."""

    sent_ns: int
    begun_ns: int
    ended_ns: int
    answered_ns: int


class ClockOffset(NamedTuple):
    """Their clock minus ours, known to within plus or minus `error_ns`."""

    offset_ns: int
    error_ns: int


SAME_CLOCK = ClockOffset(0, 0)


def offset_bounds(samples: list[ClockSample]) -> tuple[int, int]:
    """The smallest and the largest offset that all samples allow.

    A request arrives after it was sent, so the offset is at most `begun - sent`; an answer too, so
    it is at least `ended - answered`.
    """
    return (
        max(sample.ended_ns - sample.answered_ns for sample in samples),
        min(sample.begun_ns - sample.sent_ns for sample in samples),
    )


def clock_offset(before: list[ClockSample], after: list[ClockSample]) -> ClockOffset:
    """The offset during a trace, from samples taken before and after it, and its error.

    The error covers every offset that either set allows: clocks drift.
    """
    limits = [limit for samples in (before, after) for limit in offset_bounds(samples)]
    low, high = min(limits), max(limits)
    return ClockOffset((low + high) // 2, (high - low + 1) // 2)


def boot_id() -> str:
    """Equal for all processes that share one clock: those under one kernel, and on one host."""
    host = os.environ.get(HOST_VARIABLE, "")
    try:
        return _BOOT_ID.read_text().strip() + host
    except OSError:
        return platform.node() + host
