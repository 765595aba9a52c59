"""Runs in rank 0: warms up, then times the steps."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

# By its name: a workload may patch the clock for itself.
from time import perf_counter_ns

from tuner.world.rank.reservoir import Reservoir

# Allocators, caches and the scheduler's placement of threads need about this long to settle.
WARM_UP_S = 0.05
WARM_UP_STEPS = 20
# A p99 needs no more; steps of nanoseconds would fill the memory.
MOST_SAMPLES = 2000


@dataclass(frozen=True)
class Timing:
    """The timed steps of a world."""

    step_s: list[float]
    """Seconds of each, or of MOST_SAMPLES that were drawn at random, in order."""
    steps: int
    """How many there were."""
    wall_s: float
    """Seconds that they took together."""
    cpu_s: list[float]
    """CPU seconds meanwhile, one for each process."""


class StepTimer:
    """Runs a workload's step again and again.

    Args:
        step: What is timed.
        min_time_s: How long the timed steps last at least, where their number is not given.
        cpu_clocks: Reads the CPU seconds of each process of the world.
        on_step: Gets the number of steps done so far.
    """

    def __init__(
        self,
        step: Callable[[], None],
        *,
        min_time_s: float,
        cpu_clocks: Callable[[], Sequence[float]],
        on_step: Callable[[int], None],
    ) -> None:
        self._step = step
        self._min_time_s = min_time_s
        self._cpu_clocks = cpu_clocks
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
        cpu_before = self._cpu_clocks()
        sample = Reservoir(MOST_SAMPLES)
        start_ns = perf_counter_ns()
        sample.add(self._run_one())
        if steps is None:
            end_ns = start_ns + self._min_time_s * 1e9
            while perf_counter_ns() < end_ns:
                sample.add(self._run_one())
        else:
            for _ in range(steps - 1):
                sample.add(self._run_one())
        wall_s = (perf_counter_ns() - start_ns) / 1e9
        cpu_after = self._cpu_clocks()
        cpu_s = [after - before for before, after in zip(cpu_before, cpu_after, strict=True)]
        return Timing(sample.values(), sample.count, wall_s, cpu_s)

    def _run_one(self) -> float:
        start_ns = perf_counter_ns()
        self._step()
        seconds = (perf_counter_ns() - start_ns) / 1e9
        self._done += 1
        self._on_step(self._done)
        return seconds
