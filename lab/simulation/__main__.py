"""`make simulate`: how often the real session, and others on the same budget, are right."""

import argparse
import itertools
import math
import multiprocessing
import sys
from collections.abc import Iterable, Sequence
from functools import partial

from lab.simulation.cells import CELLS, LONG_CELLS, Cell, Outcome
from lab.simulation.peers import PEERS, Peer
from lab.simulation.sessions import run_session
from lab.simulation.tally import Tally, heading, mean, tally

OURS: dict[str, Peer] = {
    "tuner": run_session,
    "tuner auto": partial(run_session, until_clear=True),
    "tuner resumed": partial(run_session, parts=(0.5, 1.0)),
    "with forecasts": partial(run_session, forecasts="right"),
    "wrong forecasts": partial(run_session, forecasts="shuffled"),
}
SOONER = "forecasts in 0.6"  # of the budget
OF_LONG: dict[str, Peer] = {
    "tuner": run_session,
    SOONER: partial(run_session, forecasts="right", parts=(0.6,)),
    "wrong forecasts": OURS["wrong forecasts"],
}
METHODS = {**OURS, **PEERS, **OF_LONG}


def one(job: tuple[str, Cell, int]) -> Outcome:
    method, cell, seed = job
    return METHODS[method](cell, seed)


def simulate(
    cells: Sequence[Cell], methods: Sequence[str], sessions: int
) -> Iterable[tuple[Cell, str, Tally]]:
    with multiprocessing.get_context("fork").Pool() as pool:
        for cell in cells:
            # The others have no idea of what to do about a failure.
            others = {} if any(cell.failing) else PEERS
            allowed = OF_LONG if cell.is_long else {**OURS, **others}
            for method in (each for each in methods if each in allowed):
                jobs = [(method, cell, seed) for seed in range(sessions)]
                yield cell, method, tally(cell, pool.map(one, jobs, chunksize=8))


def worse_picks(found: Sequence[tuple[Cell, str, Tally]]) -> list[str]:
    """Which searches of long worlds bet on one of the best less often than those without forecasts:
    with fewer worlds at all, with wrong forecasts by more than chance explains."""
    by = {(cell, method): each for cell, method, each in found if cell.is_long}
    missed = []
    for method in OF_LONG:
        cells = [cell for cell, of in by if of == method and (cell, "tuner") in by]
        if not cells or method == "tuner":
            continue
        pair = [[by[cell, of] for cell in cells] for of in ("tuner", method)]
        without, often = (mean(each.favourite for each in of) for of in pair)
        variance = sum(each.favourite * (1 - each.favourite) / each.sessions
                       for each in itertools.chain(*pair))  # fmt: skip
        by_chance = 0.0 if method == SOONER else 3 * math.sqrt(variance) / len(cells)
        if often < without - by_chance:
            missed.append(f"{method}: {often:.3f} bet on one of the best, {without:.3f} without")
    return missed


def main(arguments: Sequence[str]) -> int:
    """Print a line per cell and method; 1 if the tuner misses a bar."""
    parser = argparse.ArgumentParser(prog="make simulate", description=__doc__)
    parser.add_argument("--sessions", type=int, default=200, help="per cell and method")
    parser.add_argument("--methods", default=",".join(METHODS))
    parser.add_argument("--cells", default="", help="only those whose name has this part")
    given = parser.parse_args(arguments)
    methods = given.methods.split(",")
    if unknown := {*methods} - {*METHODS}:
        parser.error(f"unknown: {', '.join(sorted(unknown))}; there are {', '.join(METHODS)}")
    cells = [cell for cell in (*CELLS, *LONG_CELLS) if given.cells in str(cell)]
    missed = list[str]()
    print(f"\n{heading()}")
    done = list[tuple[Cell, str, Tally]]()
    for cell, method, found in simulate(cells, methods, given.sessions):
        if not done or cell != done[-1][0]:
            of = ", long worlds" if cell.is_long else ""
            print(f"\n{cell.landscape}, sigma {cell.sigma}, {cell.budget_s:.0f} s{of}")
        done.append((cell, method, found))
        print(found.line(method), flush=True)
        if method not in PEERS:
            missed += [f"{cell}, {method}: {bar}" for bar in found.missed()]
    missed += worse_picks(done)
    for bar in missed:
        print(f"missed: {bar}")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
