"""Which rank runs on which host of a cluster, and what can carry calls between hosts."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

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

    def __str__(self) -> str:
        gpus = f", {plural(self.gpus, 'GPU')}" if self.gpus else ""
        # Hosts of one name have their addresses in their names.
        where = self.name if self.address in self.name else f"{self.name} at {self.address}"
        return f"{where} ({plural(self.cpus, 'CPU')}{gpus})"


@dataclass(frozen=True, kw_only=True)
class Reserved:
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


@dataclass
class _Free:
    """A host, what it has left, and whether some roles have it for themselves."""

    host: HostInfo
    cpus: int
    gpus: int
    ranks: int = 0
    is_taken: bool = False

    def fits(self, place: RolePlace, ranks: int) -> bool:
        return self.cpus >= place.cpus * ranks and self.gpus >= place.gpus * ranks

    def reserve(self, place: RolePlace) -> None:
        self.cpus -= place.cpus
        self.gpus -= place.gpus
        self.ranks += 1


@dataclass
class _Placer:
    free: list[_Free]
    by_rank: dict[int, HostInfo] = field(default_factory=dict)
    place_of: dict[int, RolePlace] = field(default_factory=dict)

    def deal(self, place: RolePlace, ranks: Sequence[int], hosts: Sequence[_Free]) -> None:
        """Deal the ranks to the hosts, in rank order, as evenly as can be."""
        for number, rank in enumerate(ranks):
            self.put(place, rank, hosts[number * len(hosts) // len(ranks)])

    def put(self, place: RolePlace, rank: int, free: _Free) -> None:
        free.reserve(place)
        self.by_rank[rank] = free.host
        self.place_of[rank] = place

    def left_for(self, place: RolePlace, ranks: int) -> list[_Free]:
        """The hosts that are free and that can hold so many ranks; the scarce ones last."""
        fitting = [each for each in self.free if not each.is_taken and each.fits(place, ranks)]
        return sorted(fitting, key=lambda each: (each.gpus > 0 and not place.gpus, each.cpus))


def place_ranks(
    ranks: Sequence[RankSpec], places: Sequence[RolePlace], hosts: Sequence[HostInfo]
) -> Placing:
    """The host of each rank.

    Roles of one place share its hosts, and no role of another place is there. Roles without a
    place go anywhere: each rank to the host that has the fewest.

    Args:
        ranks: The ranks of a world.
        places: The places of their roles.
        hosts: What there is, in order of preference.

    Raises:
        UsageError: They cannot be placed; it says what is asked for, and what the cluster has.
    """
    placer = _Placer([_Free(host, host.cpus, host.gpus) for host in hosts])
    # What needs the most chooses first; what is spread takes what is left.
    fixed = [each for each in places if each.hosts is not None]
    for place in sorted(fixed, key=lambda each: (-each.gpus, -each.cpus)):
        mine, count = _ranks_of(ranks, place), place.hosts or 1
        if count > len(mine):
            raise _refusal(f"{place}: it has only {plural(len(mine), 'rank')}", hosts)
        chosen = placer.left_for(place, -(-len(mine) // count))[:count]
        if len(chosen) < count:
            raise _refusal(_wanted(place, len(mine), count), hosts)
        for each in chosen:
            each.is_taken = True
        placer.deal(place, mine, chosen)
    _spread(placer, ranks, [each for each in places if each.hosts is None], hosts)
    named = {role for place in places for role in place.roles}
    nowhere = RolePlace(roles=(ALL_ROLES,))
    for rank, spec in enumerate(ranks):
        if spec.role not in named and ALL_ROLES not in named:
            placer.put(nowhere, rank, min(placer.free, key=lambda each: each.ranks))
    return _placing(placer)


def _spread(
    placer: _Placer,
    ranks: Sequence[RankSpec],
    places: Sequence[RolePlace],
    hosts: Sequence[HostInfo],
) -> None:
    """Share out the hosts that are left among the places that take what there is."""
    shares: list[list[_Free]] = [[] for _ in places]
    wants = [len(_ranks_of(ranks, place)) for place in places]
    for turn in range(max(wants, default=0)):
        for place, share, wanted in zip(places, shares, wants, strict=True):
            left = placer.left_for(place, 1)
            if turn < wanted and left:
                left[0].is_taken = True
                share.append(left[0])
    for place, share, wanted in zip(places, shares, wants, strict=True):
        if not wanted:
            continue
        if not share or not all(each.fits(place, -(-wanted // len(share))) for each in share):
            raise _refusal(_wanted(place, wanted, len(share) or 1), hosts)
        placer.deal(place, _ranks_of(ranks, place), share)


def _ranks_of(ranks: Sequence[RankSpec], place: RolePlace) -> list[int]:
    every = ALL_ROLES in place.roles
    return [rank for rank, spec in enumerate(ranks) if every or spec.role in place.roles]


def _placing(placer: _Placer) -> Placing:
    hosts = tuple(placer.by_rank[rank] for rank in range(len(placer.by_rank)))
    return Placing(
        hosts=hosts,
        gpus=tuple(placer.place_of[rank].gpus for rank in range(len(hosts))),
        reserved={node: _reserved(placer, node) for node in dict.fromkeys(h.node for h in hosts)},
    )


def _reserved(placer: _Placer, node: str) -> Reserved:
    here = [placer.place_of[rank] for rank, host in placer.by_rank.items() if host.node == node]
    return Reserved(cpus=sum(each.cpus for each in here), gpus=sum(each.gpus for each in here))


def _wanted(place: RolePlace, ranks: int, hosts: int) -> str:
    each = -(-ranks // hosts)
    needs = ", ".join(_needs(place, each))
    return (
        f"{place}: it takes {plural(hosts, 'host')} that no other place has"
        f"{f', each with {needs}' if needs else ''}, for {plural(ranks, 'rank')}"
    )


def _needs(place: RolePlace, ranks: int) -> Iterator[str]:
    if place.cpus:
        yield plural(place.cpus * ranks, "CPU")
    if place.gpus:
        yield plural(place.gpus * ranks, "GPU")


def _refusal(what: str, hosts: Sequence[HostInfo]) -> UsageError:
    there = ", ".join(map(str, hosts)) or "no host"
    return UsageError(f"the world cannot be placed: {what}; the cluster has {there}")


def unreachable(space: Space, baseline: Config, hosts: int) -> Iterator[str]:
    """What of a search space, and of its baseline, cannot carry calls between so many hosts."""
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
