"""The logical CPUs that this process may use: how many, which, and how to keep it to some of them.

Standard library only: it runs in the processes of programs, too.
"""

import math
import os
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import suppress
from functools import partial
from itertools import chain, groupby
from pathlib import Path, PurePosixPath

SYS = Path("/sys/devices/system")
_BEFORE_BINDING = "RPC_TUNER_CPUS"
"""The environment variable that tells what starts in a bound process what that could use before."""
CpuSet = tuple[int, ...]
"""Numbers of logical CPUs, in order."""


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


def share_of_rank(index: int, ranks: int, sys: Path = SYS) -> CpuSet:
    """The logical CPUs of one rank, where those of a host are parted equally among its ranks.

    Ranks are dealt to NUMA nodes in their order, or nodes to ranks where there are fewer ranks; the
    threads of a core stay together where there are enough cores. The shares are disjoint and
    equal, so some logical CPUs may be left, but not more than half of them: nodes and cores are
    parted rather than that. More ranks than logical CPUs take turns. The rank has place `index`,
    from 0, among the `ranks` of its host.
    """
    nodes = _usable_nodes(sys)
    cores = [[[*core] for _, core in groupby(node, partial(_core, sys))] for node in nodes]
    cpus = [[[cpu] for cpu in node] for node in nodes]
    count = sum(map(len, nodes))
    ranks = min(ranks, count)
    # Whole nodes, or else whole cores, or else logical CPUs: the first that uses most of them.
    # The lines to paste do the same (`tuner.recommended.python_module`).
    for pools in [nodes], cores, cpus, [[*chain(*cores)]], [[*chain(*cpus)]]:
        homes = [rank * len(pools) // ranks for rank in range(ranks)]
        each = min(len(pools[home]) // homes.count(home) for home in homes)
        starts = [each * (rank - homes.index(home)) for rank, home in enumerate(homes)]
        places = zip(homes, starts, strict=True)
        shares = [[*chain(*pools[home][start : start + each])] for home, start in places]
        size = min(map(len, shares))
        if 2 * size * ranks >= count:
            break
    return tuple(sorted(shares[index % ranks][:size]))


def _usable_nodes(sys: Path) -> list[list[int]]:
    """The NUMA nodes, with no more logical CPUs than the container's quota is enough for."""
    nodes = numa_nodes(sys)
    count = sum(map(len, nodes))
    quota, seen, found = min(usable_cpus(), count), 0, []
    for node in nodes:
        # An equal part of each: as many as bring the sum to the quota's part of those seen.
        before, seen = seen * quota // count, seen + len(node)
        found.append(node[: seen * quota // count - before])
    return [node for node in found if node]


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
    mine = os.sched_getaffinity(0)
    folders = sorted((sys / "node").glob("node[0-9]*"), key=lambda each: int(each.name[4:]))
    lists = [_read_list(folder / "cpulist") for folder in folders]
    # A kernel without NUMA tells no nodes.
    lists.append(sorted(mine.difference(*lists)))
    nodes = [[cpu for cpu in cpus if cpu in mine] for cpus in lists]
    return [sorted(node, key=lambda cpu: (_core(sys, cpu), cpu)) for node in nodes if node]


def topology(sys: Path = SYS) -> tuple[int, int]:
    """How many NUMA nodes this process may use, and how many threads of one core at most."""
    nodes = numa_nodes(sys)
    cores = Counter(_core(sys, cpu) for node in nodes for cpu in node)
    return len(nodes), max(cores.values())


def _core(sys: Path, cpu: int) -> int:
    """The first thread of a CPU's core."""
    return min(_read_list(sys / f"cpu/cpu{cpu}/topology/thread_siblings_list"), default=cpu)


def _read_list(file: Path) -> list[int]:
    with suppress(OSError):
        return _read_list_of(file.read_text())
    return []


def _read_list_of(text: str) -> list[int]:
    """`0-3,8` as numbers."""
    ends = [part.partition("-")[::2] for part in text.strip().split(",") if part]
    return [cpu for low, high in ends for cpu in range(int(low), int(high or low) + 1)]


def named(cpus: Sequence[int]) -> str:
    """`0-3,8`, as the kernel writes it."""
    by_run = groupby(enumerate(sorted(cpus)), lambda placed: placed[1] - placed[0])
    runs = [[cpu for _, cpu in run] for _, run in by_run]
    return ",".join(f"{run[0]}-{run[-1]}" if len(run) > 1 else f"{run[0]}" for run in runs)
