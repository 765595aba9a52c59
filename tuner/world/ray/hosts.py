"""The hosts that a world is placed on: what it reserves there, and an actor on each, kept warm."""

import contextlib
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import ray
from ray.exceptions import GetTimeoutError, RayActorError, RayError, RayTaskError
from ray.util.placement_group import placement_group, remove_placement_group
from ray.util.scheduling_strategies import PlacementGroupSchedulingStrategy

from tuner.errors import LauncherError, UsageError
from tuner.text import listed
from tuner.trace.record.clock import ClockSample, offset_bounds
from tuner.world.environment import Environment
from tuner.world.ray.cluster import ASK_EVERY_S, FIRST_HOST
from tuner.world.ray.host import Host, HostFacts, Started
from tuner.world.ray.placing import HostInfo, Placing

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
        self._actor = actor
        self._low_ns: int | None = None
        self._high_ns: int | None = None
        self.is_lost = False

    def kill(self) -> None:
        """End the actor."""
        with contextlib.suppress(RayError):
            ray.kill(self._actor)

    def begin(self, method: str, *arguments: object) -> "ray.ObjectRef[Any]":
        """Call a method, and do not wait for its answer."""
        return getattr(self._actor, method).remote(*arguments)  # type: ignore[no-any-return]

    def call(self, method: str, *arguments: object) -> Any:
        """The answer of a method. HostLostError if there is none."""
        return self.answer(self.begin(method, *arguments))

    def answer(self, reference: "ray.ObjectRef[Any]") -> Any:
        """The answer to a call that was begun.

        Raises:
            HostLostError: The host is gone, or gives no answer.
            LauncherError: The host cannot do it; or a ClusterLostError.
        """
        until_s = time.monotonic() + LOST_S
        try:
            while time.monotonic() < until_s - ASK_EVERY_S:
                with contextlib.suppress(GetTimeoutError):
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

    def start(self, *arguments: object) -> tuple["ray.ObjectRef[Any]", int]:
        """Begin `Host.start`; its reference, and when it was sent, for `started`."""
        return self.begin("start", *arguments), time.time_ns()

    def started(self, pending: tuple["ray.ObjectRef[Any]", int]) -> Mapping[int, int]:
        """The process ids of the ranks that were started, by rank."""
        reference, sent_ns = pending
        found: Started = self.answer(reference)
        sample = ClockSample(sent_ns, found.begun_ns, found.ended_ns, time.time_ns())
        # The latest alone: clocks drift.
        self._low_ns, self._high_ns = offset_bounds([sample])
        return found.pids

    def here_ns(self, there_ns: int) -> int:
        """A time of the host's clock, by the clock of the command."""
        if self._low_ns is None or self._high_ns is None:
            return there_ns
        # The clocks of one machine are one: what allows no difference is given none.
        if self._low_ns <= 0 <= self._high_ns:
            return there_ns
        return there_ns - (self._low_ns + self._high_ns) // 2


class Hosts:
    """What a placing reserves, and the host of each of its nodes; a context manager."""

    def __init__(self, placing: Placing) -> None:
        self.placing = placing
        self._group: Any = None
        self.by_node: dict[str, HostProxy] = {}

    def __enter__(self) -> "Hosts":
        try:
            self._reserve()
            self._start()
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(self, *ending: object) -> None:
        self.close()

    def close(self) -> None:
        """End the hosts' actors, and give back what was reserved."""
        leaving = [host.begin("leave") for host in self.by_node.values() if not host.is_lost]
        if leaving:
            ray.wait(leaving, num_returns=len(leaving), timeout=LEAVE_S)
        for host in self.by_node.values():
            host.kill()
        self.by_node = {}
        # Without the first host it would wait until Ray ends the command.
        if self._group is not None and FIRST_HOST.answers():
            with contextlib.suppress(RayError):
                remove_placement_group(self._group)
        self._group = None

    @property
    def in_order(self) -> list[HostProxy]:
        """The host of each rank."""
        return [self.by_node[info.node] for info in self.placing.hosts]

    def _reserve(self) -> None:
        reserved = self.placing.reserved
        self._group = placement_group(
            # A bundle that is empty is none.
            [{"CPU": each.cpus, "GPU": each.gpus, "memory": 1} for each in reserved.values()],
            bundle_label_selector=[{"ray.io/node-id": node} for node in reserved],
        )
        try:
            ray.get(self._group.ready(), timeout=RESERVE_S)
        except GetTimeoutError:
            raise UsageError(
                "the world cannot be placed: what it reserves is in use by others of the cluster, "
                f"or was not free within {RESERVE_S:g} s; `ray status` says who has what"
            ) from None
        except RayError as error:
            raise LauncherError(f"Ray cannot reserve the hosts: {error}") from None

    def _start(self) -> None:
        kind = ray.remote(Host)
        infos = {info.node: info for info in self.placing.hosts}
        for index, (node, reserved) in enumerate(self.placing.reserved.items()):
            strategy = PlacementGroupSchedulingStrategy(
                self._group, placement_group_bundle_index=index
            )
            actor = kind.options(
                num_cpus=reserved.cpus,
                num_gpus=reserved.gpus,
                max_concurrency=_THREADS,
                scheduling_strategy=strategy,
            ).remote()
            self.by_node[node] = HostProxy(infos[node], actor)
        asked = {host: host.begin("facts") for host in self.by_node.values()}
        found = {host.info: host.answer(reference) for host, reference in asked.items()}
        if problems := list(_differences(found)):
            raise UsageError.about("the hosts differ", problems)


def _differences(found: Mapping[HostInfo, HostFacts]) -> Iterator[str]:
    """What differs between hosts that makes one world of them no measurement."""
    compared: Sequence[tuple[str, Any]] = (
        ("torch", lambda facts: facts.environment.torch),
        ("rpc-tuner", lambda facts: facts.tuner),
    )
    for label, read in compared:
        versions = {info.name: read(facts) for info, facts in found.items()}
        if len(set(versions.values())) > 1:
            each = [f"{version} on {name}" for name, version in versions.items()]
            yield f"{label} is {listed(each)}; install one version everywhere"


def environments_of(hosts: Hosts) -> dict[str, Environment]:
    """The machine and the software of each host, by its name."""
    return {host.info.name: host.call("facts").environment for host in hosts.by_node.values()}


def interfaces_of(hosts: Hosts, named: str | None) -> list[tuple[str, str]]:
    """The interface of each rank that leads to the other hosts, and the address on it.

    Args:
        hosts: Where the ranks are.
        named: The interface to use whatever the route.

    Returns:
        A pair for each rank; nothing where one host has them all.

    Raises:
        LauncherError: A host has no such interface, or no route.
    """
    if not hosts.placing.is_spread:
        return []
    addresses = {node: host.info.address for node, host in hosts.by_node.items()}
    found = {}
    for node, host in hosts.by_node.items():
        others = [address for other, address in addresses.items() if other != node]
        found[node] = host.call("interface_to", others, named)
    return [found[info.node] for info in hosts.placing.hosts]
