"""The number of logical CPUs, told from fake `/proc` and cgroup folders."""

import os
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch.distributed.rpc as rpc

import tuner.machine
from tuner.cpus import usable_cpus
from tuner.trace.record import driver
from tuner.world import environment


@pytest.fixture(autouse=True)
def affinity_of_eight(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: set(range(8)))


class FakeMachine:
    """A `/proc/self` and the cgroup file systems that it names."""

    def __init__(self, folder: Path) -> None:
        self.proc = folder / "proc"
        self.proc.mkdir()
        self.mounts = folder / "cgroup"
        self.mounts.mkdir()
        self.is_in("0::/")
        self.mounted()

    def is_in(self, *lines: str) -> None:
        """The process's cgroups: `hierarchy:controllers:path`."""
        (self.proc / "cgroup").write_text("".join(f"{line}\n" for line in lines))

    def mounted(self, *mounts: tuple[str, str, str, str]) -> None:
        """File systems: the folder that is mounted, the mount point, the type, the options."""
        (self.proc / "mountinfo").write_text(
            "".join(
                f"30 24 0:26 {root} {self.mounts / point} rw shared:4 - {kind} cgroup {options}\n"
                for root, point, kind, options in mounts
            )
        )

    def write(self, path: str, text: str) -> None:
        file = self.mounts / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(f"{text}\n")

    @property
    def cpus(self) -> int:
        return usable_cpus(self.proc)


@pytest.fixture
def machine(tmp_path: Path) -> FakeMachine:
    return FakeMachine(tmp_path)


V2 = ("/", "v2", "cgroup2", "rw")
V1 = ("/", "cpu", "cgroup", "rw,cpu,cpuacct")


def test_without_a_quota_the_affinity_counts(machine: FakeMachine) -> None:
    assert machine.cpus == 8
    machine.mounted(V2, V1)
    machine.write("v2/cpu.max", "max 100000")
    machine.write("cpu/cpu.cfs_quota_us", "-1")
    machine.write("cpu/cpu.cfs_period_us", "100000")
    assert machine.cpus == 8


def test_no_proc_at_all_leaves_the_affinity(tmp_path: Path) -> None:
    assert usable_cpus(tmp_path / "nothing") == 8


@pytest.mark.parametrize(
    ("quota", "cpus"),
    [
        ("200000 100000", 2),
        ("150000 100000", 2),
        ("100001 100000", 2),
        ("100000 100000", 1),
        ("20000 100000", 1),
        ("3200000 100000", 8),
    ],
)
def test_a_quota_is_rounded_up_and_never_exceeds_the_affinity(
    machine: FakeMachine, quota: str, cpus: int
) -> None:
    machine.mounted(V2)
    machine.write("v2/cpu.max", quota)
    assert machine.cpus == cpus


def test_the_quota_of_the_process_own_cgroup_counts(machine: FakeMachine) -> None:
    machine.mounted(V2)
    machine.is_in("0::/batch/job")
    machine.write("v2/batch/job/cpu.max", "300000 100000")
    machine.write("v2/batch/other/cpu.max", "100000 100000")
    assert machine.cpus == 3


def test_the_tightest_quota_of_all_ancestors_counts(machine: FakeMachine) -> None:
    machine.mounted(V2)
    machine.is_in("0::/batch/job")
    machine.write("v2/batch/job/cpu.max", "500000 100000")
    machine.write("v2/batch/cpu.max", "400000 100000")
    assert machine.cpus == 4
    machine.write("v2/batch/job/cpu.max", "max 100000")
    assert machine.cpus == 4


def test_version_1_has_its_quota_in_two_files(machine: FakeMachine) -> None:
    machine.mounted(V1, V2)
    machine.is_in("4:cpu,cpuacct:/batch", "3:memory:/elsewhere", "0::/")
    machine.write("cpu/batch/cpu.cfs_quota_us", "250000")
    machine.write("cpu/batch/cpu.cfs_period_us", "100000")
    assert machine.cpus == 3


def test_other_controllers_of_version_1_have_no_say(machine: FakeMachine) -> None:
    machine.mounted(("/", "cpuset", "cgroup", "rw,cpuset"))
    machine.is_in("3:cpuset:/")
    machine.write("cpuset/cpu.cfs_quota_us", "100000")
    machine.write("cpuset/cpu.cfs_period_us", "100000")
    assert machine.cpus == 8


def test_a_container_sees_its_own_cgroup_as_the_root(machine: FakeMachine) -> None:
    """Without a cgroup namespace the path is the host's, and the mount shows a part of it."""
    machine.mounted(("/docker/abc", "cpu", "cgroup", "rw,cpu"))
    machine.is_in("4:cpu:/docker/abc/inner")
    machine.write("cpu/cpu.cfs_quota_us", "400000")
    machine.write("cpu/cpu.cfs_period_us", "100000")
    machine.write("cpu/inner/cpu.cfs_quota_us", "200000")
    machine.write("cpu/inner/cpu.cfs_period_us", "100000")
    assert machine.cpus == 2


def test_a_cgroup_outside_of_the_mount_leaves_the_root_of_the_mount(machine: FakeMachine) -> None:
    machine.mounted(("/docker/abc", "v2", "cgroup2", "rw"))
    machine.is_in("0::/../elsewhere")
    machine.write("v2/cpu.max", "400000 100000")
    assert machine.cpus == 4


@pytest.mark.parametrize("text", ["", "nonsense", "100000", "100000 0", "a b"])
def test_what_cannot_be_read_limits_nothing(machine: FakeMachine, text: str) -> None:
    machine.mounted(V2)
    machine.write("v2/cpu.max", text)
    assert machine.cpus == 8


def test_the_environment_of_a_study_respects_the_quota(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tuner.machine, "usable_cpus", lambda: 3)
    assert environment.Environment.here().cpu_count == 3


def test_a_trace_respects_the_quota(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(driver, "usable_cpus", lambda: 3)
    worker = SimpleNamespace(id=0, name="worker0")
    monkeypatch.setattr(rpc, "get_worker_info", lambda: worker)
    monkeypatch.setattr(driver, "default_timeout_s", lambda: 60.0)
    driver._listen("quota", operators=False)
    driver._issue("quota")
    assert driver._collect("quota", {0: 0}).cpu_count == 3
