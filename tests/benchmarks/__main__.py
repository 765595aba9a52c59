"""`make bench`: every benchmark, as ratios of two things measured in the same run."""

import sys
from collections.abc import Callable

from tests.benchmarks import (
    recording_overhead,
    report_page,
    trace_analysis,
    tracing_overhead,
    tuned_torchrl,
    tuned_workloads,
    warm_start,
    world_cost,
)
from tests.benchmarks.report import Comparison, print_comparisons

PARTS: dict[str, Callable[[], list[Comparison]]] = {
    "world_cost": world_cost.run,
    "warm_start": warm_start.run,
    "tracing_overhead": tracing_overhead.run,
    "recording_overhead": recording_overhead.run,
    "trace_analysis": trace_analysis.run,
    "report_page": report_page.run,
    "tuned_workloads": tuned_workloads.run,
    "tuned_torchrl": tuned_torchrl.run,
}


def main(names: list[str]) -> int:
    """Run the parts with these names, all if there are none; 1 if a bar is missed."""
    if unknown := [name for name in names if name not in PARTS]:
        print(f"unknown: {', '.join(unknown)}; the parts are {', '.join(PARTS)}", file=sys.stderr)
        return 2
    comparisons = [each for name in names or PARTS for each in PARTS[name]()]
    print_comparisons(comparisons)
    return 0 if all(each.reached for each in comparisons) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
