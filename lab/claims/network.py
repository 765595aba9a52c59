"""A search between two hosts of which the truth is known, and what its traces show of it.

Run on the first host of a cluster it searches; `network` starts the cluster and judges.
"""

import json
import sys
import tempfile
from collections.abc import Iterable, Sequence
from pathlib import Path

import numpy as np

from testing import megabytes
from testing.namespaces import FakeCluster, fake_cluster
from tuner.api import tune
from tuner.text import percent
from tuner.trace.analyze.server_parallelism import parallelism
from tuner.trace.files.reader import read_trace

MOST_OFF = 0.03
_MEGABYTES = f"{megabytes.__file__}:Megabytes"
_MARGIN_NS = 10_000_000
"""Shorter than a nap: what begins so long before a trace's first call may be of it."""


def network(number: int) -> str:
    """Calls of 4 MB between two hosts: 4 threads are fewer than 8, and the traces show as much."""
    with tempfile.TemporaryDirectory() as name, fake_cluster() as cluster:
        folder = Path(name)
        (folder / "notes").mkdir()
        before_mb = cluster.hosts[1].received_mb()
        cluster.run(
            sys.executable, "-m", "lab.claims.network", cluster.address, name, str(number),
            folder=folder,
        )  # fmt: skip
        print(f"{cluster.hosts[1].received_mb() - before_mb:.0f} MB came over the network")
        said = (folder / "said").read_text()
        wrong = sorted(set(_wrong(cluster, folder)))
        return f"{said}; {', '.join(wrong) or 'the traces show the parallelism that there was'}"


def _wrong(cluster: FakeCluster, folder: Path) -> Iterable[str]:
    """What the traces show otherwise than it was."""
    worlds = [json.loads(path.read_bytes()) for path in (folder / "notes").iterdir()]
    if any([rank[0] for rank in world] != [h.namespace for h in cluster.hosts] for world in worlds):
        yield "RANKS OF ONE NAMESPACE"
    naps = [(begun, ended) for world in worlds for begun, ended in world[1][3]]
    for path in sorted((folder / "study" / "traces").glob("*.json")):
        trace = read_trace(path)
        calls, error_ns = trace.calls[trace.calls["server_start_ns"].notna()], trace.clock_error_ns
        first_ns = trace.base_time_ns + int(calls["server_start_ns"].min()) - _MARGIN_NS
        last_ns = trace.base_time_ns + int(calls["server_end_ns"].max())
        there = [nap for nap in naps if first_ns <= nap[0] <= last_ns]
        mean, most = _at_once(there)
        (row,) = parallelism(trace).to_dict("records")
        off = float(row["mean_while_busy"]) / mean - 1
        print(
            f"{path.stem}: {row['mean_while_busy']:.3f} at once, really {mean:.3f}, at most "
            f"{row['max']} and {most}, clocks to within {error_ns / 1e3:.0f} us"
        )
        if len(there) != len(calls):
            yield f"{len(calls)} CALLS OF {len(there)}"
        if abs(off) > MOST_OFF or row["max"] != most:
            yield f"PARALLELISM IS MORE THAN {percent(MOST_OFF)} OFF"


def _at_once(naps: Sequence[tuple[int, int]]) -> tuple[float, int]:
    """The mean number of naps at once while there is any, and the largest."""
    edges = sorted([(begun, 1) for begun, _ in naps] + [(ended, -1) for _, ended in naps])
    at_ns, changes = np.array(edges).T
    level = changes.cumsum()
    lasted_ns = np.diff(at_ns, append=at_ns[-1])
    return float(level @ lasted_ns / lasted_ns[level > 0].sum()), int(level.max())


def main(address: str, folder: Path, number: int) -> None:
    """Search, with a baseline of half of the threads that the server needs."""
    result = tune(
        _MEGABYTES, options={"notes": str(folder / "notes")}, launcher="ray", ray_address=address,
        place={"caller": 1, "server": 1}, space={"server": {"num_worker_threads": [2, 4, 8, 16]}},
        baseline={"server": {"num_worker_threads": 4}}, budget="60s", seed=number,
        out=folder / "study",
    )  # fmt: skip
    (folder / "said").write_text(f"{result.verdict}: {result.best}")


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]), int(sys.argv[3]))
