"""The number of logical CPUs, told from fake `/proc` and cgroup folders."""

import os
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

import tuner.machine
from tuner.cpus import usable_cpus
from tuner.world.environment import Environment

V2 = ("/", "v2", "cgroup2", "rw")
V1 = ("/", "cpu", "cgroup", "rw,cpu,cpuacct")
CPUSET = ("/", "cpuset", "cgroup", "rw,cpuset")
# Without a cgroup namespace the path is the host's, and the mount shows a part of it.
PART_V1 = ("/docker/abc", "cpu", "cgroup", "rw,cpu")
PART_V2 = ("/docker/abc", "v2", "cgroup2", "rw")


def v1(folder: str, quota_us: int) -> dict[str, str]:
    return {f"{folder}/cpu.cfs_quota_us": f"{quota_us}", f"{folder}/cpu.cfs_period_us": "100000"}


@pytest.fixture(autouse=True)
def affinity_of_eight(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: set(range(8)))


@pytest.mark.parametrize(
    ("mounts", "is_in", "files", "cpus"),
    [
        ([], ["0::/"], {}, 8),
        ([V2, V1], ["0::/"], {"v2/cpu.max": "max 100000", **v1("cpu", -1)}, 8),
        # A quota is rounded up, and never exceeds the affinity.
        ([V2], ["0::/"], {"v2/cpu.max": "100001 100000"}, 2),
        ([V2], ["0::/"], {"v2/cpu.max": "20000 100000"}, 1),
        ([V2], ["0::/"], {"v2/cpu.max": "3200000 100000"}, 8),
        # That of the process's own cgroup, or the tightest of its ancestors.
        ([V2], ["0::/a/b"], {"v2/a/b/cpu.max": "3 1", "v2/a/other/cpu.max": "1 1"}, 3),
        ([V2], ["0::/a/b"], {"v2/a/b/cpu.max": "5 1", "v2/a/cpu.max": "4 1"}, 4),
        ([V2], ["0::/a/b"], {"v2/a/b/cpu.max": "max 1", "v2/a/cpu.max": "4 1"}, 4),
        # Version 1, and what has no say there.
        ([V1, V2], ["4:cpu,cpuacct:/a", "3:memory:/x", "0::/"], v1("cpu/a", 250000), 3),
        ([CPUSET], ["3:cpuset:/"], v1("cpuset", 100000), 8),
        # Containers.
        ([PART_V1], ["4:cpu:/docker/abc/in"], v1("cpu", 400000) | v1("cpu/in", 200000), 2),
        ([PART_V2], ["0::/../elsewhere"], {"v2/cpu.max": "4 1"}, 4),
        # What cannot be read.
        *(([V2], ["0::/"], {"v2/cpu.max": each}, 8) for each in ("", "x", "1", "1 0", "a b")),
    ],
)
def test_the_tightest_quota_counts_and_else_the_affinity(
    mounts: Sequence[tuple[str, str, str, str]], is_in: Sequence[str], files: Mapping[str, str],
    cpus: int, tmp_path: Path,
) -> None:  # fmt: skip
    (tmp_path / "cgroup").write_text("".join(f"{line}\n" for line in is_in))
    lines = [f"30 24 0:26 {root} {tmp_path / point} rw shared:4 - {kind} cgroup {options}\n"
             for root, point, kind, options in mounts]  # fmt: skip
    (tmp_path / "mountinfo").write_text("".join(lines))
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(f"{text}\n")
    assert usable_cpus(tmp_path) == cpus
    assert usable_cpus(tmp_path / "nothing") == 8


def test_the_environment_of_a_study_respects_the_quota(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tuner.machine, "usable_cpus", lambda: 3)
    assert Environment.here().cpu_count == 3
