"""Parts a machine into sets of logical CPUs, one per group, with NUMA nodes kept whole."""

from collections.abc import Sequence
from pathlib import Path

from tuner.cpus import SYS, CpuSet, numa_nodes, usable_cpus
from tuner.errors import UsageError
from tuner.text import plural


def cpu_sets(groups: int, cpus_per_world: int | None, sys: Path = SYS) -> list[CpuSet]:
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
    nodes = numa_nodes(sys)
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
