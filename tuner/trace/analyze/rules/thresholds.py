"""Thresholds, and a question, that several rules share."""

from tuner.trace.analyze.evidence import Evidence

BUSY = 0.3
"""A server that works for less of the window than this is not what limits the program."""
IDLE = 0.5
"""A server that works for less of the window than this is not what fills the time."""
MOST = 0.5
"""What takes more than this share is the one to name."""

QUEUED = 0.15
"""Calls that wait for a thread for less of their latency than this: the estimate's own jitter."""
MATERIAL = 0.05
"""A queue that takes less of the window than this is not worth a thread."""
WAITED_FULL = 0.5
"""Calls that mostly waited while a thread was free were not waiting for a thread."""

SEVERAL = 1.5
"""The parallelism from which several calls run at once; at 1.0 they run one after another."""
ONE_CPU = (0.75, 1.25)
"""Calls that hold one lock in turn use one CPU together: less because handing the lock over takes
time, more because of what they do without it."""
FULL_HOST = 0.9
"""The share of the machine's logical CPUs from which they are full: the kernel takes the rest."""


def short_of_threads(found: Evidence) -> bool:
    """Whether calls waited noticeably, and mostly because all threads were at work."""
    queue_share = found.means.queue_share
    return (
        queue_share >= QUEUED
        and queue_share * found.use.in_flight_fraction >= MATERIAL
        and found.use.waited_full_share >= WAITED_FULL
    )
