"""A configuration: one value for every tuned knob, per role, and how a person writes one. Standard
library only, for `tuner.run`."""

import difflib
import re
import zlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, Self

from tuner.errors import UsageError
from tuner.plan.knobs import CPU_BINDING, INTRA_OP_THREADS, KNOBS, Value
from tuner.process_knobs import EQUAL
from tuner.text import did_you_mean

ALL_ROLES = "*"
_NEAR = 0.75  # how alike a name and a knob are, from 0 to 1, for the one to mean the other


class Defaults(Protocol):
    """What processes get that no configuration names; a `Subject` is one."""

    @property
    def roles(self) -> tuple[str, ...]:
        """The roles in order of first rank, each once."""

    @property
    def cpus_of_rank(self) -> int | None:
        """The logical CPUs of a bound rank's share; None where that is not known."""

    def default_of(self, role: str, knob: str) -> Value:
        """What a process of the role, or of any (`"*"`), gets for the knob."""


@dataclass(frozen=True, order=True)
class Dimension:
    """A knob for one role, or for all roles (`"*"`)."""

    role: str
    knob: str

    @classmethod
    def parse(cls, text: str) -> Self:
        """`num_worker_threads` or `agent.num_worker_threads`; ValueError on an unknown knob."""
        role, _, knob = text.strip().rpartition(".")
        _check_knob(knob)
        return cls(role or ALL_ROLES, knob)

    def __str__(self) -> str:
        return self.knob if self.role == ALL_ROLES else f"{self.role}.{self.knob}"


def _check_knob(name: object) -> None:
    if name not in KNOBS:
        raise ValueError(f"unknown knob {name!r}{did_you_mean(str(name), tuple(KNOBS))}")


@dataclass(frozen=True)
class Config:
    """Values by dimension, in a fixed order; equal configurations compare and hash equal."""

    items: tuple[tuple[Dimension, Value], ...]

    @classmethod
    def of(cls, values: Mapping[Dimension, Value] | Iterable[tuple[Dimension, Value]]) -> Self:
        """A configuration of values that `Knob.read` has accepted."""
        return cls(tuple(sorted(dict(values).items(), key=lambda item: item[0])))

    @classmethod
    def from_json(cls, document: object) -> Self:
        """The inverse of `to_json`. Raises ValueError naming what is wrong."""
        if not isinstance(document, Mapping):
            raise ValueError(f"config must be an object by role, got {document!r}")
        values: dict[Dimension, Value] = {}
        for role, knobs in document.items():
            if not isinstance(knobs, Mapping):
                raise ValueError(f"config of role {role!r} must be an object, got {knobs!r}")
            for knob, raw in knobs.items():
                _check_knob(knob)
                values[Dimension(str(role), knob)] = KNOBS[knob].read(raw)
        return cls.of(values)

    def to_json(self) -> dict[str, dict[str, Any]]:
        """`{"*": {"num_worker_threads": 8}, "agent": {"num_worker_threads": 2}}`."""
        document: dict[str, dict[str, Any]] = {}
        for dimension, value in self.items:
            role = document.setdefault(dimension.role, {})
            role[dimension.knob] = KNOBS[dimension.knob].to_json(value)
        return document

    @property
    def values(self) -> Mapping[Dimension, Value]:
        """The values that this configuration names."""
        return dict(self.items)

    @property
    def binds(self) -> bool:
        """Whether ranks are kept to logical CPUs of their own."""
        return any(d.knob == CPU_BINDING.name and value == EQUAL for d, value in self.items)

    def for_role(self, role: str) -> dict[str, Value]:
        """The named values that a process of `role` gets, by knob; the narrower entry wins."""
        chosen = {d.knob: value for d, value in self.items if d.role == ALL_ROLES}
        return {**chosen, **{d.knob: value for d, value in self.items if d.role == role}}

    def value_of(self, dimension: Dimension, subject: Defaults) -> Value:
        """What a process of the dimension's role gets, the default if nothing is named: of a bound
        one no more intra-op threads than its share has logical CPUs."""
        fallback = subject.default_of(dimension.role, dimension.knob)
        if dimension.knob == INTRA_OP_THREADS.name and self.binds and isinstance(fallback, int):
            fallback = min(fallback, subject.cpus_of_rank or fallback)
        return self.for_role(dimension.role).get(dimension.knob, fallback)

    def without_own(self, subject: Defaults) -> Self:
        """Without the intra-op threads that every role has anyway: what sets them as a process
        starts changes more of it than that number. Bound ranks may have fewer by themselves."""
        if self.binds:
            return self
        name = INTRA_OP_THREADS.name
        roles = [role for role in subject.roles if name in self.for_role(role)]
        if any(self.for_role(role)[name] != subject.default_of(role, name) for role in roles):
            return self
        return type(self)(tuple(item for item in self.items if item[0].knob != name))

    def resolved(self, subject: Defaults) -> tuple[tuple[str, str, Value], ...]:
        """What every role gets, defaults filled in: equal for configurations that act alike."""
        return tuple(
            (role, knob, self.value_of(Dimension(role, knob), subject))
            for role in subject.roles
            for knob in KNOBS
        )

    def __str__(self) -> str:
        """`num_worker_threads=8 agent.transports=shm+uv`."""
        words = [f"{d}={KNOBS[d.knob].format(value)}" for d, value in self.items]
        return " ".join(words) or "defaults"

    @property
    def slug(self) -> str:
        """The configuration as a file name; a long one is cut, and gets a checksum."""
        name = re.sub(r"[^A-Za-z0-9_.+=-]+", "-", str(self))
        return name if len(name) <= 100 else f"{name[:90]}-{zlib.crc32(name.encode()):08x}"


def read_config(pairs: list[tuple[str, str]]) -> Config:
    """The configuration in `KNOB=VALUE` pairs; UsageError with every mistake."""
    config, problems = read_table(pairs)
    problems += [
        f"{dimension.knob} must be the same for all roles: give {dimension.knob}=..."
        for dimension, _ in config.items
        if dimension.role != ALL_ROLES and KNOBS[dimension.knob].same_for_all_roles
    ]
    if problems:
        raise UsageError.about("the configuration", problems)
    return config


def read_table(table: object) -> tuple[Config, list[str]]:
    """The configuration in a table of values, or in such pairs; and every mistake."""
    values: dict[Dimension, Value] = {}
    entries, problems = flat_entries(table)
    for key, raw in entries:
        try:
            dimension = Dimension.parse(key)
            if dimension in values:
                problems.append(f"{dimension} is given twice")
            values[dimension] = KNOBS[dimension.knob].read(raw)
        except ValueError as error:
            problems.append(str(error))
    return Config.of(values), problems


def flat_entries(table: object) -> tuple[list[tuple[str, object]], list[str]]:
    """The entries of a table, or of a list of pairs as the command line gives; and the mistakes.

    `{"agent": {"rpc_timeout": 2}}` and `{"agent.rpc_timeout": 2}` read alike.
    """
    if isinstance(table, Mapping):
        entries: list[tuple[str, object]] = []
        for key, value in table.items():
            if isinstance(value, Mapping) and key not in KNOBS and "." not in key:
                entries += [(f"{key}.{knob}", raw) for knob, raw in value.items()]
            else:
                entries.append((key, value))
        return entries, []
    if isinstance(table, list) and all(
        isinstance(each, tuple) and len(each) == 2 for each in table
    ):
        return [(str(key), value) for key, value in table], []
    return [], [f"it must be a table, such as num_worker_threads = [1, 2, 4], got {table!r}"]


def values_of(
    configs: Sequence[Config], dimension: Dimension, subject: Defaults
) -> tuple[Value, ...]:
    """The values of a dimension, each once: numbers in their order, others as they appear."""
    values = tuple(dict.fromkeys(one.value_of(dimension, subject) for one in configs))
    numbers = [value for value in values if isinstance(value, int | float)]
    return values if len(numbers) < len(values) else tuple(sorted(numbers))


def varying(configs: Sequence[Config], subject: Defaults) -> dict[Dimension, tuple[Value, ...]]:
    """The dimensions that differ between configurations, each with its values; what is named for
    all roles is left out where each role has its own."""
    named = {dimension for one in configs for dimension, _ in one.items}
    found = {
        dimension: values_of(configs, dimension, subject)
        for dimension in sorted(named)
        if dimension.role != ALL_ROLES
        or not named.issuperset(Dimension(role, dimension.knob) for role in subject.roles)
    }
    return {dimension: values for dimension, values in found.items() if len(values) > 1}


def knobs_meant(
    problems: Sequence[str], options: Iterable[str], roles: Sequence[str] = ()
) -> list[str]:
    """What a workload with these `roles` says of its options, and the knob that each unknown one
    means."""
    found = list(problems)
    for name in options:
        role, dot, knob = name.rpartition(".")
        if near := difflib.get_close_matches(knob, KNOBS, n=1, cutoff=_NEAR):
            role = next(iter(difflib.get_close_matches(role, roles, n=1, cutoff=0.5)), role)
            meant = f" {role}{dot}{near[0]} is a knob: --space tunes it, --baseline sets it"
            start = f"unknown option {name!r}"
            found = [
                f"{each.rstrip('.')}.{meant}" if each.startswith(start) else each for each in found
            ]
    return found
