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


@pytest.mark.parametrize(
    ("hosts", "groups", "sets"),
    [
        # Equally; what is left over is not used.
        ([host(name) for name in "abcde"], 2, [["a", "c"], ["b", "d"]]),
        # As alike as can be.
        ([host("small", 4), host("large", 64), host("tiny", 4), host("huge", 64)], 2,
         [["large", "small"], ["huge", "tiny"]]),
    ],
)  # fmt: skip
def test_hosts_are_divided(hosts: list[HostInfo], groups: int, sets: list[list[str]]) -> None:
    assert [[each.name for each in part] for part in host_sets(hosts, groups)] == sets


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
