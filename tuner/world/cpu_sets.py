"""Parts a machine into sets of logical CPUs, one per group, with NUMA nodes kept whole."""

import os
from collections.abc import Sequence
from pathlib import Path

from tuner.cpus import usable_cpus
from tuner.errors import UsageError
from tuner.text import plural

_SYS = Path("/sys/devices/system")

CpuSet = tuple[int, ...]
"""Numbers of logical CPUs, in order."""


def cpu_sets(groups: int, cpus_per_world: int | None, sys: Path = _SYS) -> list[CpuSet]:
    """So many disjoint sets of the logical CPUs that this process may use.

    A set lies in one NUMA node if it fits into one, else it is made of whole nodes. Threads of one
    core are in one set, where that comes out.

    Args:
        groups: How many sets.
        cpus_per_world: The size of each; None: as large as comes out even.
        sys: The folder of the kernel's devices.

    Raises:
        UsageError: The machine has no room for them; the sentence says what it has room for.
    """
    nodes = _nodes(sys)
    usable = min(usable_cpus(), sum(map(len, nodes)))
    sizes = [cpus_per_world] if cpus_per_world else range(usable // groups, 0, -1)
    for size in sizes:
        if groups * size <= usable and len(found := _parted(nodes, size)) >= groups:
            return found[:groups]
    what = plural(groups, "group")
    if cpus_per_world is None:
        raise UsageError(
            f"{what} need at least a logical CPU each, and this process may use {usable}"
        )
    # A container's quota may be less than its CPUs.
    room = min(len(_parted(nodes, cpus_per_world)), usable // cpus_per_world)
    split = f" in {plural(len(nodes), 'NUMA node')}" if len(nodes) > 1 else ""
    raise UsageError(
        f"{what} of {plural(cpus_per_world, 'logical CPU')} do not fit: this process may use "
        f"{usable}{split}, enough for {plural(room, 'group')} of that size"
    )


def named(cpus: Sequence[int]) -> str:
    """`0-3,8`, as the kernel writes a list of CPUs."""
    runs: list[list[int]] = []
    for cpu in sorted(cpus):
        if runs and cpu == runs[-1][-1] + 1:
            runs[-1].append(cpu)
        else:
            runs.append([cpu])
    return ",".join(str(run[0]) if len(run) == 1 else f"{run[0]}-{run[-1]}" for run in runs)


def _parted(nodes: Sequence[Sequence[int]], size: int) -> list[CpuSet]:
    """Every set of this size that the nodes have room for."""
    if any(len(node) >= size for node in nodes):
        return [
            tuple(sorted(node[start : start + size]))
            for node in nodes
            for start in range(0, len(node) - size + 1, size)
        ]
    found, open_nodes = [], list[int]()
    for node in nodes:
        open_nodes += node
        if len(open_nodes) >= size:
            found.append(tuple(sorted(open_nodes[:size])))
            open_nodes = []
    return found


def _nodes(sys: Path) -> list[list[int]]:
    """The logical CPUs that this process may use, by NUMA node, threads of one core together."""
    mine = os.sched_getaffinity(0)
    folders = sorted(
        (sys / "node").glob("node[0-9]*"), key=lambda each: int(each.name.removeprefix("node"))
    )
    lists = [_read_list(folder / "cpulist") for folder in folders]
    known = {cpu for cpus in lists for cpu in cpus}
    # A kernel without NUMA tells no nodes.
    lists.append(sorted(mine - known))
    nodes = [[cpu for cpu in cpus if cpu in mine] for cpus in lists]
    return [sorted(node, key=lambda cpu: (_core(sys, cpu), cpu)) for node in nodes if node]


def _core(sys: Path, cpu: int) -> int:
    """The first thread of a CPU's core."""
    return min(_read_list(sys / f"cpu/cpu{cpu}/topology/thread_siblings_list"), default=cpu)


def _read_list(file: Path) -> list[int]:
    """The CPUs of a file; none if it cannot be read."""
    try:
        return _read_list_of(file.read_text())
    except OSError:
        return []


def _read_list_of(text: str) -> list[int]:
    """`0-3,8` as numbers."""
    ends = [part.partition("-")[::2] for part in text.strip().split(",") if part]
    return [cpu for low, high in ends for cpu in range(int(low), int(high or low) + 1)]
