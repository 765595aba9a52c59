"""The launcher of programs on a cluster: a world is one run of the command on each of its hosts."""

import itertools
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Self

from tuner.errors import UsageError
from tuner.plan.config import ALL_ROLES
from tuner.plan.draft import PlanDraft
from tuner.plan.launching import Launching, RolePlace
from tuner.plan.program_spec import ProgramRequest, ProgramSpec
from tuner.plan.workload_spec import RankSpec
from tuner.trace.record.clock import HOST_VARIABLE, ClockOffset
from tuner.world.command.order import HookOrder
from tuner.world.command.program_commands import Commands
from tuner.world.command.program_launcher import CommandLauncher
from tuner.world.command.starters import Starters
from tuner.world.command.warm.warm_starting import Learnt
from tuner.world.environment import MachineState, of_all_hosts
from tuner.world.launcher import Enough
from tuner.world.rank.task import LOOPBACK, listening_on
from tuner.world.ray.cluster import connected, living_hosts
from tuner.world.ray.hosts import Hosts, interfaces_of
from tuner.world.ray.placing import place_ranks
from tuner.world.ray.ray_commands import RayCommands

_numbers = itertools.count()


class _OnHosts(Starters):
    """Nothing is started here, and nothing is warm there."""

    @property
    def how(self) -> str:
        """See `Starters`."""
        return "cold: each host of the cluster starts its own command"

    def __enter__(self) -> Self:
        return self

    def start_cold(self, request: ProgramRequest, *, alone: bool = True) -> None:
        """Each host starts its own."""

    def leave_network(self, request: ProgramRequest) -> None:
        """The network is that of the hosts."""

    def warm_up(self, request: ProgramRequest, learnt: Learnt, until_s: float) -> bool:
        """Each run starts cold."""
        return False


class RayProgramLauncher(CommandLauncher):
    """Runs a program again and again, its command once on each host of a Ray cluster.

    Each gets RANK, WORLD_SIZE, LOCAL_RANK, LOCAL_WORLD_SIZE, MASTER_ADDR and MASTER_PORT as
    torchrun sets them for one process a host, and what torchrun itself takes from the environment.

    Args:
        launching: Which cluster it is, and how many of its hosts.
        hosts: The ids of the nodes that may be used; None: all that the cluster has.
        notify: As for `CommandLauncher`.
        show: As for `CommandLauncher`.
    """

    def __init__(
        self,
        launching: Launching,
        *,
        hosts: Sequence[str] | None = None,
        notify: Callable[[str], None] = lambda sentence: None,
        show: Callable[[bytes], None] | None = None,
    ) -> None:
        super().__init__(notify, show)
        self._starters = _OnHosts(notify)
        self._launching = launching
        self._allowed = None if hosts is None else frozenset(hosts)
        self._cluster = ExitStack()
        self._hosts: Hosts | None = None
        self._addresses: list[tuple[str, str]] = []
        self._last: RayCommands | None = None

    def __enter__(self) -> Self:
        with ExitStack() as stack:
            stack.enter_context(connected(self._launching.ray_address, self._notify))
            stack.callback(self._release)
            super().__enter__()
            self._cluster = stack.pop_all()
        return self

    def __exit__(self, *ending: object) -> None:
        try:
            super().__exit__(*ending)
        finally:
            self._cluster.close()

    def subject_of(
        self, draft: PlanDraft, failure_folder: Path | None = None, enough: Enough | None = None
    ) -> ProgramSpec:
        """See `Launcher.subject_of`. What cannot be placed is reported before the first run."""
        request = draft.program
        if request is not None and len(request.commands) > 1:
            raise UsageError(
                "on a cluster one command runs on each host: --beside is for this machine alone"
            )
        self._placed()
        return super().subject_of(draft, failure_folder, enough)

    def _placed(self) -> Hosts:
        """The hosts, one for each command; placed anew where one of them was lost."""
        if self._hosts is not None and any(h.is_lost for h in self._hosts.by_node.values()):
            self._release()
        if self._hosts is None:
            place = self._place()
            there = [h for h in living_hosts() if self._allowed is None or h.node in self._allowed]
            count = place.hosts or len(there)
            commands = [RankSpec(name=f"host{n}", role=ALL_ROLES) for n in range(count)]
            each = place.model_copy(update={"hosts": count})
            self._hosts = Hosts(place_ranks(commands, [each], there)).__enter__()
            self._addresses = interfaces_of(self._hosts, self._launching.interface)
        return self._hosts

    def _place(self) -> RolePlace:
        places = self._launching.place
        if any(place.roles != (ALL_ROLES,) for place in places):
            raise UsageError(
                "place: nobody knows the roles of a program before it runs: --place '*=2' runs its "
                "command on two hosts, and without it, it runs on each"
            )
        return places[0] if places else RolePlace(roles=(ALL_ROLES,))

    def _commands(self, request: ProgramRequest, order: HookOrder) -> Commands:
        hosts = self._placed()
        address = self._addresses[0][1] if self._addresses else "127.0.0.1"
        port = int(hosts.in_order[0].call("free_port", address))
        self._last = RayCommands(
            hosts.in_order,
            next(_numbers),
            request.commands[0],
            order,
            [
                self._environment(hosts, place, address, port)
                for place in range(len(hosts.in_order))
            ],
        )
        return self._last

    def _environment(self, hosts: Hosts, place: int, address: str, port: int) -> dict[str, str]:
        """The variables of one host's command, as torchrun would set them, and for torchrun."""
        count = len(hosts.in_order)
        interface = listening_on(self._addresses[place][0]) if self._addresses else LOOPBACK
        return {
            **interface,
            HOST_VARIABLE: hosts.in_order[place].info.node,
            **dict.fromkeys(("RANK", "GROUP_RANK", "PET_NODE_RANK"), str(place)),
            **dict.fromkeys(("WORLD_SIZE", "GROUP_WORLD_SIZE", "PET_NNODES"), str(count)),
            **dict.fromkeys(("MASTER_ADDR", "PET_MASTER_ADDR"), address),
            **dict.fromkeys(("MASTER_PORT", "PET_MASTER_PORT"), str(port)),
            "LOCAL_RANK": "0",
            "LOCAL_WORLD_SIZE": "1",
        }

    def _watched(self, commands: Commands) -> Callable[[], MachineState | None]:
        assert isinstance(commands, RayCommands)
        return lambda: of_all_hosts(commands.machines)

    def _clocks(self) -> Mapping[str, ClockOffset]:
        return {} if self._last is None else self._last.clocks()

    def _release(self) -> None:
        if self._hosts is not None:
            hosts, self._hosts = self._hosts, None
            hosts.close()
