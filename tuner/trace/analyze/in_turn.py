"""Whether calls that are off the CPU take turns, as with a lock, or sleep beside each other.

With a lock they end one after another, each at least as long after the last one as the lock is
held, in whatever order they get it: who has let go of it is often the first to have it again. Calls
that sleep end together where they began together, or at random. A busy machine makes all of that
longer, and changes neither.
"""

import numpy as np

from tuner.trace.analyze.time_spans import Steps
from tuner.trace.model.trace import FloatArray, IntArray

FEW = 10  # ends, which may be chance
FEW_EARLY = 4  # the same of calls that began while few others ran
MOST_AT_ONCE = 3  # of a semaphore that is known by the ends of its calls
SOON = 0.1  # the share of ends that may come in less than half of the usual time after the last
OF_SHORTEST = 0.8  # of the time off the CPU of the shortest calls: the time between two turns
ALIKE = 0.25  # calls vary less than this, relative to the mean, if they sleep for one time
HINDERED, UNHINDERED = 0.67, 0.8
"""Of the others' time off the CPU, calls that began while few ran have less if they took turns in
the order of their begins, and as much if they sleep."""
LONGER = 1.3


def takes_turns(at_work: Steps, start: IntArray, end: IntArray, off_ns: FloatArray) -> bool | None:
    """Whether these calls of a server take turns while off the CPU; None if that is not known."""
    order = np.argsort(end, kind="stable")
    start, end, off_ns = start[order], end[order], np.nan_to_num(off_ns[order])
    early = _early(at_work.level_at(start), off_ns)
    are_alike = float(np.std(off_ns)) < ALIKE * float(np.mean(off_ns))
    if _ends_apart(at_work, end, off_ns):
        if not are_alike:
            return True
        return None if early is None or HINDERED < early < UNHINDERED else early <= HINDERED
    if are_alike or (early is not None and UNHINDERED <= early <= LONGER):
        return False
    return None


def gaps_ns(at_work: Steps, end: IntArray, at_once: int = 1) -> FloatArray:
    """From the end of each call to that of the next, or of the second or third next, where others
    were being served all the time; `end` is sorted."""
    others = at_work.level_at(end[:-at_once]) >= at_once
    return (end[at_once:] - end[:-at_once])[others].astype(np.float64)


def _ends_apart(at_work: Steps, end: IntArray, off_ns: FloatArray) -> bool:
    """Whether no more than a few calls end at once, though many more are being served."""
    most = int(at_work.level.max(initial=0))
    for at_once in range(1, MOST_AT_ONCE + 1):
        gaps = gaps_ns(at_work, end, at_once) if len(end) > at_once else np.zeros(0)
        if most < 2 * at_once or len(gaps) < FEW:
            return False
        if np.mean(gaps < np.mean(gaps) / 2) > SOON / at_once:
            continue
        # Of calls that sleep, the second or third next may come as regularly by chance, but much
        # sooner than after the time for which any of them lasts.
        if at_once == 1 or np.mean(gaps) >= OF_SHORTEST * np.quantile(off_ns, 0.05):
            return True
    return False


def _early(level: IntArray, off_ns: FloatArray) -> float | None:
    """The time off the CPU of calls that began while at most half as many ran as at most, over that
    of the others."""
    is_early = level <= level.max(initial=0) / 2
    early, late = off_ns[is_early], off_ns[~is_early]
    if len(early) < FEW_EARLY or len(late) < FEW_EARLY or not np.median(late) > 0:
        return None
    return float(np.mean(early) / np.median(late))
