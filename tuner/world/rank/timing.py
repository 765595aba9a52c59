"""Runs in rank 0: warm up, then time the steps, with nothing else going on."""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

# Allocators, caches and the scheduler's placement of threads take about so long to settle.
WARM_UP_S = 0.05
WARM_UP_STEPS = 20


@dataclass(frozen=True)
class Timing:
    """The timed part of a world."""

    step_s: list[float]
    wall_s: float
    cpu_s: list[float]
    """CPU seconds over the timed part, one per clock given."""


def process_cpu_clock(pid: int) -> int:
    """The kernel's id for the CPU-time clock of another process on this host.

    As `clock_getcpuclockid(3)` makes it, which Python does not offer.
    """
    return (~pid << 3) | 2


class StepTimer:
    """Runs a workload's step again and again; `on_step` hears how many are done, all counted."""

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
        """Steps that are no samples: WARM_UP_S, and more for WARM_UP_STEPS if the timed part is."""
        # The first step pays the connection set-up.
        seconds = self._run_one()
        while seconds < WARM_UP_S or (self._done < WARM_UP_STEPS and seconds < self._min_time_s):
            seconds += self._run_one()

    def time(self, steps: int | None) -> Timing:
        """Time `steps` steps, or, where that is None, as many as last `timed_part_s`."""
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
