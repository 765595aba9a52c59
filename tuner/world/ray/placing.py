"""Which rank runs on which host of a cluster, and what can carry calls between hosts."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence, Set
from dataclasses import dataclass
from typing import NamedTuple

from tuner.errors import UsageError
from tuner.plan.config import ALL_ROLES, Config
from tuner.plan.knobs import KNOBS
from tuner.plan.launching import RolePlace
from tuner.plan.space import Space
from tuner.plan.workload_spec import RankSpec
from tuner.text import plural

WITHIN_A_HOST = {
    "transports": {"shm": "shared memory"},
    "channels": {
        "cma": "another process's memory",
        "cuda_ipc": "the memory of another process's GPU",
    },
}
"""What works only between processes of one host, and through what."""


@dataclass(frozen=True, kw_only=True)
class HostInfo:
    """A host of a cluster, and what it has in all."""

    node: str
    """Its id in the cluster."""
    name: str
    address: str
    cpus: int
    gpus: int

    def fits(self, place: RolePlace, ranks: int) -> bool:
        """Whether so many ranks of a place fit here."""
        return self.cpus >= place.cpus * ranks and self.gpus >= place.gpus * ranks

    def __str__(self) -> str:
        gpus = f", {plural(self.gpus, 'GPU')}" if self.gpus else ""
        # Hosts of one name have their addresses in their names.
        where = self.name if self.address in self.name else f"{self.name} at {self.address}"
        return f"{where} ({plural(self.cpus, 'CPU')}{gpus})"


class Reserved(NamedTuple):
    """What the ranks of one host reserve there."""

    cpus: int
    gpus: int


@dataclass(frozen=True, kw_only=True)
class Placing:
    """The host of each rank."""

    hosts: tuple[HostInfo, ...]
    """By rank."""
    gpus: tuple[int, ...]
    """How many GPUs each rank has, by rank."""
    reserved: Mapping[str, Reserved]
    """By node, for every host that has a rank, in the order of their first ranks."""

    @property
    def is_spread(self) -> bool:
        """Whether the ranks are on more than one host."""
        return len(self.reserved) > 1


def place_ranks(
    ranks: Sequence[RankSpec], places: Sequence[RolePlace], hosts: Sequence[HostInfo]
) -> Placing:
    """The host of each rank; `hosts` are in order of preference. Roles of one place share its
    hosts, and no role of another place is there. Roles without a place go anywhere: each rank to
    the host that has the fewest. UsageError if it cannot be."""
    placer = _Placer(ranks, hosts)
    # What needs the most chooses first; what is spread takes what is left.
    fixed = [each for each in places if each.hosts is not None]
    for place in sorted(fixed, key=lambda each: (-each.gpus, -each.cpus)):
        placer.choose(place, place.hosts or 1)
    placer.spread([each for each in places if each.hosts is None])
    placer.put_others({role for place in places for role in place.roles})
    return placer.placing()


class _Placer:
    def __init__(self, ranks: Sequence[RankSpec], hosts: Sequence[HostInfo]) -> None:
        self._ranks = ranks
        self._hosts = hosts
        self._taken: set[str] = set()
        """The nodes that some roles have for themselves."""
        self._placed: dict[int, tuple[HostInfo, RolePlace]] = {}

    def choose(self, place: RolePlace, count: int) -> None:
        """Deal the ranks of a place to so many hosts."""
        mine = self._ranks_of(place)
        if count > len(mine):
            raise self._refusal(f"{place}: it has only {plural(len(mine), 'rank')}")
        chosen = self._left_for(place, -(-len(mine) // count))[:count]
        if len(chosen) < count:
            raise self._lacking(place, len(mine), count)
        self._deal(place, mine, chosen)

    def spread(self, places: Sequence[RolePlace]) -> None:
        """Share out the hosts that are left among the places that take what there is."""
        wanting = [
            (each, mine, list[HostInfo]()) for each in places if (mine := self._ranks_of(each))
        ]
        for turn in range(max((len(mine) for _, mine, _ in wanting), default=0)):
            for place, mine, share in wanting:
                if turn < len(mine) and (left := self._left_for(place, 1)):
                    self._taken.add(left[0].node)
                    share.append(left[0])
        for place, mine, share in wanting:
            most = -(-len(mine) // max(1, len(share)))
            if not share or not all(host.fits(place, most) for host in share):
                raise self._lacking(place, len(mine), len(share) or 1)
            self._deal(place, mine, share)

    def put_others(self, named: Set[str]) -> None:
        nowhere = RolePlace(roles=(ALL_ROLES,))
        for rank, spec in enumerate(self._ranks):
            if not named & {spec.role, ALL_ROLES}:
                there = Counter(host.node for host, _ in self._placed.values())
                emptiest = min(self._hosts, key=lambda host: there[host.node])
                self._placed[rank] = (emptiest, nowhere)

    def placing(self) -> Placing:
        hosts, places = zip(*(self._placed[rank] for rank in range(len(self._ranks))), strict=True)
        reserved: dict[str, Reserved] = {}
        for host, place in zip(hosts, places, strict=True):
            before = reserved.get(host.node, Reserved(0, 0))
            reserved[host.node] = Reserved(before.cpus + place.cpus, before.gpus + place.gpus)
        return Placing(hosts=hosts, gpus=tuple(each.gpus for each in places), reserved=reserved)

    def _deal(self, place: RolePlace, ranks: Sequence[int], hosts: Sequence[HostInfo]) -> None:
        """Deal the ranks to the hosts, in rank order, as evenly as can be."""
        self._taken |= {host.node for host in hosts}
        for number, rank in enumerate(ranks):
            self._placed[rank] = (hosts[number * len(hosts) // len(ranks)], place)

    def _ranks_of(self, place: RolePlace) -> list[int]:
        every = ALL_ROLES in place.roles
        return [rank for rank, spec in enumerate(self._ranks) if every or spec.role in place.roles]

    def _left_for(self, place: RolePlace, ranks: int) -> list[HostInfo]:
        """The hosts that are free and that can hold so many ranks; the scarce ones last."""
        free = (e for e in self._hosts if e.node not in self._taken and e.fits(place, ranks))
        return sorted(free, key=lambda host: (host.gpus > 0 and not place.gpus, host.cpus))

    def _lacking(self, place: RolePlace, ranks: int, hosts: int) -> UsageError:
        each = -(-ranks // hosts)
        counts = ((place.cpus, "CPU"), (place.gpus, "GPU"))
        needs = ", ".join(plural(count * each, what) for count, what in counts if count)
        return self._refusal(
            f"{place}: it takes {plural(hosts, 'host')} that no other place has"
            f"{f', each with {needs}' if needs else ''}, for {plural(ranks, 'rank')}"
        )

    def _refusal(self, what: str) -> UsageError:
        there = ", ".join(map(str, self._hosts)) or "no host"
        return UsageError(f"the world cannot be placed: {what}; the cluster has {there}")


def unreachable(space: Space, baseline: Config, hosts: int) -> Iterator[str]:
    """What of a search space, and of its baseline, cannot carry calls between so many hosts."""
    if hosts == 1:
        return
    named = [(dimension, [value]) for dimension, value in baseline.items]
    for dimension, values in (*space.axes, *named):
        local = WITHIN_A_HOST.get(dimension.knob, {})
        for value in values:
            names = value if isinstance(value, tuple) else ()
            if names and all(name in local for name in names):
                through = " and ".join(dict.fromkeys(local[str(name)] for name in names))
                yield (
                    f"{dimension}={KNOBS[dimension.knob].format(value)} works through {through}, "
                    f"and the ranks are on {hosts} hosts; name one that crosses them too"
                )
