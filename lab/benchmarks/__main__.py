"""`make bench`: every benchmark, as ratios of two things measured in the same run."""

import sys
import time
from collections.abc import Callable

from lab.benchmarks import (
    allocators,
    cpu_binding,
    default_space,
    groups,
    isolation,
    ray_world_cost,
    recording_overhead,
    report_page,
    sizes,
    switch_interval,
    trace_analysis,
    tracing_overhead,
    tuned_torchrl,
    tuned_workloads,
    warm_start,
    world_cost,
)
from lab.benchmarks.report import Comparison, print_comparisons
from tuner.text import duration

PARTS: dict[str, Callable[[], list[Comparison]]] = {
    "world_cost": world_cost.run,
    "isolation": isolation.run,
    "ray_world_cost": ray_world_cost.run,
    "warm_start": warm_start.run,
    "tracing_overhead": tracing_overhead.run,
    "recording_overhead": recording_overhead.run,
    "trace_analysis": trace_analysis.run,
    "report_page": report_page.run,
    "cpu_binding": cpu_binding.run,
    "switch_interval": switch_interval.run,
    "allocators": allocators.run,
    "default_space": default_space.run,
    "groups": groups.run,
    "sizes": sizes.run,
    "tuned_workloads": tuned_workloads.run,
    "tuned_torchrl": tuned_torchrl.run,
}


BY_NAME = ("allocators", "default_space", "groups", "sizes", "tuned_workloads", "tuned_torchrl")
"""They take minutes, and run where they are named."""


def main(names: list[str]) -> int:
    """Run the parts with these names, or all but those that take minutes; 1 if a bar is missed.

    What a part has found is printed as soon as it is known.
    """
    if unknown := [name for name in names if name not in PARTS]:
        print(f"unknown: {', '.join(unknown)}; the parts are {', '.join(PARTS)}", file=sys.stderr)
        return 2
    chosen = names or [name for name in PARTS if name not in BY_NAME]
    comparisons = []
    for number, name in enumerate(chosen, 1):
        print(f"{number} of {len(chosen)}: {name}", flush=True)
        began_s = time.monotonic()
        found = PARTS[name]()
        comparisons += found
        print_comparisons(found)
        print(f"{name} took {duration(time.monotonic() - began_s)}", flush=True)
    missed = [each.name for each in comparisons if not each.reached]
    print(f"Missed: {', '.join(missed)}" if missed else "Every bar is reached.")
    if not names:
        print(f"By name only: PARTS={' PARTS='.join(BY_NAME)}")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
