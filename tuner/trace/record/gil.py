"""How long a thread of this process waits for the GIL: a sample every few milliseconds.

A thread that sleeps for a random time wants the GIL when it wakes. How late it gets it, beyond its
wait for a CPU, is how long others held it. No other measure tells Python from native code, which
lets go of the GIL, by no matter which thread.
"""

import os
import threading
from collections.abc import Callable
from random import Random
from threading import get_native_id
from time import monotonic_ns, time_ns

from tuner.trace.record.threads import SCHEDULE_BYTES, Thread, waited_ns

FREE_NS = 500_000
"""A timer is late by up to 300 us, on a machine that sleeps between: a thread no later than this is
taken to have been free to have the GIL. One that Python holds is waited for 5 ms and more."""
SHORTEST_S, LONGEST_S = 0.01, 0.05  # the mean sleep, at first and in the end
SAMPLES = 200  # so many in the time until then, and as many each time that it grows threefold


class GilProbe:
    """Samples of one thread, which calls `sleep` over and over."""

    def __init__(self, keep: Callable[[int, int, int], object]) -> None:
        """`keep` gets when it wanted the GIL, how long it waited, and how long it had slept."""
        self._keep = keep
        # Not that of the module, which a program may have seeded.
        self._random = Random(os.getpid())
        self._thread = Thread(get_native_id())
        self._schedule = self._thread.open_schedule()
        self._began_ns = monotonic_ns()

    def sleep(self, is_over: threading.Event) -> bool:
        """Sleep for a random time, and note how late it ends; returns whether it is over."""
        before, began_ns = os.pread(self._schedule, SCHEDULE_BYTES, 0), monotonic_ns()
        mean_s = (began_ns - self._began_ns) / 1e9 / SAMPLES
        mean_s = min(max(mean_s, SHORTEST_S), LONGEST_S)
        sleep_s = mean_s * self._random.uniform(0.5, 1.5)
        if is_over.wait(sleep_s):
            return True
        late_ns = monotonic_ns() - began_ns - round(sleep_s * 1e9)
        now_ns = time_ns()
        after = os.pread(self._schedule, SCHEDULE_BYTES, 0)
        late_ns -= waited_ns(before, after, at_most_ns=max(late_ns, 0)) or 0
        waited = late_ns if late_ns > FREE_NS else 0
        self._keep(now_ns - waited, waited, round(sleep_s * 1e9))
        return False
