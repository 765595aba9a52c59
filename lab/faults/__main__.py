"""`make faults`: causes every fault, and prints what came of it."""

import argparse
import sys
import time
from collections.abc import Mapping

from rich.console import Console
from rich.table import Table

from lab.faults.kit.rows import Outcome, Row, topics


def main(arguments: list[str]) -> int:
    """Run the topics that are named, all if none is; 1 if a fault was not survived."""
    known = topics()
    parser = argparse.ArgumentParser(prog="python -m lab.faults")
    parser.add_argument("topics", nargs="*", help=f"of {', '.join(known)}; default: all")
    parser.add_argument("--only", default="", help="part of what the fault is called")
    parser.add_argument("--quick", action="store_true", help="those that make test-all causes")
    given = parser.parse_args(arguments)
    if unknown := [name for name in given.topics if name not in known]:
        parser.error(f"unknown: {', '.join(unknown)}; there are {', '.join(known)}")
    outcomes: dict[str, tuple[Row, Outcome]] = {}
    for row in (row for name in given.topics or known for row in known[name]):
        if given.only not in row.fault or (given.quick and not row.is_quick):
            continue
        started_s = time.monotonic()
        outcome = row.outcome()
        _print_outcome(row, outcome, time.monotonic() - started_s)
        outcomes[row.fault] = (row, outcome)
    _print_table(outcomes)
    return 0 if all(outcome.is_good for _, outcome in outcomes.values()) else 1


def _print_outcome(row: Row, outcome: Outcome, seconds: float) -> None:
    """One row as it comes; they take minutes."""
    sign = "survived" if outcome.is_good else "FAILED"
    Console(width=150).print(
        f"{sign} in {seconds:.0f} s: {row.fault}: {outcome.told} "
        f"(lost {outcome.lost}, left {outcome.left})",
        markup=False,
        highlight=False,
    )


def _print_table(outcomes: Mapping[str, tuple[Row, Outcome]]) -> None:
    """All that were run."""
    table = Table("fault", "expected", "outcome", "lost", "left")
    for row, outcome in outcomes.values():
        told = outcome.told if outcome.survived else f"FAILED: {outcome.told}"
        table.add_row(row.fault, row.expected, told, str(outcome.lost), str(outcome.left))
    good = sum(outcome.is_good for _, outcome in outcomes.values())
    table.caption = f"{good} of {len(outcomes)} survived, with nothing lost and nothing left."
    Console(width=150).print(table)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
