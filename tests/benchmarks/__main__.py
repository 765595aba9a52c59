"""`make bench`: every benchmark, as ratios of two things measured in the same run."""

import sys

from tests.benchmarks import (
    report_page,
    trace_analysis,
    tracing_overhead,
    tuned_torchrl,
    tuned_workloads,
    warm_start,
    world_cost,
)
from tests.benchmarks.report import print_comparisons


def main() -> int:
    """Run all; 1 if a bar is missed."""
    comparisons = [
        *world_cost.run(),
        *warm_start.run(),
        *tracing_overhead.run(),
        *trace_analysis.run(),
        *report_page.run(),
        *tuned_workloads.run(),
        *tuned_torchrl.run(),
    ]
    print_comparisons(comparisons)
    return 0 if all(each.reached for each in comparisons) else 1


if __name__ == "__main__":
    sys.exit(main())
