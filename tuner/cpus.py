"""The logical CPUs that this process may use: how many, which, and how to keep it to some of them.

Standard library only: it runs in the processes of programs, too.
"""

import math
import os
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import suppress
from itertools import groupby
from pathlib import Path, PurePosixPath

SYS = Path("/sys/devices/system")
_BEFORE_BINDING = "RPC_TUNER_CPUS"
"""The environment variable that tells what starts in a bound process what that could use before."""
CpuSet = tuple[int, ...]
"""Numbers of logical CPUs, in order."""
# The lines to paste have this, and the functions that take or return it, as they are: these are in
# the layout of ruff and Black for 88 columns.
Place = tuple[list[int], int, int]  # NUMA node, first thread of its core, and number


def usable_cpus(proc: Path = Path("/proc/self")) -> int:
    """How many logical CPUs this process may use, at least 1.

    The smallest of its CPU affinity and the CPU quotas of its cgroup and of that one's ancestors,
    rounded up: with a quota of 1.5, two threads get more done than one. A quota that cannot be read
    limits nothing. `proc` is the process's folder in `/proc`.
    """
    quotas = map(_quota, cpu_cgroups(proc))
    whole = [math.ceil(quota) for quota in quotas if quota is not None]
    return max(1, min([len(os.sched_getaffinity(0)), *whole]))


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
            # In a container the path may be the host's: what is outside of the mount is not seen.
            path = paths[kind]
            is_inside = path.is_relative_to(root) and ".." not in path.parts
            inside = path.relative_to(root) if is_inside else PurePosixPath()
            yield from (Path(mount_point, cgroup) for cgroup in (inside, *inside.parents))


def _quota(cgroup: Path) -> float | None:
    """CPU time per wall time, in version 2's format or version 1's; None without a limit."""
    for names in (["cpu.max"], ["cpu.cfs_quota_us", "cpu.cfs_period_us"]):
        with suppress(OSError, ValueError, ZeroDivisionError):
            quota, period = " ".join((cgroup / name).read_text() for name in names).split()
            return None if quota == "max" or int(quota) <= 0 else int(quota) / int(period)
    return None


def places_of(cpus: set[int], sys: Path = Path("/sys/devices/system")) -> list[Place]:
    """These logical CPUs, threads of one core together."""
    places = []
    for cpu in cpus:
        here = sys / f"cpu/cpu{cpu}"
        node = [int(each.name[4:]) for each in here.glob("node[0-9]*")]
        core = [each.read_text() for each in here.glob("topology/thread_siblings_list")]
        first = int(core[0].replace("-", ",").split(",")[0]) if core else cpu
        places.append((node, first, cpu))
    return sorted(places)


# Ranks are dealt to NUMA nodes in their order, or nodes to ranks where there are fewer ranks; the
# threads of a core stay together where there are enough cores. The shares are disjoint and equal,
# so some logical CPUs may be left, but not more than half of them: nodes and cores are parted
# rather than that.
def share_of(places: list[Place], index: int, ranks: int) -> list[int]:
    """The logical CPUs of the rank at this place among its host's, from 0."""

    def split(some: list[Place], depth: int) -> list[list[Place]]:
        return [[*part] for _, part in groupby(some, lambda place: place[:depth])]

    ranks = min(ranks, len(places))  # more ranks take turns
    # Whole nodes, or else cores, or else CPUs: the first that uses most of them.
    for pool, part in (0, 1), (1, 2), (1, 3), (0, 2), (0, 3):
        pools = [split(each, part) for each in split(places, pool)]
        homes = [rank * len(pools) // ranks for rank in range(ranks)]
        size = min(len(pools[home]) // homes.count(home) for home in homes)
        dealt = [[pools[home].pop(0) for _ in range(size)] for home in homes]
        shares = [[cpu for part in parts for _, _, cpu in part] for parts in dealt]
        size = min(map(len, shares))
        if 2 * size * ranks >= len(places):
            break
    return sorted(shares[index % ranks][:size])


def share_of_rank(index: int, ranks: int, sys: Path = SYS) -> CpuSet:
    """See `share_of`; all ranks together get no more than the container's quota is enough for."""
    places = places_of(os.sched_getaffinity(0), sys)
    quota, seen, found = min(usable_cpus(), len(places)), 0, list[Place]()
    for _, of_node in groupby(places, lambda place: place[0]):
        node = [*of_node]
        # An equal part of each node: as many as bring the sum to the quota's part of those seen.
        before, seen = seen * quota // len(places), seen + len(node)
        found += node[: seen * quota // len(places) - before]
    return tuple(share_of(found, index, ranks))


def bind_rank(index: int, ranks: int) -> CpuSet:
    """Keep this process, and what it starts, to its `share_of_rank`; returns that; see `bind`."""
    # A bound rank may have started this process, or it is bound once more.
    unbind_rank()
    before = sorted(os.sched_getaffinity(0))
    share = share_of_rank(index, ranks)
    bind(share)
    # The lines to paste read and write it, too.
    os.environ[_BEFORE_BINDING] = "/".join(",".join(map(str, cpus)) for cpus in (before, share))
    return share


def unbind_rank() -> None:
    """Let this process use what it could before `bind_rank`; nothing if it is not bound."""
    if is_bound():
        before, _, _ = os.environ.pop(_BEFORE_BINDING).partition("/")
        bind(_read_list_of(before))


def is_bound() -> bool:
    """Whether this process, or one that has started it, was bound as a rank, and still is."""
    before, _, bound = os.environ.get(_BEFORE_BINDING, "").partition("/")
    return bool(before) and {*_read_list_of(bound)} == os.sched_getaffinity(0)


def bind(cpus: Sequence[int]) -> None:
    """Keep all threads of this process, and those that they start, to these logical CPUs.

    OSError where this is not permitted.
    """
    done = set[int]()
    # A thread that is not bound yet may start another one meanwhile.
    while threads := {int(name) for name in os.listdir("/proc/self/task")} - done:  # noqa: PTH208
        for thread in threads:
            with suppress(ProcessLookupError):
                os.sched_setaffinity(thread, cpus)
        done |= threads


def why_not_bound() -> str:
    """Why no process can be bound here, as a clause; empty if it can."""
    try:
        os.sched_setaffinity(0, os.sched_getaffinity(0))
    except OSError as error:
        return f"the system does not permit to set CPU affinity ({error.strerror})"
    return ""


def numa_nodes(sys: Path = SYS) -> list[list[int]]:
    """The logical CPUs that this process may use, by NUMA node, threads of one core together."""
    by_node = groupby(places_of(os.sched_getaffinity(0), sys), lambda place: place[0])
    return [[cpu for _, _, cpu in places] for _, places in by_node]


def topology(sys: Path = SYS) -> tuple[int, int]:
    """How many NUMA nodes this process may use, and how many threads of one core at most."""
    places = places_of(os.sched_getaffinity(0), sys)
    cores = Counter((*node, core) for node, core, _ in places)
    return len({tuple(node) for node, _, _ in places}), max(cores.values())


def _read_list_of(text: str) -> list[int]:
    """`0-3,8` as numbers."""
    ends = [part.partition("-")[::2] for part in text.strip().split(",") if part]
    return [cpu for low, high in ends for cpu in range(int(low), int(high or low) + 1)]


def named(cpus: Sequence[int]) -> str:
    """`0-3,8`, as the kernel writes it."""
    by_run = groupby(enumerate(sorted(cpus)), lambda placed: placed[1] - placed[0])
    runs = [[cpu for _, cpu in run] for _, run in by_run]
    return ",".join(f"{run[0]}-{run[-1]}" if len(run) > 1 else f"{run[0]}" for run in runs)
