"""Pools of intra-op threads that compete for the logical CPUs of a host.

Each rank runs its operators on as many threads as it may use CPUs, unless it is told otherwise. Of
several ranks these wait for each other: a thread that has no CPU keeps its operator from ending,
and those that are done spin meanwhile, on CPUs that others want.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from tuner.text import listed, plural, whole_percent
from tuner.trace.analyze.server_parallelism import window_length_ns
from tuner.trace.model.spans import TraceRank
from tuner.trace.model.trace import Trace

WANTED, WAITED = 0.5, 0.5
"""Pools compete if they want so much of the logical CPUs, and wait for so much of that time. On two
CPUs, those of ranks that compute all the time wanted 0.6 to 1.8 and waited for 0.6 to 0.9; those of
ranks that compute in turn, seldom, or mostly in Python wanted 0.4 at most."""
OF_ONE_RANK = 0.02  # of the time: a rank whose pool wants a CPU for less does not take part
OF_RANKS = (0.4, 1.1)
"""The share of the logical CPUs that the ranks themselves use. If it is less, pools wait for other
programs; if it is more, not all ranks may use the same CPUs."""


@dataclass(frozen=True, kw_only=True)
class Pools:
    """Ranks of a host whose pools have more threads than the host has logical CPUs."""

    host: str
    names: tuple[str, ...]  # of the ranks
    threads: tuple[int, ...]  # that a rank has: each number once, in order
    cpus: int
    on_cpu: float  # threads that operators have started: so many on average
    waiting: float  # those of them that were ready and waited for a CPU

    @property
    def values(self) -> str:
        """The numbers of threads to be searched: one, an equal share, and the ranks' own."""
        share = max(1, self.cpus // len(self.names))
        return ",".join(map(str, sorted({1, share, *self.threads})))

    @property
    def sentence(self) -> str:
        """Who competes for what, and what that costs."""
        own = f"{listed(map(str, self.threads), 'or')} intra-op threads"
        who = f"{len(self.names)} ranks with {own} each"
        if len(self.names) == 1:
            who = f"The {own} of {self.names[0]}"
        waited = whole_percent(self.waiting / (self.on_cpu + self.waiting))
        return (
            f"{who} compete for {plural(self.cpus, 'logical CPU')}. Those that operators have "
            f"started waited for one for {waited} of their time, and calls wait, too."
        )


def competing_pools(trace: Trace) -> Pools | None:
    """The pools of a host that compete the most; None where none does, or it is not known."""
    found = [*_of_hosts(trace)]
    return max(found, key=lambda pools: pools.waiting / pools.cpus, default=None)


def _of_hosts(trace: Trace) -> Iterator[Pools]:
    seconds = window_length_ns(trace) / 1e9
    if seconds <= 0:
        return
    for host in dict.fromkeys(rank.host for rank in trace.ranks):
        here = [rank for rank in trace.ranks if rank.host == host]
        computing = [rank for rank in here if computes_in_parallel(rank, seconds)]
        cpus = max((rank.cpu_count or 0 for rank in here), default=0)
        threads = [rank.intra_op_threads or 0 for rank in computing]
        if not cpus or sum(threads) <= cpus:
            continue
        pools = Pools(
            host=host,
            names=tuple(rank.name for rank in computing),
            threads=tuple(sorted({*threads})),
            cpus=cpus,
            on_cpu=sum(rank.pool_cpu_s or 0.0 for rank in computing) / seconds,
            waiting=sum(rank.pool_run_queue_s or 0.0 for rank in computing) / seconds,
        )
        used = sum(rank.cpu_s or 0.0 for rank in here) / seconds / cpus
        wanted = pools.on_cpu + pools.waiting
        is_of_ranks = OF_RANKS[0] <= used <= OF_RANKS[1]
        if is_of_ranks and wanted >= WANTED * cpus and pools.waiting >= WAITED * wanted:
            yield pools


def computes_in_parallel(rank: TraceRank, seconds: float) -> bool:
    """Whether the intra-op pool of a rank takes part in these seconds of its trace."""
    if rank.pool_cpu_s is None or rank.pool_run_queue_s is None:
        return False
    has_pool = (rank.intra_op_threads or 1) > 1
    return has_pool and rank.pool_cpu_s + rank.pool_run_queue_s >= OF_ONE_RANK * seconds
