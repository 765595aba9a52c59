"""`make faults`: causes every fault, and prints what came of it; `--write` keeps it in the docs."""

import argparse
import sys
import time
from datetime import UTC, datetime

from lab.faults.kit.page import PAGE, print_outcome, print_table, with_outcomes
from lab.faults.kit.rows import Outcome, Row, topics


def main(arguments: list[str]) -> int:
    """Run the topics that are named, all if none is; 1 if a fault was not survived."""
    known = topics()
    parser = argparse.ArgumentParser(prog="python -m lab.faults")
    parser.add_argument("topics", nargs="*", help=f"of {', '.join(known)}; default: all")
    parser.add_argument("--only", default="", help="part of what the fault is called")
    parser.add_argument("--quick", action="store_true", help="those that CI causes")
    parser.add_argument("--dry-run", action="store_true", help="run none; with --write, list all")
    parser.add_argument("--write", action="store_true", help=f"into {PAGE.name}")
    given = parser.parse_args(arguments)
    if unknown := [name for name in given.topics if name not in known]:
        parser.error(f"unknown: {', '.join(unknown)}; there are {', '.join(known)}")
    outcomes: dict[str, tuple[Row, Outcome]] = {}

    def write() -> None:
        if given.write:
            today = datetime.now(UTC).date()
            PAGE.write_text(with_outcomes(PAGE.read_text(), known, outcomes, today))

    write()
    for row in (row for name in given.topics or known for row in known[name]):
        if given.dry_run or given.only not in row.fault or (given.quick and not row.is_quick):
            continue
        started_s = time.monotonic()
        outcome = row.outcome()
        print_outcome(row, outcome, time.monotonic() - started_s)
        outcomes[row.fault] = (row, outcome)
        # At once: a later row may take an hour.
        write()
    print_table(outcomes)
    return 0 if all(outcome.is_good for _, outcome in outcomes.values()) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
