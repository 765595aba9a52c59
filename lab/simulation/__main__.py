"""`make simulate`: how often the real session, and others on the same budget, are right."""

import argparse
import multiprocessing
import sys
from collections.abc import Iterable, Sequence
from functools import partial

from lab.simulation.cells import CELLS, Cell, Outcome
from lab.simulation.live import CELLS as LIVE_CELLS
from lab.simulation.live import simulate_live
from lab.simulation.peers import PEERS, Peer
from lab.simulation.sessions import run_session
from lab.simulation.tally import Tally, heading, tally

OURS: dict[str, Peer] = {
    "tuner": run_session,
    "tuner auto": partial(run_session, until_clear=True),
    "tuner resumed": partial(run_session, parts=(0.5, 1.0)),
    "with forecasts": partial(run_session, forecasts="right"),
    "wrong forecasts": partial(run_session, forecasts="shuffled"),
}
METHODS = {**OURS, **PEERS}
LIVE_PER_SESSION = 10  # comparisons within runs, which take no time


def one(job: tuple[str, Cell, int]) -> Outcome:
    method, cell, seed = job
    return METHODS[method](cell, seed)


def simulate(
    cells: Sequence[Cell], methods: Sequence[str], sessions: int, processes: int
) -> Iterable[tuple[Cell, str, Tally]]:
    with multiprocessing.get_context("fork").Pool(processes) as pool:
        for cell in cells:
            # The others have no idea of what to do about a failure.
            for method in (m for m in methods if m in OURS or not any(cell.failing)):
                jobs = [(method, cell, seed) for seed in range(sessions)]
                yield cell, method, tally(cell, pool.map(one, jobs, chunksize=8))


def main(arguments: Sequence[str]) -> int:
    """Print a line per cell and method; 1 if the tuner misses a bar."""
    parser = argparse.ArgumentParser(prog="make simulate", description=__doc__)
    parser.add_argument("--sessions", type=int, default=200, help="per cell and method")
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--methods", default=",".join(METHODS))
    parser.add_argument("--cells", default="", help="only those whose name has this part")
    given = parser.parse_args(arguments)
    cells = [cell for cell in CELLS if given.cells in str(cell)]
    live = [cell for cell in LIVE_CELLS if given.cells in str(cell)]
    missed = simulate_live(live, LIVE_PER_SESSION * given.sessions) if live else []
    print(f"\n{heading()}")
    before: Cell | None = None
    for cell, method, found in simulate(
        cells, given.methods.split(","), given.sessions, given.processes
    ):
        if cell != before:
            print(f"\n{cell.landscape}, sigma {cell.sigma}, {cell.budget_s:.0f} s")
        before = cell
        print(found.line(method), flush=True)
        if method in OURS:
            missed += [f"{cell}, {method}: {bar}" for bar in found.missed()]
    for bar in missed:
        print(f"missed: {bar}")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
