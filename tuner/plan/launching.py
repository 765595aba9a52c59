"""Where the worlds of a plan run: the launcher, its cluster, and which ranks share a host."""

from collections.abc import Iterable, Mapping
from typing import Any

from pydantic import StrictBool, ValidationError

from tuner.plan.config import ALL_ROLES
from tuner.plan.frozen_model import FrozenModel
from tuner.plan.keys import DEFAULTS, LAUNCHERS, LauncherName, keys_of
from tuner.text import did_you_mean

SPREAD = "spread"
_OF_RAY = ("ray_address", "interface", "place")
_RESOURCES = ("cpus", "gpus")


class RolePlace(FrozenModel):
    """Where the ranks of some roles run; roles of different entries share no host."""

    roles: tuple[str, ...]  # these share their hosts
    hosts: int | None = None  # how many they are dealt to; None: as many as there are
    cpus: int = 0  # CPUs of the cluster that each rank reserves
    gpus: int = 0  # GPUs of the cluster that each rank reserves

    def __str__(self) -> str:
        reserved = [f"{name}={n}" for name in _RESOURCES if (n := getattr(self, name))]
        hosts = SPREAD if self.hosts is None else str(self.hosts)
        return f"{'+'.join(self.roles)}={','.join([hosts, *reserved])}"

    @classmethod
    def read(cls, roles: str, raw: object) -> "RolePlace":
        """Read `spread`, `2`, `1,cpus=4` or a table; ValueError says what is wrong."""
        names = tuple(name.strip() for name in roles.split("+"))
        if not all(names):
            raise ValueError(f"a role has no name in {roles!r}")
        pairs = (part.partition("=") for part in f"hosts={raw}".split(","))
        of_text = {key.strip(): value.strip() for key, _, value in pairs}
        table = dict(raw) if isinstance(raw, Mapping) else of_text
        known = ("hosts", *_RESOURCES)
        if unknown := [key for key in table if key not in known]:
            hint = did_you_mean(str(unknown[0]), known)
            raise ValueError(f"{roles}: unknown key {unknown[0]!r}{hint}")
        hosts = table.get("hosts", SPREAD)
        or_spread = f" or {SPREAD!r}"
        return cls(
            roles=names,
            hosts=None if hosts == SPREAD else _number(f"{roles}: hosts", hosts, 1, or_spread),
            **{key: _number(f"{roles}: {key}", table.get(key, 0), least=0) for key in _RESOURCES},
        )


def _number(what: str, raw: object, least: int, alternative: str = "") -> int:
    text = str(raw).strip()
    if isinstance(raw, bool) or not text.isdecimal() or int(text) < least:
        least_text = f"a whole number of at least {least}{alternative}"
        raise ValueError(f"{what} must be {least_text}, got {raw}")
    return int(text)


class Launching(FrozenModel):
    """What launches the worlds of a plan, and where."""

    launcher: LauncherName = DEFAULTS["launcher"]
    ray_address: str | None = None  # HOST:PORT; None: the one that runs here, or else our own
    interface: str | None = None  # between hosts; None: that of the route to the others
    place: tuple[RolePlace, ...] = ()
    isolation: StrictBool = DEFAULTS["isolation"]  # whether worlds get a network of their own
    # How many groups of CPUs, or of hosts, measure blocks at the same time.
    groups: int = DEFAULTS["groups"]
    # The logical CPUs that all ranks of a world share, which are pinned to them; None: an equal
    # part for each of several groups, and no pinning where there is one.
    cpus_per_world: int | None = None

    @property
    def is_grouped(self) -> bool:
        """Whether worlds are kept to a part of the machine, or of the cluster."""
        return self.groups > 1 or self.cpus_per_world is not None

    def keys(self) -> dict[str, Any]:
        """The keys of a plan that ask for this; those that have their default are left out."""
        given = self.model_dump(exclude_defaults=True)
        if self.place:
            given["place"] = dict(str(place).partition("=")[::2] for place in self.place)
        return given

    def mistakes(self, roles: Iterable[str]) -> list[str]:
        """What is wrong with this, for a workload or a program with these roles."""
        known = tuple(roles)
        return [
            f"place: there is no role {role!r}{did_you_mean(role, known)}"
            for place in self.place
            for role in place.roles
            if role not in (*known, ALL_ROLES)
        ]


def read_launching(mapping: Mapping[str, Any]) -> tuple[Launching, list[str]]:
    """Where a plan's mapping says to run its worlds, and every mistake of its keys."""
    given = {key: mapping[key] for key in keys_of("launching") if mapping.get(key) is not None}
    name = given.get("launcher", "local")
    if name not in LAUNCHERS:
        hint = did_you_mean(str(name), LAUNCHERS)
        return Launching(), [f"unknown launcher {str(name)[:60]!r}{hint}"]
    given["place"], problems = _read_places(given.get("place", {}))
    if name == "local":
        named = [key for key in _OF_RAY if given.get(key)]
        problems += [f"{key} is for the launcher ray; add launcher = ray" for key in named]
    elif given.get("isolation") is not None:
        problems.append("isolation is for the launcher local: hosts meet in a network they share")
    for key in ("groups", "cpus_per_world"):
        if key in given:
            try:
                given[key] = _number(key, given[key], least=1)
            except ValueError as error:
                problems.append(str(error))
    if name == "ray" and "cpus_per_world" in given:
        problems.append("cpus_per_world is for the launcher local; place has cpus for ray")
    if str(given.get("ray_address", "")).startswith("ray://"):
        problems.append(
            "ray_address must be HOST:PORT, or auto. A ray:// address is that of Ray Client, which "
            "has no process on the cluster: run the command on one of its hosts"
        )
    if problems:
        return Launching(), problems
    try:
        return Launching.model_validate(given), []
    except ValidationError as error:
        return Launching(), [f"{mistake['loc'][0]}: {mistake['msg']}" for mistake in error.errors()]


def _read_places(raw: object) -> tuple[tuple[RolePlace, ...], list[str]]:
    pairs = list(raw.items()) if isinstance(raw, Mapping) else raw
    if not isinstance(pairs, list | tuple) or not all(
        isinstance(pair, list | tuple) and len(pair) == 2 for pair in pairs
    ):
        return (), [f"place must be a table, such as server = 1, got {raw!r}"]
    places, problems = [], []
    for roles, value in pairs:
        try:
            places.append(RolePlace.read(str(roles), value))
        except ValueError as error:
            problems.append(f"place: {error}")
    named = [role for place in places for role in place.roles]
    twice = sorted({role for role in named if named.count(role) > 1})
    problems += [f"place: the role {role} has two places" for role in twice]
    return tuple(places), problems
