"""Runs in rank 0: warms up, then times the steps."""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

# Allocators, caches and the scheduler's placement of threads need about this long to settle.
WARM_UP_S = 0.05
WARM_UP_STEPS = 20


@dataclass(frozen=True)
class Timing:
    """The timed steps of a world."""

    step_s: list[float]
    wall_s: float
    """Seconds that they took together."""
    cpu_s: list[float]
    """CPU seconds meanwhile, one for each clock given."""


def process_cpu_clock(pid: int) -> int:
    """The kernel's id for the CPU-time clock of another process on this host.

    Python lacks `clock_getcpuclockid(3)`, which makes it in this way.
    """
    return (~pid << 3) | 2


class StepTimer:
    """Runs a workload's step again and again; `on_step` gets the number of steps done so far."""

    def __init__(
        self,
        step: Callable[[], None],
        *,
        min_time_s: float,
        cpu_clocks: Sequence[int],
        on_step: Callable[[int], None],
    ) -> None:
        self._step = step
        self._min_time_s = min_time_s
        self._clocks = tuple(cpu_clocks)
        self._on_step = on_step
        self._done = 0

    def warm_up(self) -> None:
        """Run steps that are no samples.

        For WARM_UP_S at least; then until WARM_UP_STEPS are done, but for no longer than the
        timed steps last at least.
        """
        # The first step pays the connection set-up.
        seconds = self._run_one()
        while seconds < WARM_UP_S or (self._done < WARM_UP_STEPS and seconds < self._min_time_s):
            seconds += self._run_one()

    def time(self, steps: int | None) -> Timing:
        """Time `steps` steps or, if that is None, as many as last `min_time_s`."""
        cpu_before = [time.clock_gettime(clock) for clock in self._clocks]
        start_ns = time.perf_counter_ns()
        step_s = [self._run_one()]
        if steps is None:
            while time.perf_counter_ns() - start_ns < self._min_time_s * 1e9:
                step_s.append(self._run_one())
        else:
            step_s += [self._run_one() for _ in range(steps - 1)]
        wall_s = (time.perf_counter_ns() - start_ns) / 1e9
        cpu_after = [time.clock_gettime(clock) for clock in self._clocks]
        cpu_s = [after - before for before, after in zip(cpu_before, cpu_after, strict=True)]
        return Timing(step_s, wall_s, cpu_s)

    def _run_one(self) -> float:
        start_ns = time.perf_counter_ns()
        self._step()
        seconds = (time.perf_counter_ns() - start_ns) / 1e9
        self._done += 1
        self._on_step(self._done)
        return seconds
