"""The Ray launcher: a world is placed on the hosts of a cluster, and driven from here."""

import itertools
import shutil
import tempfile
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple, Self

from tuner.errors import LauncherError, UsageError
from tuner.plan.draft import PlanDraft
from tuner.plan.launching import Launching
from tuner.plan.workload_spec import RankSpec, WorkloadSpec
from tuner.scratch import own_prefix
from tuner.text import listed, plural
from tuner.trace.record.clock import HOST_VARIABLE
from tuner.world.environment import Environment, GroupFacts, MachineState, of_all_hosts
from tuner.world.launcher import Enough, GroupedLauncher, WorldOrder
from tuner.world.live_world import LiveWorld
from tuner.world.local.local_launcher import LocalLauncher
from tuner.world.measurement import Failure, Measurement
from tuner.world.rank.task import MEETING, RankTask, listening_on, rank_tasks
from tuner.world.ray.cluster import connected, living_hosts
from tuner.world.ray.hosts import HostLostError, Hosts, environments_of, interfaces_of
from tuner.world.ray.placing import HostInfo, Placing, place_ranks, unreachable
from tuner.world.ray.ray_rank_processes import RayRankProcesses

# Worlds of several launchers of one command may be on one host.
_numbers = itertools.count()


class _Placed(NamedTuple):
    """Where the ranks of the last world were."""

    ranks: tuple[RankSpec, ...]
    hosts: Hosts
    interfaces: list[tuple[str, str]]
    """The interface of each rank and the address on it; none where one host has them all."""


class RayLauncher:
    """Runs worlds on the hosts of a Ray cluster, one at a time.

    Args:
        launching: Which cluster it is, and where the roles go.
        hosts: The ids of the nodes that may be used; None: all that the cluster has.
        notify: Gets what a person should know of where worlds run, a sentence each.
    """

    def __init__(
        self,
        launching: Launching | None = None,
        *,
        hosts: Sequence[str] | None = None,
        notify: Callable[[str], None] = lambda sentence: None,
    ) -> None:
        self._launching = launching or Launching(launcher="ray")
        self._allowed = None if hosts is None else frozenset(hosts)
        self._notify = notify
        self._open = ExitStack()
        self._describing = LocalLauncher()
        self._scratch: Path | None = None
        self._placed: _Placed | None = None

    @property
    def own_network(self) -> bool:
        """See `Launcher.own_network`: hosts meet in a network that they share."""
        return False

    def __enter__(self) -> Self:
        try:
            self._open.enter_context(connected(self._launching.ray_address, self._notify))
            self._open.enter_context(self._describing)
            self._scratch = Path(tempfile.mkdtemp(prefix=own_prefix()))
            self._open.callback(shutil.rmtree, self._scratch, ignore_errors=True)
            self._open.callback(self._release)
        except BaseException:
            self._open.close()
            raise
        return self

    def __exit__(self, *ending: object) -> None:
        self._open.close()
        self._scratch = None

    def subject_of(
        self, draft: PlanDraft, failure_folder: Path | None = None, enough: Enough | None = None
    ) -> WorkloadSpec:
        """See `Launcher.subject_of`. The world is placed, too, and what cannot be is reported."""
        spec = self._describing.subject_of(draft, failure_folder)
        if problems := self._launching.mistakes(spec.roles):
            raise UsageError.of_request(problems)
        hosts = self._hosts_for(spec.ranks)
        count = len(hosts.by_node)
        if hosts.placing.is_spread and (
            problems := list(unreachable(draft.space, draft.named_baseline, count))
        ):
            raise UsageError.of_request(problems)
        return spec

    def describe(self, reference: str, options: Mapping[str, object]) -> WorkloadSpec:
        """See `WorkloadLauncher.describe`: on this machine."""
        return self._describing.describe(reference, options)

    def hosts(self) -> list[HostInfo]:
        """The hosts that worlds may be placed on, this one first."""
        if self._scratch is None:
            raise LauncherError("the launcher is used outside its with block")
        allowed = self._allowed
        return [each for each in living_hosts() if allowed is None or each.node in allowed]

    def place(self, spec: WorkloadSpec) -> Placing:
        """Where the ranks of a workload go, which is reserved for them.

        Raises:
            UsageError: They cannot be placed.
        """
        return self._hosts_for(spec.ranks).placing

    def environments(self, spec: WorkloadSpec) -> dict[str, Environment]:
        """The machine and the software of each host that a workload's ranks go to, by name."""
        return environments_of(self._hosts_for(spec.ranks))

    def facts(self) -> GroupFacts:
        """See `tuner.world.launcher.Fingerprinted`: of the hosts that ranks are placed on."""
        assert self._placed is not None, "subject_of has placed them"
        found = environments_of(self._placed.hosts)
        environments = list(found.values())
        return GroupFacts(
            name=f"hosts {listed(found)}",
            torch=_all(each.torch for each in environments),
            cpu_model=_all(each.cpu_model for each in environments),
            cpu_count=sum(each.cpu_count for each in environments),
            memory_gb=round(sum(each.memory_gb for each in environments), 1),
            kernel=_all(each.kernel for each in environments),
            pinned=False,
        )

    def run(self, order: WorldOrder) -> Measurement | Failure:
        """See `Launcher.run`. A HostLostError is a LauncherError of which a next world may be free:
        that one is placed anew, on the hosts that are left."""
        spec = order.subject
        assert isinstance(spec, WorkloadSpec), "subject_of took no program"
        hosts = self._hosts_for(spec.ranks)
        try:
            return self._run(order, hosts)
        except HostLostError:
            self._release()
            raise

    def _run(self, order: WorldOrder, hosts: Hosts) -> Measurement | Failure:
        assert self._scratch is not None, "hosts are there while the launcher is open"
        scratch = Path(tempfile.mkdtemp(dir=self._scratch, prefix="world-"))
        started = time.monotonic()
        ranks = RayRankProcesses(hosts, next(_numbers), scratch)
        machines: list[MachineState] = []
        try:
            ranks.start(self._tasks(order, scratch, hosts), Path.cwd())
            outcome = LiveWorld(ranks, order, started).run()
            if order.trace is not None and isinstance(outcome, Measurement):
                ranks.fetch_trace(order.trace.path)
        finally:
            machines += ranks.machines()
            shutil.rmtree(scratch, ignore_errors=True)
        return outcome.model_copy(update={"machine": of_all_hosts(machines)})

    def _tasks(self, order: WorldOrder, scratch: Path, hosts: Hosts) -> list[RankTask]:
        tasks = list(rank_tasks(order, scratch))
        if not hosts.placing.is_spread:
            return tasks
        assert self._placed is not None, "these hosts are those that are placed"
        interfaces = self._placed.interfaces
        address = interfaces[0][1]
        port = hosts.in_order[0].call("free_port", address)
        return [
            replace(
                task,
                init_method=f"{MEETING}://{address}:{port}",
                environment={
                    **listening_on(interface),
                    HOST_VARIABLE: hosts.placing.hosts[task.rank].node,
                },
            )
            for task, (interface, _) in zip(tasks, interfaces, strict=True)
        ]

    def _hosts_for(self, ranks: tuple[RankSpec, ...]) -> Hosts:
        """The hosts of these ranks; those of the last world, if they are the same."""
        placed = self._placed
        if placed is not None and placed.ranks == ranks:
            return placed.hosts
        placing = place_ranks(ranks, self._launching.place, self.hosts())
        if placed is None or placed.hosts.placing.reserved != placing.reserved:
            self._release()
            hosts = Hosts(placing).__enter__()
        else:
            hosts = placed.hosts
            hosts.placing = placing
        self._placed = _Placed(ranks, hosts, [])
        try:
            self._placed = _Placed(ranks, hosts, interfaces_of(hosts, self._launching.interface))
        except BaseException:
            self._release()
            raise
        return hosts

    def _release(self) -> None:
        if self._placed is not None:
            placed, self._placed = self._placed, None
            placed.hosts.close()


def _all(values: Iterable[str]) -> str:
    """What hosts have of something, each once."""
    return " and ".join(sorted(set(values)))


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
