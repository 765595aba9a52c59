"""Pools of intra-op threads that compete: both sides of what is said of them, and what is tried."""

from dataclasses import replace
from typing import Any

import pytest

from tests.trace.analyze.planted import waits_for_a_cpu, with_pools
from tuner.trace.analyze.diagnosis import diagnose
from tuner.trace.analyze.pools import competing_pools
from tuner.trace.model.trace import Trace

FIVE = (2, 2, 2, 2, 2)
EIGHT = {"on_cpu": 2.0, "waiting": 4.0}


def of_ranks(threads: tuple[int | None, ...] = FIVE, cpus: int = 2, **pools: Any) -> Trace:
    """A second on so many CPUs, which the ranks use 95 % of."""
    size = len(threads)
    taken = waits_for_a_cpu(0.12, cpu_s=0.95 * cpus / size, size=size)
    taken = replace(taken, ranks=tuple(replace(rank, cpu_count=cpus) for rank in taken.ranks))
    return with_pools(taken, threads=threads, **pools)


def with_ranks(taken: Trace, **facts: Any) -> Trace:
    return replace(taken, ranks=tuple(replace(rank, **facts) for rank in taken.ranks))


@pytest.mark.parametrize(
    ("threads", "cpus", "values", "who"),
    [
        (FIVE, 2, "1,2", "5 ranks with 2 intra-op threads each compete for 2 logical CPUs."),
        ((8, 8, 8), 8, "1,2,8", "3 ranks with 8 intra-op threads each"),
        ((4, 4, 2, 1), 8, "1,2,4", "3 ranks with 2 or 4 intra-op threads each"),
        ((1, 8), 2, "1,2,8", "The 8 intra-op threads of worker1 compete for 2 logical CPUs."),
    ],
)
def test_the_numbers_to_try_are_one_an_equal_share_and_the_ranks_own(
    threads: tuple[int, ...], cpus: int, values: str, who: str
) -> None:
    found = diagnose(of_ranks(threads, cpus, on_cpu=0.4 * cpus, waiting=0.8 * cpus))
    assert found.suggestions[0].knob == "intra_op_threads"
    assert found.suggestions[0].values == values
    assert who in found.text


@pytest.mark.parametrize(
    ("competing", "other"),
    [
        # What competes, and what does not, or may not.
        (of_ranks((2, 2)), of_ranks((2, 1))),
        (of_ranks((2, 2)), of_ranks((1, 1))),
        (of_ranks((2, 2)), of_ranks((None, None))),
        (of_ranks((4, 4, 4), 8, **EIGHT), of_ranks((4, 4), 8, **EIGHT)),
        (of_ranks(on_cpu=0.3, waiting=0.71), of_ranks(on_cpu=0.3, waiting=0.69)),
        (of_ranks(on_cpu=0.7, waiting=0.72), of_ranks(on_cpu=0.7, waiting=0.68)),
        (with_ranks(of_ranks(), cpu_s=0.17), with_ranks(of_ranks(), cpu_s=0.15)),
        (with_ranks(of_ranks(), cpu_s=0.43), with_ranks(of_ranks(), cpu_s=0.45)),
        (of_ranks(), with_ranks(of_ranks(), pool_cpu_s=None, pool_run_queue_s=None)),
        (of_ranks(), with_ranks(of_ranks(), pool_cpu_s=0.01, pool_run_queue_s=0.0)),
        (of_ranks(), with_ranks(of_ranks(), cpu_count=None)),
        (of_ranks(), with_ranks(of_ranks(), cpu_s=None)),
    ],
)
def test_what_is_not_sure_is_not_said(competing: Trace, other: Trace) -> None:
    assert competing_pools(competing) is not None
    assert competing_pools(other) is None
    assert "intra-op" not in diagnose(other).text


def test_hosts_are_apart() -> None:
    taken = of_ranks((2, 2))
    one, other = taken.ranks
    assert competing_pools(replace(taken, ranks=(one, replace(other, host="b")))) is None
