"""How a machine is parted into sets of CPUs; the machines are folders of files."""

import os
from collections.abc import Callable, Iterator, Sequence
from itertools import chain
from pathlib import Path
from typing import Any

import pytest

from tuner import cpus as numbering
from tuner.cpus import named, share_of_rank, topology
from tuner.errors import UsageError
from tuner.world import launchers as module
from tuner.world.launchers import cpu_sets

Machine = Callable[..., Path]


def cpus_in(text: str) -> Iterator[int]:
    for part in text.split(","):
        first, _, last = part.partition("-")
        yield from range(int(first), int(last or first) + 1)


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Machine:
    """A machine of NUMA nodes, each a list of CPUs, and of cores; all of it may be used."""

    def make(
        *nodes: str, cores: Sequence[str] = (), may_use: Sequence[int] | None = None,
        quota: int | None = None,
    ) -> Path:  # fmt: skip
        by_node = [[*cpus_in(node)] for node in nodes]
        for number, cpus in enumerate(by_node):
            for cpu in cpus:
                (tmp_path / f"cpu/cpu{cpu}/node{number}").mkdir(parents=True)
        for core in cores:
            for cpu in cpus_in(core):
                (tmp_path / f"cpu/cpu{cpu}/topology").mkdir(parents=True)
                (tmp_path / f"cpu/cpu{cpu}/topology/thread_siblings_list").write_text(f"{core}\n")
        mine = set(chain(*by_node)) if may_use is None else set(may_use)
        monkeypatch.setattr(os, "sched_getaffinity", lambda pid: mine)
        for each in (module, numbering):
            monkeypatch.setattr(each, "usable_cpus", lambda: quota or len(mine))
        return tmp_path

    return make


HYPER = {"cores": ("0,4", "1,5", "2,6", "3,7")}


@pytest.mark.parametrize(
    ("nodes", "more", "groups", "size", "sets"),
    [
        # Sets share no CPU and stay in their node.
        (["0-7", "8-15"], {}, 4, 4, ["0-3", "4-7", "8-11", "12-15"]),
        (["0-7", "8-15"], {}, 2, 6, ["0-5", "8-13"]),
        # A set that is larger than a node is made of whole ones.
        (["0-3", "4-7", "8-11", "12-15"], {}, 2, 8, ["0-7", "8-15"]),
        # Threads of a core are together.
        (["0-7"], HYPER, 2, 4, ["0-1,4-5", "2-3,6-7"]),
        # Without a size the groups share equally, and in as much as the nodes have room for.
        (["0-7"], {}, 3, None, ["0-1", "2-3", "4-5"]),
        (["0-3", "4-7"], {}, 3, None, ["0-1", "2-3", "4-5"]),
        # Only what may be used counts.
        (["0-7"], {"may_use": [2, 3, 4, 7]}, 2, 2, ["2-3", "4,7"]),
        (["0-7"], {"quota": 3}, 3, 1, ["0", "1", "2"]),
        # A machine without nodes is one.
        ([], {"may_use": [0, 1]}, 2, 1, ["0", "1"]),
    ],
)
def test_sets_of_cpus(
    machine: Machine, nodes: list[str], more: Any, groups: int, size: int | None, sets: list[str]
) -> None:
    assert [named(each) for each in cpu_sets(groups, size, machine(*nodes, **more))] == sets


@pytest.mark.parametrize(
    ("groups", "cpus", "quota", "told"),
    [
        (3, 4, None, "3 groups of 4 logical CPUs do not fit: this process may use 8 in 2 NUMA "
                     "nodes, enough for 2 groups of that size"),
        (9, None, None, "9 groups need at least a logical CPU each, and this process may use 8"),
        (2, 2, 3, "this process may use 3 in 2 NUMA nodes, enough for 1 group of that size"),
    ],
)  # fmt: skip
def test_what_does_not_fit_is_told(
    machine: Machine, groups: int, cpus: int | None, quota: int | None, told: str
) -> None:
    with pytest.raises(UsageError, match=told):
        cpu_sets(groups, cpus, machine("0-3", "4-7", quota=quota))


@pytest.mark.parametrize(
    ("nodes", "more", "shares"),
    [
        # Ranks are dealt to nodes in their order.
        (["0-3", "4-7"], {}, ["0-7"]),
        (["0-3", "4-7"], {}, ["0-1", "2-3", "4-5"]),
        # A rank of few has whole nodes.
        (["0-1", "2-3", "4-5", "6-7"], {}, ["0-3", "4-7"]),
        # A rank has whole cores where there are enough, also where another node has fewer.
        (["0-7"], HYPER, ["0-1,4-5", "2-3,6-7"]),
        (["0-7"], HYPER, ["0,4", "1,5", "2,6"]),
        (["0-7"], HYPER, ["0", "4", "1", "5", "2", "6"]),
        (["0-7", "8-11"], {"cores": (*HYPER["cores"], "8-9", "10-11")},
         ["0,4", "1,5", "8-9", "10-11"]),
        # More ranks than CPUs take turns.
        (["0-1"], {}, ["0", "1", "0", "1", "0"]),
        # No share leaves more than half unused, and a rank gets no more than the quota.
        (["0-7", "8"], {}, ["0-3", "4-7"]),
        (["0-7", "8-15"], {"quota": 4}, ["0-1", "8-9"]),
    ],
)  # fmt: skip
def test_shares_of_the_ranks_of_one_host(
    machine: Machine, nodes: list[str], more: Any, shares: list[str]
) -> None:
    sys, ranks = machine(*nodes, **more), len(shares)
    assert [named(share_of_rank(index, ranks, sys)) for index in range(ranks)] == shares


def test_the_topology_is_of_what_may_be_used(machine: Machine, tmp_path: Path) -> None:
    assert topology(tmp_path / "nothing") == (1, 1)
    sys = machine("0-3", "4-7", cores=("0,2", "1,3", "4,6", "5,7"), may_use=[0, 1, 2, 3])
    assert topology(sys) == (1, 2)
