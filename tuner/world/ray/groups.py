"""Groups of hosts of a Ray cluster: equal sets of them, with a launcher for each."""

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from typing import Self

from tuner.errors import UsageError
from tuner.plan.launching import Launching
from tuner.text import plural
from tuner.world.groups import GroupedLauncher
from tuner.world.ray.cluster import connected, living_hosts
from tuner.world.ray.launcher import RayLauncher
from tuner.world.ray.placing import HostInfo


class RayGroups(GroupedLauncher):
    """Divides the hosts of a cluster among groups, once it is connected to it.

    Args:
        launching: Which cluster it is, how many groups there are, and where the roles go in each.
        notify: Gets what a person should know of where worlds run, a sentence each.
    """

    def __init__(self, launching: Launching, notify: Callable[[str], None]) -> None:
        super().__init__(())
        self._launching = launching
        self._notify = notify

    def __enter__(self) -> Self:
        with ExitStack() as entering:
            entering.enter_context(connected(self._launching.ray_address, self._notify))
            self.members = tuple(
                entering.enter_context(
                    RayLauncher(
                        self._launching, hosts=[each.node for each in part], notify=self._notify
                    )
                )
                for part in host_sets(living_hosts(), self._launching.groups)
            )
            self._open = entering.pop_all()
        return self


def host_sets(hosts: Sequence[HostInfo], groups: int) -> list[list[HostInfo]]:
    """Equal sets of hosts, as alike as can be; what is left over is not used.

    UsageError if there are fewer hosts than groups.
    """
    size = len(hosts) // groups
    if not size:
        raise UsageError(
            f"{plural(groups, 'group')} need at least a host each, and the cluster has "
            f"{plural(len(hosts), 'host')}"
        )
    # The sort keeps hosts of one size in their order.
    ordered = sorted(hosts, key=lambda each: (-each.cpus, -each.gpus))
    return [ordered[group::groups][:size] for group in range(groups)]
