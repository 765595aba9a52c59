"""How many logical CPUs this process may use: by its affinity, and by its container's quota."""

import math
import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path, PurePosixPath

_PROC = Path("/proc/self")


def usable_cpus(proc: Path = _PROC) -> int:
    """The logical CPUs that this process may use, at least 1.

    The smallest of its CPU affinity and the CPU quotas of its cgroup and of that cgroup's
    ancestors. A quota is CPU time per wall time; it is rounded up: with a quota of 1.5 two threads
    do run at the same time, and two get more done than one.

    Args:
        proc: The process's folder in `/proc`; it tells the cgroups and where they are mounted.

    Returns:
        A whole number of logical CPUs. A quota that cannot be read limits nothing.
    """
    quotas = [quota for folder in cpu_cgroups(proc) if (quota := _quota(folder)) is not None]
    return max(1, min([len(os.sched_getaffinity(0)), *map(math.ceil, quotas)]))


def cpu_cgroups(proc: Path) -> Iterator[Path]:
    """The folders of the process's CPU cgroups and of their ancestors, as far as it sees them."""
    try:
        memberships = (proc / "cgroup").read_text().splitlines()
        mounts = (proc / "mountinfo").read_text().splitlines()
    except OSError:
        return
    # `hierarchy:controllers:path`; in version 2 the hierarchy is 0, with no controllers named.
    paths = {
        "cgroup2" if hierarchy == "0" else "cgroup": PurePosixPath(path)
        for hierarchy, controllers, path in (line.split(":", 2) for line in memberships)
        if hierarchy == "0" or "cpu" in controllers.split(",")
    }
    for mount in mounts:
        before, _, after = mount.partition(" - ")
        root, mount_point = before.split()[3:5]
        kind, _, options = after.split()[:3]
        if kind in paths and (kind == "cgroup2" or "cpu" in options.split(",")):
            yield from _upwards(Path(mount_point), paths[kind], PurePosixPath(root))


def _upwards(mount_point: Path, path: PurePosixPath, root: PurePosixPath) -> Iterator[Path]:
    """The folder of a cgroup and of each of its ancestors, where `root` is what is mounted.

    In a container the path may be the host's; what is outside of the mount cannot be looked at.
    """
    is_inside = path.is_relative_to(root) and ".." not in path.parts
    inside = path.relative_to(root) if is_inside else PurePosixPath()
    for cgroup in (inside, *inside.parents):
        yield mount_point / cgroup


def _quota(cgroup: Path) -> float | None:
    """CPU time per wall time, in version 2's format or version 1's; None without a limit."""
    with suppress(OSError, ValueError, ZeroDivisionError):
        quota, period = (cgroup / "cpu.max").read_text().split()
        return None if quota == "max" else int(quota) / int(period)
    with suppress(OSError, ValueError, ZeroDivisionError):
        quota_us = int((cgroup / "cpu.cfs_quota_us").read_text())
        return quota_us / int((cgroup / "cpu.cfs_period_us").read_text()) if quota_us > 0 else None
    return None
