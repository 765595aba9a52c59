"""Which launcher runs what, and the logical CPUs of each group of a machine."""

import os
from collections.abc import Callable, Sequence
from importlib.util import find_spec
from pathlib import Path

from tuner.cpus import SYS, CpuSet, numa_nodes, usable_cpus
from tuner.errors import UsageError
from tuner.plan.draft import PlanDraft
from tuner.text import plural
from tuner.world.command.order import refuse_two_orders
from tuner.world.command.program_launcher import ProgramLauncher
from tuner.world.launcher import GroupedLauncher, Launcher
from tuner.world.local.local_launcher import LocalLauncher


def launcher_for(
    draft: PlanDraft, *, notify: Callable[[str], None], show: Callable[[bytes], None] | None
) -> Launcher:
    """What runs the worlds of a plan by default. `notify` gets what a person should know of how a
    program is run, a sentence each; `show` what it prints, as it comes. UsageError if the launcher
    that is named is not installed, the machine has no room for the groups, or another command of
    ours has started this one."""
    refuse_two_orders(os.environ)
    launching, isolation = draft.launching, draft.launching.isolation
    is_program = draft.program is not None
    if launching.launcher == "ray":
        if find_spec("ray") is None:
            raise UsageError(
                "the launcher ray needs Ray, which is not installed: pip install 'rpc-tuner[ray]'"
            )
        if is_program and launching.groups > 1:
            raise UsageError("--groups is for workloads; a program has the whole cluster")
        # Late: a search that does not use Ray must not wait for its import.
        from tuner.world.ray.ray_launcher import RayGroups, RayLauncher, RayProgramLauncher

        if is_program:
            return RayProgramLauncher(launching, notify=notify, show=show)
        return (RayGroups if launching.groups > 1 else RayLauncher)(launching, notify=notify)
    if is_program and launching.is_grouped:
        # Two runs of a program may want one port, or write one file.
        raise UsageError(
            "--groups and --cpus-per-world are for workloads; a program has the whole machine"
        )
    if is_program:
        return ProgramLauncher(notify, show, isolation=isolation)
    if not launching.is_grouped:
        return LocalLauncher(isolation=isolation)
    sets = cpu_sets(launching.groups, launching.cpus_per_world)
    return GroupedLauncher([LocalLauncher(cpus, isolation=isolation) for cpus in sets])


def cpu_sets(groups: int, cpus_per_world: int | None, sys: Path = SYS) -> list[CpuSet]:
    """So many disjoint sets of the logical CPUs that this process may use, all of one size. A set
    lies in one NUMA node if it fits into one, else it is made of whole nodes; threads of one core
    are in one set, where that comes out. UsageError if there is no room for them."""
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
    fits_in_one = any(len(node) >= size for node in nodes)
    found, left = [], list[int]()
    for node in nodes:
        left = [*node] if fits_in_one else [*left, *node]
        while len(left) >= size:
            found.append(tuple(sorted(left[:size])))
            left = left[size:] if fits_in_one else []
    return found
