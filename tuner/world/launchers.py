"""Which launcher runs what."""

import os
from collections.abc import Callable, Sequence
from importlib.util import find_spec

from tuner.errors import UsageError
from tuner.plan.draft import PlanDraft
from tuner.world.command.launcher import CommandLauncher
from tuner.world.command.order import refuse_two_orders
from tuner.world.cpu_sets import cpu_sets
from tuner.world.groups import GroupedLauncher
from tuner.world.launcher import Launcher
from tuner.world.local.launcher import LocalLauncher


def workload_launcher(*, isolation: bool = True) -> LocalLauncher:
    """What runs workloads by default: processes on this machine."""
    return LocalLauncher(isolation=isolation)


def launcher_for(
    draft: PlanDraft, *, notify: Callable[[str], None], show: Callable[[bytes], None] | None
) -> Launcher:
    """What runs the worlds of a plan by default.

    Args:
        draft: The plan.
        notify: Gets what a person should know of how a program is run, a sentence each.
        show: Takes what a program prints, as it comes; None: it is not shown.

    Raises:
        UsageError: The launcher that it names is not installed, or the machine has no room for its
            groups; or the command was started by another of ours, which the ranks would obey, too.
    """
    refuse_two_orders(os.environ)
    if draft.launching.launcher == "ray":
        return ray_launcher(draft, notify=notify, show=show)
    if draft.launching.is_grouped:
        return grouped_launcher(draft)
    isolation = draft.launching.isolation
    if draft.program is None:
        return workload_launcher(isolation=isolation)
    return CommandLauncher(notify, show, isolation=isolation)


def grouped_launcher(draft: PlanDraft) -> GroupedLauncher:
    """What runs worlds on sets of this machine's CPUs, a set per group.

    Args:
        draft: The plan.

    Raises:
        UsageError: The sets do not fit, or the plan has a program.
    """
    if draft.program is not None:
        # Two runs of a program may want one port, or write one file.
        raise UsageError(
            "--groups and --cpus-per-world are for workloads; a program has the whole machine"
        )
    launching = draft.launching
    sets = cpu_sets(launching.groups, launching.cpus_per_world)
    return GroupedLauncher([LocalLauncher(cpus, isolation=launching.isolation) for cpus in sets])


def ray_launcher(
    draft: PlanDraft,
    *,
    notify: Callable[[str], None],
    show: Callable[[bytes], None] | None = None,
    hosts: Sequence[str] | None = None,
) -> Launcher:
    """What runs the worlds of a plan on the hosts of a Ray cluster.

    Args:
        draft: The plan.
        notify: As for `launcher_for`.
        show: As for `launcher_for`.
        hosts: The ids of the nodes that may be used; None: all that the cluster has.

    Raises:
        UsageError: Ray is not installed.
    """
    if find_spec("ray") is None:
        raise UsageError(
            "the launcher ray needs Ray, which is not installed: pip install 'rpc-tuner[ray]'"
        )
    # Late: a search that does not use Ray must not wait for its import.
    if draft.launching.groups > 1:
        if draft.program is not None:
            raise UsageError("--groups is for workloads; a program has the whole cluster")
        from tuner.world.ray.groups import RayGroups

        return RayGroups(draft.launching, notify)
    from tuner.world.ray.launcher import RayLauncher
    from tuner.world.ray.program_launcher import RayProgramLauncher

    if draft.program is not None:
        return RayProgramLauncher(draft.launching, hosts=hosts, notify=notify, show=show)
    return RayLauncher(draft.launching, hosts=hosts, notify=notify)
