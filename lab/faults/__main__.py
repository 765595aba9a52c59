"""`make faults`: causes every fault, and prints what came of it."""

import argparse
import sys
import time

from rich.console import Console
from rich.table import Table

from lab.faults.kit.rows import topics


def main(arguments: list[str]) -> int:
    """Run the topics that are named, all if none is; 1 if a fault was not survived."""
    known = topics()
    parser = argparse.ArgumentParser(prog="python -m lab.faults")
    parser.add_argument("topics", nargs="*", help=f"of {', '.join(known)}; default: all")
    parser.add_argument("--only", default="", help="part of what the fault is called")
    given = parser.parse_args(arguments)
    if unknown := [name for name in given.topics if name not in known]:
        parser.error(f"unknown: {', '.join(unknown)}; there are {', '.join(known)}")
    rows = [row for name in given.topics or known for row in known[name] if given.only in row.fault]
    table, good = Table("fault", "expected", "outcome", "lost", "left"), 0
    for row in rows:
        started_s = time.monotonic()
        outcome = row.outcome()
        how = "survived" if outcome.is_good else "FAILED"
        counts = f"(lost {outcome.lost}, left {outcome.left})"
        took_s = time.monotonic() - started_s
        print(f"{how} in {took_s:.0f} s: {row.fault}: {outcome.told} {counts}", flush=True)
        good += outcome.is_good
        told = outcome.told if outcome.survived else f"FAILED: {outcome.told}"
        table.add_row(row.fault, row.expected, told, str(outcome.lost), str(outcome.left))
    table.caption = f"{good} of {len(rows)} survived, with nothing lost and nothing left."
    Console(width=150).print(table)
    return 0 if good == len(rows) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
