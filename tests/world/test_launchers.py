"""How a machine is parted into sets of CPUs; the machines are folders of files."""

import os
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tuner import cpus as numbering
from tuner.cpus import named, share_of_rank, topology
from tuner.errors import UsageError
from tuner.world import launchers as module
from tuner.world.launchers import cpu_sets

Machine = Callable[..., Path]


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Machine:
    """A machine of NUMA nodes, each a list of CPUs, and of cores; all of it may be used."""

    def make(
        *nodes: str, cores: Sequence[str] = (), may_use: Sequence[int] | None = None,
        quota: int | None = None,
    ) -> Path:  # fmt: skip
        cpus = [cpu for node in nodes for cpu in numbering._read_list_of(node)]
        for number, node in enumerate(nodes):
            file = tmp_path / f"node/node{number}/cpulist"
            file.parent.mkdir(parents=True)
            file.write_text(f"{node}\n")
        for core in cores:
            for cpu in numbering._read_list_of(core):
                file = tmp_path / f"cpu/cpu{cpu}/topology/thread_siblings_list"
                file.parent.mkdir(parents=True)
                file.write_text(f"{core}\n")
        mine = set(cpus if may_use is None else may_use)
        monkeypatch.setattr(os, "sched_getaffinity", lambda pid: mine)
        for each in (module, numbering):
            monkeypatch.setattr(each, "usable_cpus", lambda: quota or len(mine))
        return tmp_path

    return make


def test_sets_share_no_cpu_and_stay_in_their_node(machine: Machine) -> None:
    sys = machine("0-7", "8-15")
    assert [named(each) for each in cpu_sets(4, 4, sys)] == ["0-3", "4-7", "8-11", "12-15"]
    assert [named(each) for each in cpu_sets(2, 6, sys)] == ["0-5", "8-13"]


def test_a_set_that_is_larger_than_a_node_is_made_of_whole_ones(machine: Machine) -> None:
    sys = machine("0-3", "4-7", "8-11", "12-15")
    assert [named(each) for each in cpu_sets(2, 8, sys)] == ["0-7", "8-15"]


def test_threads_of_a_core_are_together(machine: Machine) -> None:
    sys = machine("0-7", cores=("0,4", "1,5", "2,6", "3,7"))
    assert [named(each) for each in cpu_sets(2, 4, sys)] == ["0-1,4-5", "2-3,6-7"]


def test_without_a_size_the_groups_share_equally(machine: Machine) -> None:
    assert [named(each) for each in cpu_sets(3, None, machine("0-7"))] == ["0-1", "2-3", "4-5"]


def test_a_size_that_nodes_have_no_room_for_is_made_smaller(machine: Machine) -> None:
    assert [named(each) for each in cpu_sets(3, None, machine("0-3", "4-7"))] == [
        "0-1", "2-3", "4-5",
    ]  # fmt: skip


def test_only_what_may_be_used_counts(machine: Machine) -> None:
    sys = machine("0-7", may_use=[2, 3, 4, 7])
    assert [named(each) for each in cpu_sets(2, 2, sys)] == ["2-3", "4,7"]


def test_a_machine_without_nodes_is_one(machine: Machine) -> None:
    assert [named(each) for each in cpu_sets(2, 1, machine(may_use=[0, 1]))] == ["0", "1"]


@pytest.mark.parametrize(
    ("groups", "cpus", "told"),
    [
        (3, 4, "3 groups of 4 logical CPUs do not fit: this process may use 8 in 2 NUMA nodes, "
               "enough for 2 groups of that size"),
        (1, 9, "1 group of 9 logical CPUs do not fit: .* enough for 0 groups"),
        (9, None, "9 groups need at least a logical CPU each, and this process may use 8"),
    ],
)  # fmt: skip
def test_what_does_not_fit_is_told(
    machine: Machine, groups: int, cpus: int | None, told: str
) -> None:
    sys = machine("0-3", "4-7")
    with pytest.raises(UsageError, match=told):
        cpu_sets(groups, cpus, sys)


def test_a_quota_counts(machine: Machine) -> None:
    sys = machine("0-7", quota=3)
    with pytest.raises(UsageError, match="may use 3, enough for 1 group of that size"):
        cpu_sets(2, 2, sys)
    assert len(cpu_sets(3, 1, sys)) == 3


@given(st.sets(st.integers(0, 300)))
def test_a_list_of_cpus_is_read_as_it_is_written(cpus: set[int]) -> None:
    assert numbering._read_list_of(named(tuple(cpus))) == sorted(cpus)


# The shares of the ranks of one host.


def shares(ranks: int, sys: Path) -> list[str]:
    return [named(share_of_rank(index, ranks, sys)) for index in range(ranks)]


def test_ranks_are_dealt_to_nodes_in_their_order(machine: Machine) -> None:
    sys = machine("0-3", "4-7")
    assert shares(1, sys) == ["0-7"]
    assert shares(2, sys) == ["0-3", "4-7"]
    assert shares(3, sys) == ["0-1", "2-3", "4-5"]
    assert shares(4, sys) == ["0-1", "2-3", "4-5", "6-7"]


def test_a_rank_of_few_has_whole_nodes(machine: Machine) -> None:
    assert shares(2, machine("0-1", "2-3", "4-5", "6-7")) == ["0-3", "4-7"]


def test_a_rank_has_whole_cores_where_there_are_enough(machine: Machine) -> None:
    sys = machine("0-7", cores=("0,4", "1,5", "2,6", "3,7"))
    assert shares(2, sys) == ["0-1,4-5", "2-3,6-7"]
    assert shares(3, sys) == ["0,4", "1,5", "2,6"]
    assert shares(6, sys) == ["0", "4", "1", "5", "2", "6"]


def test_cores_stay_whole_where_another_node_has_fewer(machine: Machine) -> None:
    cores = ("0,4", "1,5", "2,6", "3,7", "8-9", "10-11")
    sys = machine("0-7", "8-11", cores=cores)
    assert shares(4, sys) == ["0,4", "1,5", "8-9", "10-11"]


def test_the_topology_is_of_what_may_be_used(machine: Machine) -> None:
    sys = machine("0-3", "4-7", cores=("0,2", "1,3", "4,6", "5,7"), may_use=[0, 1, 2, 3])
    assert topology(sys) == (1, 2)


def test_the_topology_where_the_kernel_says_nothing(machine: Machine) -> None:
    assert topology(machine(may_use=[0, 1])) == (1, 1)


def test_more_ranks_than_cpus_take_turns(machine: Machine) -> None:
    assert shares(5, machine("0-1")) == ["0", "1", "0", "1", "0"]


def test_no_share_leaves_more_than_half_unused(machine: Machine) -> None:
    assert shares(2, machine("0-7", "8")) == ["0-3", "4-7"]


def test_a_rank_gets_no_more_than_the_quota(machine: Machine) -> None:
    assert shares(2, machine("0-7", "8-15", quota=4)) == ["0-1", "8-9"]


@given(st.lists(st.integers(1, 6), min_size=1, max_size=4), st.integers(1, 12), st.data())
def test_shares_are_equal_and_disjoint_unless_ranks_take_turns(
    sizes: list[int], ranks: int, data: st.DataObject
) -> None:
    cpus = data.draw(st.permutations(range(sum(sizes))))
    nodes = [sorted(cpus[sum(sizes[:at]) : sum(sizes[: at + 1])]) for at in range(len(sizes))]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(numbering, "numa_nodes", lambda sys: nodes)
        patch.setattr(numbering, "usable_cpus", lambda: len(cpus))
        found = [share_of_rank(index, ranks) for index in range(ranks)]
    assert len({len(each) for each in found}) == 1
    used = [cpu for each in found for cpu in each]
    if ranks <= len(cpus):
        assert len(used) == len(set(used)) >= ranks
    else:
        assert set(used) == set(cpus)
