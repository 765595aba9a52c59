"""A cluster's hosts, divided among groups that measure blocks at the same time."""

from pathlib import Path

import msgspec
import pytest

from tests.world.ray.namespaces import fake_cluster
from tuner.errors import UsageError
from tuner.world.ray.placing import HostInfo
from tuner.world.ray.ray_launcher import host_sets


def host(name: str, cpus: int = 8) -> HostInfo:
    return HostInfo(node=name, name=name, address="10.0.0.1", cpus=cpus, gpus=0)


def names(sets: list[list[HostInfo]]) -> list[list[str]]:
    return [[each.name for each in part] for part in sets]


def test_hosts_are_divided_equally_and_what_is_left_over_is_not_used() -> None:
    hosts = [host(name) for name in "abcde"]
    assert names(host_sets(hosts, 2)) == [["a", "c"], ["b", "d"]]
    assert names(host_sets(hosts, 5)) == [["a"], ["b"], ["c"], ["d"], ["e"]]


def test_groups_are_as_alike_as_can_be() -> None:
    hosts = [host("small", 4), host("large", 64), host("tiny", 4), host("huge", 64)]
    assert names(host_sets(hosts, 2)) == [["large", "small"], ["huge", "tiny"]]


def test_too_few_hosts_are_told() -> None:
    with pytest.raises(UsageError, match=r"3 groups need at least a host each, .* has 2 hosts"):
        host_sets([host("a"), host("b")], 3)


@pytest.mark.world
@pytest.mark.thorough
def test_a_search_has_a_group_on_each_host(tmp_path: Path) -> None:
    with fake_cluster(2) as cluster:
        cluster.run_module("groups", folder=tmp_path)
        told = msgspec.json.decode((tmp_path / "told.json").read_bytes())
    assert told["failures"] == [None, None]
    assert told["blocks"] == 6
    assert sorted(set(map(tuple, told["groups"]))) == [(1,), (2,)]
    assert len(set(told["names"])) == 2
