"""Worlds whose ranks are on different hosts: network namespaces, with a raylet in each."""

import json
import sys
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from testing.known import known
from testing.namespaces import BESIDE, ROUTED, FakeCluster, fake_cluster
from testing.programs import PROGRAMS
from tuner.cpus import share_of_rank
from tuner.trace.files.reader import read_trace
from tuner.world.measurement import Failure, Measurement

pytestmark = [pytest.mark.world, pytest.mark.thorough]

EACH_HOST = str(PROGRAMS / "each_host.py")


@pytest.fixture(scope="module")
def cluster() -> Iterator[FakeCluster]:
    with fake_cluster() as running:
        yield running


def test_ranks_of_different_hosts_are_measured_over_the_network(
    cluster: FakeCluster, tmp_path: Path
) -> None:
    first, second = cluster.hosts
    before_mb = second.received_mb()
    (tmp_path / "notes").mkdir()
    cluster.run_module("spread", folder=tmp_path)
    for world in (tmp_path / "notes").iterdir():
        told = [rank[:3] for rank in msgspec.json.decode(world.read_bytes())]
        assert told == [[each.namespace, ROUTED, [each.address]] for each in (first, second)]
    # Two worlds of 20 steps of eight calls, beside those that warm up.
    assert second.received_mb() - before_mb > 2 * 20 * 8 * 4

    timed = Measurement.model_validate_json((tmp_path / "timed.json").read_bytes())
    assert all(known(rank.cpu_s) > 0 for rank in timed.ranks)
    trace = read_trace(tmp_path / "trace.json")
    calls = trace.calls
    assert len(calls) == 20 * 8
    assert trace.clock_error_ns > 0
    assert (calls["server_start_ns"] >= calls["start_ns"] - trace.clock_error_ns).all()
    assert (calls["server_end_ns"] <= calls["end_ns"] + trace.clock_error_ns).all()


def test_a_search_has_a_group_on_each_host(cluster: FakeCluster, tmp_path: Path) -> None:
    cluster.run_module("groups", folder=tmp_path)
    told = msgspec.json.decode((tmp_path / "told.json").read_bytes())
    failures, blocks, groups, names = told
    assert (failures, blocks, len(set(names))) == ([None, None], 6, 2)
    assert sorted(set(map(tuple, groups))) == [(1,), (2,)]


TORCHRUN = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", "2"]


@pytest.mark.parametrize(
    ("start", "how", "keys", "interface", "ranks_here", "calls"),
    [
        ([sys.executable], "traced", {"interface": BESIDE}, BESIDE, 1, 50),
        (TORCHRUN, "once", {}, ROUTED, 2, 150),
    ],
)
def test_a_program_runs_on_each_host(
    cluster: FakeCluster, tmp_path: Path, start: list[str], how: str, keys: dict[str, str],
    interface: str, ranks_here: int, calls: int,
) -> None:  # fmt: skip
    command = [*start, EACH_HOST]
    cluster.run_module("program", how, json.dumps(keys), *command, folder=tmp_path)
    timed = Measurement.model_validate_json((tmp_path / "timed.json").read_bytes())
    printed = (tmp_path / "printed").read_text()
    for rank in range(2 * ranks_here):
        place, namespace = rank % ranks_here, cluster.hosts[rank // ranks_here].namespace
        cpus = [*share_of_rank(place, ranks_here)]  # each host binds its own
        here = f"{place} of {ranks_here} here, in {namespace} by {interface}, on CPUs {cpus}"
        assert f"rank {rank} of {2 * ranks_here}, {here}" in printed
    assert [rank.name for rank in timed.ranks] == [f"worker{n}" for n in range(2 * ranks_here)]
    program = known(timed.program)
    assert program.calls == calls
    assert 0.1 < (program.rpc_active_s or 0) < 60
    if how == "traced":
        trace = read_trace(tmp_path / "trace.json")
        assert len(trace.calls) == calls
        assert trace.calls["server_start_ns"].notna().all()


ONE_ENDS = """
import os, torch.distributed.rpc as rpc
rank = int(os.environ["RANK"])
rpc.init_rpc(f"worker{rank}", rank=rank, world_size=2)
if rank == 1:
    END
rpc.shutdown()
"""


@pytest.mark.parametrize(
    ("end", "told"),
    [
        ("raise RuntimeError('out of luck')", "worker1 failed first: RuntimeError: out of luck ("),
        ("os._exit(0)", "worker1 was killed first, or it called os._exit"),
    ],
)
def test_a_rank_that_ends_on_another_host_is_named(
    cluster: FakeCluster, tmp_path: Path, end: str, told: str
) -> None:
    """Its command goes on and ends well, and the first host waits for it."""
    program = tmp_path / "main.py"
    program.write_text(ONE_ENDS.replace("END", end))
    shell = ["sh", "-c", f"{sys.executable} {program}; exit 0"]
    cluster.run_module("program", "fails", "{}", *shell, folder=tmp_path)
    failure = Failure.model_validate_json((tmp_path / "timed.json").read_bytes())
    assert failure.failure == "crashed"
    assert failure.message.startswith(told)


def test_what_cannot_run_between_hosts_is_refused(cluster: FakeCluster, tmp_path: Path) -> None:
    command = [
        sys.executable, "-m", "tuner.search", "--workload", "payload", "--launcher", "ray",
        "--ray-address", cluster.address, "--place", "caller=1", "--place", "server=1",
        "--out", str(tmp_path / "study"), "--space", "transports=shm,uv",
    ]  # fmt: skip
    with pytest.raises(AssertionError, match="transports=shm works through shared memory, and"):
        cluster.run(*command, folder=tmp_path)
    assert not (tmp_path / "study").exists()
