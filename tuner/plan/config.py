"""A configuration: one value for every tuned knob, per role."""

import re
import zlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Protocol, Self

from tuner.plan.knobs import CPU_BINDING, KNOBS, Value
from tuner.process_knobs import EQUAL
from tuner.text import did_you_mean

ALL_ROLES = "*"


class Defaults(Protocol):
    """What processes get that no configuration names; a `Subject` is one."""

    @property
    def roles(self) -> tuple[str, ...]:
        """The roles in order of first rank, each once."""

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
        if knob not in KNOBS:
            raise ValueError(f"unknown knob {knob!r}{did_you_mean(knob, tuple(KNOBS))}")
        return cls(role or ALL_ROLES, knob)

    def __str__(self) -> str:
        return self.knob if self.role == ALL_ROLES else f"{self.role}.{self.knob}"


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
                if knob not in KNOBS:
                    raise ValueError(
                        f"unknown knob {knob!r}{did_you_mean(str(knob), tuple(KNOBS))}"
                    )
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
        return MappingProxyType(dict(self.items))

    @property
    def binds(self) -> bool:
        """Whether ranks are kept to logical CPUs of their own."""
        return any(d.knob == CPU_BINDING.name and value == EQUAL for d, value in self.items)

    def for_role(self, role: str) -> dict[str, Value]:
        """The values that a process of `role` gets, by knob; the narrower entry wins.

        A knob that the configuration does not name is left out: PyTorch's default holds.
        """
        chosen = {d.knob: value for d, value in self.items if d.role == ALL_ROLES}
        chosen.update({d.knob: value for d, value in self.items if d.role == role})
        return chosen

    def value_of(self, dimension: Dimension, subject: Defaults) -> Value:
        """What a process of the dimension's role gets, the default if nothing is named."""
        fallback = subject.default_of(dimension.role, dimension.knob)
        return self.for_role(dimension.role).get(dimension.knob, fallback)

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
