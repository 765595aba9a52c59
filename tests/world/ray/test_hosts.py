"""Worlds whose ranks are on different hosts: network namespaces, with a raylet in each."""

import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import msgspec
import pytest

from tests.programs.running import PROGRAMS
from tests.world.ray.namespaces import BESIDE, ROUTED, FakeCluster, fake_cluster
from tuner.cpus import share_of_rank
from tuner.trace.files.reader import read_trace
from tuner.world.measurement import Failure, Measurement

pytestmark = [pytest.mark.world, pytest.mark.thorough]

EACH_HOST = str(PROGRAMS / "each_host.py")


@pytest.fixture(scope="module")
def cluster() -> Iterator[FakeCluster]:
    with fake_cluster(2) as running:
        yield running


def test_ranks_of_different_hosts_are_measured_over_the_network(
    cluster: FakeCluster, tmp_path: Path
) -> None:
    first, second = cluster.hosts
    before_mb = second.received_mb()
    cluster.run_module("spread", folder=tmp_path)
    driver, server = msgspec.json.decode((tmp_path / "told.json").read_bytes())
    assert [driver["namespace"], server["namespace"]] == [first.namespace, second.namespace]
    assert [driver["interface"], server["interface"]] == [ROUTED, ROUTED]
    assert driver["listening"] == [first.address]
    assert server["listening"] == [second.address]
    # Two worlds of 20 steps, beside those that warm up.
    assert second.received_mb() - before_mb > 2 * 20 * 4

    timed = Measurement.model_validate_json((tmp_path / "timed.json").read_bytes())
    assert all(rank.cpu_s > 0 for rank in timed.ranks)
    trace = read_trace(tmp_path / "trace.json")
    assert len(trace.calls) == 20
    assert trace.clock_error_ns > 0


def start_program(cluster: FakeCluster, folder: Path, *flags: str, program: Sequence[str]) -> None:
    cluster.run_module("program", *flags, "--", *program, folder=folder)


def run_program(
    cluster: FakeCluster, folder: Path, *flags: str, program: Sequence[str]
) -> tuple[str, Measurement]:
    """What all hosts print in all runs, and what was measured."""
    start_program(cluster, folder, *flags, program=program)
    timed = Measurement.model_validate_json((folder / "timed.json").read_bytes())
    return (folder / "printed").read_text(), timed


def bound_to(index: int, ranks: int) -> list[int]:
    """The logical CPUs of a rank: each host binds its own."""
    return [*share_of_rank(index, ranks)]


def test_a_program_runs_once_on_each_host(cluster: FakeCluster, tmp_path: Path) -> None:
    printed, timed = run_program(
        cluster, tmp_path, "--traced", "--interface", BESIDE, program=[sys.executable, EACH_HOST]
    )
    for rank, host in enumerate(cluster.hosts):
        here = f"0 of 1 here, in {host.namespace} by {BESIDE}, on CPUs {bound_to(0, 1)}"
        assert f"rank {rank} of 2, {here}" in printed
    assert timed.program is not None
    assert timed.program.calls == 50
    assert [rank.name for rank in timed.ranks] == ["worker0", "worker1"]
    assert timed.program.rpc_active_s is not None
    assert 0.1 < timed.program.rpc_active_s < 60
    trace = read_trace(tmp_path / "trace.json")
    assert len(trace.calls) == 50
    assert trace.calls["server_start_ns"].notna().all()


def test_torchrun_starts_the_ranks_of_each_host(cluster: FakeCluster, tmp_path: Path) -> None:
    torchrun = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", "2"]
    printed, timed = run_program(cluster, tmp_path, program=[*torchrun, EACH_HOST])
    for rank in range(4):
        namespace = cluster.hosts[rank // 2].namespace
        here = f"{rank % 2} of 2 here, in {namespace} by {ROUTED}, on CPUs {bound_to(rank % 2, 2)}"
        assert f"rank {rank} of 4, {here}" in printed
    assert timed.program is not None
    assert timed.program.calls == 150
    assert [rank.name for rank in timed.ranks] == [f"worker{rank}" for rank in range(4)]


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
    start_program(cluster, tmp_path, "--fails", program=shell)
    failure = Failure.model_validate_json((tmp_path / "timed.json").read_bytes())
    assert failure.failure == "crashed"
    assert failure.message.startswith(told)


def search(cluster: FakeCluster, folder: Path, *more: str) -> list[str]:
    return [
        sys.executable, "-m", "tuner.search", "--workload", "payload", "--set", "calls=2",
        "--launcher", "ray", "--ray-address", cluster.address, "--place", "caller=1",
        "--place", "server=1", "--out", str(folder), "--json", *more,
    ]  # fmt: skip


def test_a_payload_is_tuned_over_the_network(cluster: FakeCluster, tmp_path: Path) -> None:
    second = cluster.hosts[1]
    before_mb = second.received_mb()
    folder = tmp_path / "study"
    command = search(
        cluster, folder, "--space", "num_worker_threads=2,4", "--max-blocks", "2",
        "--budget", "60s", "--deadline", "30s",
    )  # fmt: skip
    told = msgspec.json.decode(cluster.run(*command, folder=tmp_path))
    assert told["blocks"] >= 1
    assert [trial["outcome"] for trial in told["trials"]].count("completed") >= 2
    # The worlds of two blocks alone sent tens of payloads of 4 MB.
    assert second.received_mb() - before_mb > 100
    trace = read_trace(next((folder / "traces").glob("*.json")))
    assert trace.clock_error_ns > 0
    assert {rank.name for rank in trace.ranks} == {"worker0", "worker1"}
    calls = trace.calls
    assert (calls["server_start_ns"] >= calls["start_ns"] - trace.clock_error_ns).all()
    assert (calls["server_end_ns"] <= calls["end_ns"] + trace.clock_error_ns).all()
    recommended = msgspec.json.decode((folder / "recommended.json").read_bytes())
    assert recommended["how"]["launching"]["launcher"] == "ray"


@pytest.mark.parametrize(
    ("more", "told"),
    [
        (["--space", "transports=shm,uv"], "transports=shm works through shared memory, and"),
        (["--place", "caller+server=1"], "the role caller has two places"),
    ],
)
def test_what_cannot_run_between_hosts_is_refused(
    cluster: FakeCluster, tmp_path: Path, more: list[str], told: str
) -> None:
    command = search(cluster, tmp_path / "study", *more)
    with pytest.raises(AssertionError, match=told):
        cluster.run(*command, folder=tmp_path)
    assert not (tmp_path / "study").exists()


def test_a_world_of_64_ranks(cluster: FakeCluster, tmp_path: Path) -> None:
    cluster.run_module("many", folder=tmp_path)
    outcome = Measurement.model_validate_json((tmp_path / "many.json").read_bytes())
    assert len(outcome.ranks) == 64
    assert len(outcome.step_s) == 2
