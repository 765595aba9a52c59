"""`make bench`: every benchmark, as ratios of two things measured in the same run."""

import sys
import time

from lab.benchmarks import (
    changes,
    forecast,
    groups,
    intervals,
    large_studies,
    program_runs,
    trace_analysis,
    tuned,
    world_cost,
)
from lab.benchmarks.report import print_comparisons
from tuner.text import duration

PARTS = {
    "world_cost": world_cost.run,
    "isolation": world_cost.isolation,
    "ray_world_cost": world_cost.on_ray,
    "warm_start": program_runs.warm_start,
    "tracing_overhead": world_cost.tracing_overhead,
    "recording_overhead": program_runs.recording_overhead,
    "trace_analysis": trace_analysis.run,
    "report_page": large_studies.report_page,
    "cpu_binding": tuned.cpu_binding,
    "switch_interval": tuned.switch_interval,
}
BY_NAME = {
    "changes": changes.run,
    "default_space": tuned.default_space,
    "forecast": forecast.run,
    "groups": groups.run,
    "intervals": intervals.run,
    "sizes": large_studies.sizes,
    "tuned_workloads": tuned.workloads,
    "tuned_torchrl": tuned.torchrl,
}
"""They take minutes, and run where they are named."""


def main(names: list[str]) -> int:
    """Run the parts with these names, or all but those that take minutes; 1 if a bar is missed.

    What a part has found is printed as soon as it is known.
    """
    parts = {**PARTS, **BY_NAME}
    if unknown := [name for name in names if name not in parts]:
        print(f"unknown: {', '.join(unknown)}; the parts are {', '.join(parts)}", file=sys.stderr)
        return 2
    chosen = names or list(PARTS)
    missed = []
    for number, name in enumerate(chosen, 1):
        print(f"{number} of {len(chosen)}: {name}", flush=True)
        began_s = time.monotonic()
        found = parts[name]()
        missed += [each.name for each in found if not each.reached]
        print_comparisons(found)
        print(f"{name} took {duration(time.monotonic() - began_s)}", flush=True)
    print(f"Missed: {', '.join(missed)}" if missed else "Every bar is reached.")
    if not names:
        print(f"By name only: PARTS={' PARTS='.join(BY_NAME)}")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
