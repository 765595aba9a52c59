"""The launchers on a Ray cluster: a world is placed on its hosts, and driven from here."""

import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any, Self

from tuner.errors import UsageError
from tuner.files import own_prefix
from tuner.plan.config import ALL_ROLES
from tuner.plan.draft import PlanDraft
from tuner.plan.launching import Launching, RolePlace
from tuner.plan.program_request import ProgramRequest
from tuner.plan.workload_spec import RankSpec, WorkloadSpec
from tuner.text import listed, plural
from tuner.trace.record.clock import HOST_VARIABLE
from tuner.world.command.order import HookOrder
from tuner.world.command.program_channel import ProgramChannel
from tuner.world.command.program_commands import Commands, Starters
from tuner.world.command.program_launcher import ProgramLauncher
from tuner.world.environment import GroupFacts
from tuner.world.launcher import (
    LOOPBACK,
    MEETING,
    GroupedLauncher,
    RankTask,
    RunAsItIs,
    Together,
    WorldOrder,
    listening_on,
    rank_tasks,
)
from tuner.world.live_world import RankWorld
from tuner.world.local.local_launcher import LocalLauncher
from tuner.world.measurement import Failure, Measurement
from tuner.world.ray.cluster import connected, living_hosts
from tuner.world.ray.hosts import Hosts
from tuner.world.ray.placing import HostInfo, unreachable
from tuner.world.ray.ray_worlds import RayCommands, RayRankProcesses


class RayLauncher(Together):
    """Runs worlds on the hosts of a Ray cluster, one at a time. `hosts` are the ids of the nodes
    that may be used; None: all. `notify` gets what a person should know of where worlds run."""

    own_network = False
    """See `Launcher.own_network`: hosts meet in a network that they share."""

    def __init__(
        self, launching: Launching | None = None, hosts: Sequence[str] | None = None, *,
        notify: Callable[[str], None] = lambda sentence: None,
    ) -> None:  # fmt: skip
        self._launching = launching or Launching(launcher="ray")
        self._hosts = Hosts(self._launching, hosts, notify)
        self._describing = LocalLauncher()

    def _parts(self) -> Iterable[AbstractContextManager[Any]]:
        return self._hosts, self._describing

    def subject_of(self, draft: PlanDraft) -> WorkloadSpec:
        """See `Launcher.subject_of`. The world is placed, too, and what cannot be is reported."""
        spec = self._describing.subject_of(draft)
        problems = self._launching.mistakes(spec.roles)
        if not problems:
            self._hosts.place(spec.ranks, self._launching.place)
            count = len(self._hosts.by_node)
            problems = list(unreachable(draft.space, draft.named_baseline, count))
        if problems:
            raise UsageError.of_request(problems)
        return spec

    def describe(self, reference: str, options: Mapping[str, object]) -> WorkloadSpec:
        """See `WorkloadLauncher.describe`: on this machine."""
        return self._describing.describe(reference, options)

    def facts(self) -> GroupFacts:
        """See `tuner.world.launcher.Fingerprinted`: of the hosts that ranks are placed on."""
        hosts = self._hosts.by_node.values()
        found = {host.info.name: host.call("facts")[0] for host in hosts}
        return GroupFacts.of(f"hosts {listed(found)}", list(found.values()), pinned=False)

    def run(self, order: WorldOrder) -> Measurement | Failure:
        """See `Launcher.run`. After a HostLostError the next world is placed on what is left."""
        assert isinstance(order.subject, WorkloadSpec), "subject_of took no program"
        self._hosts.place(order.subject.ranks, self._launching.place)
        with tempfile.TemporaryDirectory(prefix=own_prefix()) as scratch:
            folder, trace = Path(scratch), None if order.trace is None else order.trace.path
            ranks = RayRankProcesses(self._hosts, folder, trace)
            return RankWorld(ranks, order, self._tasks(order, folder)).run()

    def _tasks(self, order: WorldOrder, scratch: Path) -> list[RankTask]:
        tasks, hosts = rank_tasks(order, scratch), self._hosts.in_order
        if not (interfaces := self._hosts.interfaces):
            return tasks
        address = interfaces[0][1]
        meeting = f"{MEETING}://{address}:{hosts[0].call('free_port', address)}"
        return [
            replace(
                task,
                init_method=meeting,
                environment=listening_on(interface) | {HOST_VARIABLE: host.info.node},
            )
            for task, host, (interface, _) in zip(tasks, hosts, interfaces, strict=True)
        ]


class RayGroups(GroupedLauncher):
    """Divides the hosts of a cluster among groups, once it is connected to it."""

    def __init__(self, launching: Launching, notify: Callable[[str], None]) -> None:
        super().__init__(())
        self._launching = launching
        self._notify = notify

    def _parts(self) -> Iterable[AbstractContextManager[Any]]:
        yield connected(self._launching.ray_address, self._notify)
        self.members = tuple(
            RayLauncher(self._launching, nodes, notify=self._notify)
            for nodes in host_sets(living_hosts(), self._launching.groups)
        )
        yield from self.members


def host_sets(hosts: Sequence[HostInfo], groups: int) -> list[list[str]]:
    """Equal sets of hosts, as alike as can be, by their nodes. UsageError if there are fewer hosts
    than groups."""
    size = len(hosts) // groups
    if not size:
        raise UsageError(
            f"{plural(groups, 'group')} need at least a host each, and the cluster has "
            f"{plural(len(hosts), 'host')}"
        )
    # The sort keeps hosts of one size in their order.
    ordered = sorted(hosts, key=lambda host: (-host.cpus, -host.gpus))
    return [[host.node for host in ordered[group::groups][:size]] for group in range(groups)]


class RayProgramLauncher(ProgramLauncher):
    """Runs a program again and again, its command once on each host of a Ray cluster. Each gets
    RANK, WORLD_SIZE, LOCAL_RANK, LOCAL_WORLD_SIZE, MASTER_ADDR and MASTER_PORT as torchrun sets
    them for one process a host, and what torchrun itself takes from the environment."""

    def __init__(
        self, launching: Launching, notify: Callable[[str], None],
        show: Callable[[bytes], None] | None,
    ) -> None:  # fmt: skip
        super().__init__(notify, show, isolation=False)
        self._launching = launching
        self._hosts = Hosts(launching, None, notify)

    def __enter__(self) -> Self:
        self._open.enter_context(self._hosts)
        with ExitStack() as failing:
            failing.push(self._open)
            super().__enter__()
            failing.pop_all()
        return self

    def inspect(
        self, draft: PlanDraft, failure_folder: Path | None = None, trace: Path | None = None
    ) -> Iterator[RunAsItIs]:
        """See `ProgramLauncher.inspect`. What cannot be placed is reported before the first run."""
        if draft.program is not None and len(draft.program.commands) > 1:
            raise UsageError(
                "on a cluster one command runs on each host: --beside is for this machine alone"
            )
        self._place()
        return super().inspect(draft, failure_folder, trace)

    def _starters_of(self, request: ProgramRequest) -> Starters:
        why = "each host of the cluster starts its own command"
        return Starters(request.commands, self._network, self._notify, why)

    def _place(self) -> None:
        """Have the hosts, one for each command; placed anew where one of them was lost."""
        if self._hosts.are_kept():
            return
        places = self._launching.place
        if any(place.roles != (ALL_ROLES,) for place in places):
            raise UsageError(
                "place: nobody knows the roles of a program before it runs. --place '*=2' runs its "
                "command on two hosts. Without it, it runs on each"
            )
        place = places[0] if places else RolePlace(roles=(ALL_ROLES,))
        count = place.hosts or len(self._hosts.living())
        commands = [RankSpec(name=f"host{n}", role=ALL_ROLES) for n in range(count)]
        self._hosts.place(commands, [place.model_copy(update={"hosts": count})])

    def _commands(
        self, request: ProgramRequest, order: HookOrder, channel: ProgramChannel
    ) -> Commands:
        self._place()
        hosts, interfaces = self._hosts.in_order, self._hosts.interfaces
        address = interfaces[0][1] if interfaces else "127.0.0.1"
        port = str(hosts[0].call("free_port", address))
        # As torchrun would set them, and for torchrun.
        environments = [
            {
                **(listening_on(interfaces[place][0]) if interfaces else LOOPBACK),
                HOST_VARIABLE: host.info.node,
                **dict.fromkeys(("RANK", "GROUP_RANK", "PET_NODE_RANK"), str(place)),
                **dict.fromkeys(("WORLD_SIZE", "GROUP_WORLD_SIZE", "PET_NNODES"), str(len(hosts))),
                **dict.fromkeys(("MASTER_ADDR", "PET_MASTER_ADDR"), address),
                **dict.fromkeys(("MASTER_PORT", "PET_MASTER_PORT"), port),
                "LOCAL_RANK": "0",
                "LOCAL_WORLD_SIZE": "1",
            }
            for place, host in enumerate(hosts)
        ]
        return RayCommands(hosts, request.commands[0], order, channel, environments)
