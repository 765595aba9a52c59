"""The hosts that a world is placed on: what it reserves there, and an actor on each, kept warm."""

import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack, suppress
from typing import Any, Self

import ray
from ray.exceptions import GetTimeoutError, RayActorError, RayError, RayTaskError
from ray.util.placement_group import placement_group, remove_placement_group
from ray.util.scheduling_strategies import PlacementGroupSchedulingStrategy

from tuner.errors import LauncherError, UsageError
from tuner.plan.launching import Launching, RolePlace
from tuner.plan.workload_spec import RankSpec
from tuner.text import listed
from tuner.trace.record.clock import ClockOffset, ClockSample, offset_bounds
from tuner.world.environment import Environment
from tuner.world.ray.cluster import ASK_EVERY_S, FIRST_HOST, connected, living_hosts
from tuner.world.ray.host import Host, Timed
from tuner.world.ray.placing import HostInfo, Placing, place_ranks

LOST_S = 60.0
"""A host that gives no answer for so long is lost."""
RESERVE_S = 60.0
"""Others of a cluster may hold what is asked for; it is waited for so long."""
LEAVE_S = 10.0
_THREADS = 8
"""One polls, and the others send, dump stacks and end meanwhile."""


class HostLostError(LauncherError):
    """A host of the cluster is gone, or gives no answer: no fact about a configuration."""


class HostProxy:
    """A host as the command sees it: calls of `Host` there, each with a limit of time."""

    def __init__(self, info: HostInfo, actor: Any) -> None:
        self.info = info
        self.actor = actor
        self._offsets_ns: tuple[int, int] | None = None
        self.is_lost = False

    def begin(self, method: str, *arguments: object) -> "ray.ObjectRef[Any]":
        """Call a method, and do not wait for its answer."""
        return getattr(self.actor, method).remote(*arguments)  # type: ignore[no-any-return]

    def call(self, method: str, *arguments: object) -> Any:
        """The answer of a method. HostLostError if there is none."""
        return self.answer(self.begin(method, *arguments))

    def answer(self, reference: "ray.ObjectRef[Any]") -> Any:
        """The answer to a call that was begun. LauncherError if the host cannot do it; a
        HostLostError or a ClusterLostError if that is lost."""
        until_s = time.monotonic() + LOST_S
        try:
            while time.monotonic() < until_s - ASK_EVERY_S:
                with suppress(GetTimeoutError):
                    return ray.get(reference, timeout=ASK_EVERY_S)
                FIRST_HOST.check()
            return ray.get(reference, timeout=ASK_EVERY_S)
        except GetTimeoutError:
            raise self.lost(f"gave no answer for {LOST_S:g} s") from None
        except RayTaskError as error:
            # Ray's own subclass of both hides ours.
            raise LauncherError(f"{self.info.name}: {error.cause}") from None
        except RayActorError:
            raise self.lost("ended, or its Ray process did") from None
        except RayError as error:
            raise self.lost(str(error).split("\n")[0]) from None

    def lost(self, how: str) -> HostLostError:
        """The error that says how this host was lost."""
        self.is_lost = True
        return HostLostError(
            f"the host {self.info} {how}; the world there is lost, and says nothing of its "
            "configuration"
        )

    def note_clock(self, sent_ns: int, timed: Timed, *, anew: bool = False) -> None:
        """Narrow what its clock may be, by a call that was sent then and has been answered now."""
        sample = ClockSample(sent_ns, timed.begun_ns, timed.ended_ns, time.time_ns())
        low, high = offset_bounds([sample])
        if self._offsets_ns is not None and not anew:
            both = max(low, self._offsets_ns[0]), min(high, self._offsets_ns[1])
            # Where the clock has drifted away, the last call alone counts.
            low, high = both if both[0] <= both[1] else (low, high)
        self._offsets_ns = low, high

    @property
    def clock(self) -> ClockOffset | None:
        """Its clock against that of the command; None before it was measured."""
        if self._offsets_ns is None:
            return None
        low, high = self._offsets_ns
        if low <= 0 <= high:
            # The clocks of one machine are one: what allows no difference is given none.
            return ClockOffset(0, max(-low, high))
        return ClockOffset((low + high) // 2, (high - low + 1) // 2)

    def here_ns(self, there_ns: int) -> int:
        """A time of the host's clock, by the clock of the command."""
        return there_ns - (self.clock.offset_ns if self.clock is not None else 0)


class Hosts:
    """The hosts of one launcher: what the ranks of its last world reserve, kept for the next, and
    an actor on each. `allowed` are the ids of the nodes that may be used; None: all."""

    def __init__(
        self, launching: Launching, allowed: Sequence[str] | None, notify: Callable[[str], None]
    ) -> None:
        self._launching = launching
        self._allowed = allowed
        self._notify = notify
        self._open = ExitStack()
        self._ranks: Sequence[RankSpec] = ()
        self._group: Any = None
        self.placing = Placing(hosts=(), gpus=(), reserved={})
        self.by_node: dict[str, HostProxy] = {}
        self.interfaces: list[tuple[str, str]] = []
        """Of each rank, the interface that leads to the other hosts, and the address on it; none
        where one host has all ranks."""

    def __enter__(self) -> Self:
        self._open.enter_context(connected(self._launching.ray_address, self._notify))
        self._open.callback(self._release)
        return self

    def __exit__(self, *ending: object) -> None:
        self._open.close()

    def living(self) -> list[HostInfo]:
        """The hosts that worlds may be placed on, this one first."""
        if not ray.is_initialized():
            raise LauncherError("the launcher is used outside its with block")
        allowed = self._allowed
        return [host for host in living_hosts() if allowed is None or host.node in allowed]

    def are_kept(self) -> bool:
        """Whether those of the last world are there, and none of them was lost."""
        if any(host.is_lost for host in self.by_node.values()):
            self._release()
        return bool(self.by_node)

    def place(self, ranks: Sequence[RankSpec], places: Sequence[RolePlace]) -> None:
        """Have the hosts of these ranks: those of the last world, if they are the same. UsageError
        if they cannot be placed, what they reserve is not free, or the hosts differ."""
        if self.are_kept() and self._ranks == ranks:
            return
        placing = place_ranks(ranks, places, self.living())
        try:
            if self.placing.reserved != placing.reserved:
                self._release()
                self._reserve(placing)
                self._start(placing)
            self.placing = placing
            self.interfaces = self._find_interfaces() if placing.is_spread else []
        except BaseException:
            self._release()
            raise
        self._ranks = ranks

    @property
    def in_order(self) -> list[HostProxy]:
        """The host of each rank."""
        return [self.by_node[info.node] for info in self.placing.hosts]

    def _find_interfaces(self) -> list[tuple[str, str]]:
        found = {}
        for node, host in self.by_node.items():
            others = [each.info.address for each in self.by_node.values() if each is not host]
            found[node] = host.call("interface_to", others, self._launching.interface)
        return [found[info.node] for info in self.placing.hosts]

    def _reserve(self, placing: Placing) -> None:
        self._group = placement_group(
            # A bundle that is empty is none.
            [{"CPU": e.cpus, "GPU": e.gpus, "memory": 1} for e in placing.reserved.values()],
            bundle_label_selector=[{"ray.io/node-id": node} for node in placing.reserved],
        )
        try:
            ray.get(self._group.ready(), timeout=RESERVE_S)
        except GetTimeoutError:
            raise UsageError(
                "the world cannot be placed: what it reserves is in use by others of the cluster, "
                f"or was not free within {RESERVE_S:g} s. `ray status` says who has what"
            ) from None
        except RayError as error:
            raise LauncherError(f"Ray cannot reserve the hosts: {error}") from None

    def _start(self, placing: Placing) -> None:
        kind = ray.remote(Host)
        infos = {info.node: info for info in placing.hosts}
        for index, (node, reserved) in enumerate(placing.reserved.items()):
            there = PlacementGroupSchedulingStrategy(
                self._group, placement_group_bundle_index=index
            )
            started = kind.options(
                num_cpus=reserved.cpus, num_gpus=reserved.gpus, max_concurrency=_THREADS,
                scheduling_strategy=there,
            )  # fmt: skip
            self.by_node[node] = HostProxy(infos[node], started.remote())
        asked = [(host, host.begin("facts")) for host in self.by_node.values()]
        found = {host.info.name: host.answer(reference) for host, reference in asked}
        if problems := _differences(found):
            raise UsageError.about("the hosts differ", problems)

    def _release(self) -> None:
        """End the hosts' actors, and give back what was reserved."""
        leaving = [host.begin("leave") for host in self.by_node.values() if not host.is_lost]
        if leaving:
            ray.wait(leaving, num_returns=len(leaving), timeout=LEAVE_S)
        for host in self.by_node.values():
            with suppress(RayError):
                ray.kill(host.actor)
        # Without the first host it would wait until Ray ends the command.
        if self._group is not None and FIRST_HOST.answers():
            with suppress(RayError):
                remove_placement_group(self._group)
        self.placing = Placing(hosts=(), gpus=(), reserved={})
        self.by_node, self._group, self._ranks = {}, None, ()


def _differences(found: Mapping[str, tuple[Environment, str]]) -> list[str]:
    versions = {
        "torch": {name: environment.torch for name, (environment, _) in found.items()},
        "rpc-tuner": {name: version for name, (_, version) in found.items()},
    }
    return [
        f"{label} is {listed([f'{version} on {name}' for name, version in hosts.items()])}; "
        "install one version everywhere"
        for label, hosts in versions.items()
        if len({*hosts.values()}) > 1
    ]
