"""Runs in rank 0: warm up, then time the steps, with nothing else going on."""

import time
from collections.abc import Callable, Iterable
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


def time_steps(
    step: Callable[[], None],
    *,
    steps: int | None,
    timed_part_s: float,
    cpu_clocks: Iterable[int],
    on_step: Callable[[int], None],
) -> Timing:
    """Time `steps` steps, or, where `steps` is None, as many as last `timed_part_s`.

    `on_step` hears how many steps are done, warm-up included.
    """
    done = 0

    def run_one() -> float:
        nonlocal done
        start_ns = time.perf_counter_ns()
        step()
        seconds = (time.perf_counter_ns() - start_ns) / 1e9
        done += 1
        on_step(done)
        return seconds

    # The first step pays the connection set-up: warm-up, not a sample.
    warm_up_s = run_one()
    while warm_up_s < WARM_UP_S or (done < WARM_UP_STEPS and warm_up_s < timed_part_s):
        warm_up_s += run_one()

    clocks = tuple(cpu_clocks)
    cpu_before = [time.clock_gettime(clock) for clock in clocks]
    start_ns = time.perf_counter_ns()
    step_s = [run_one()]
    if steps is None:
        while time.perf_counter_ns() - start_ns < timed_part_s * 1e9:
            step_s.append(run_one())
    else:
        step_s += [run_one() for _ in range(steps - 1)]
    wall_s = (time.perf_counter_ns() - start_ns) / 1e9
    cpu_after = [time.clock_gettime(clock) for clock in clocks]
    cpu_s = [after - before for before, after in zip(cpu_before, cpu_after, strict=True)]
    return Timing(step_s, wall_s, cpu_s)
