"""The search space: the tuned knobs, found by name and role, and the values each may take."""

import itertools
import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Self

from tuner.plan.config import ALL_ROLES, Config, Dimension
from tuner.plan.knobs import KNOBS, SWITCH_INTERVAL, IntegerKnob, Knob, SecondsKnob, Value
from tuner.plan.program_spec import Subject
from tuner.text import did_you_mean

MAX_CONFIGS = 2000  # beyond this no budget measures a grid; it is a slip of the keyboard

_SHARED = "whose ranks share the CPUs of their host"
_RANGE = re.compile(r"(-?\d+)\.\.(-?\d+)(?::(x?)(-?\d+))?")


@dataclass(frozen=True)
class Space:
    """The grid of configurations: every combination of the listed values."""

    axes: tuple[tuple[Dimension, tuple[Value, ...]], ...]

    @classmethod
    def parse(cls, entries: Iterable[tuple[str, object]]) -> tuple[Self, list[str]]:
        """The space in `(dimension, values)` entries, of text (`1..6`, `shm,uv,shm+uv`), a number,
        or a list; and every mistake found in them."""
        axes: dict[Dimension, tuple[Value, ...]] = {}
        problems: list[str] = []
        for key, raw in entries:
            try:
                dimension = Dimension.parse(key)
            except ValueError as error:
                problems.append(str(error))
                continue
            if dimension in axes:
                problems.append(f"{dimension} is given twice")
            axes[dimension], mistakes = _read_values(KNOBS[dimension.knob], raw)
            problems += [f"{dimension}: {mistake}" for mistake in mistakes]
        space = cls(tuple((dimension, values) for dimension, values in axes.items() if values))
        if space.size > MAX_CONFIGS:
            problems.append(f"{space.size} configurations are more than {MAX_CONFIGS}")
        return space, problems

    @property
    def size(self) -> int:
        """The number of configurations in the grid."""
        return math.prod(len(values) for _, values in self.axes)

    @property
    def dimensions(self) -> tuple[Dimension, ...]:
        """The tuned dimensions, in the order given."""
        return tuple(dimension for dimension, _ in self.axes)

    def without(self, knob: str) -> Self:
        """The space in which a knob is not tuned, for no role."""
        return type(self)(tuple(axis for axis in self.axes if axis[0].knob != knob))

    def values_of(self, knob: str) -> list[Value]:
        """The values of a knob, for whichever role."""
        return [value for axis, values in self.axes if axis.knob == knob for value in values]

    def grid(self) -> list[Config]:
        """Every configuration of the space, the last axis varying fastest."""
        combinations = itertools.product(*(values for _, values in self.axes))
        return [Config.of(zip(self.dimensions, chosen, strict=True)) for chosen in combinations]

    def to_json(self) -> dict[str, list[object]]:
        """The values by dimension, as a plan file would say them."""
        return {
            str(dimension): [KNOBS[dimension.knob].to_json(value) for value in values]
            for dimension, values in self.axes
        }


def check_against(axes: Iterable[tuple[Dimension, Sequence[Value]]], subject: Subject) -> list[str]:
    """The mistakes that only show once the roles and the machine are known."""
    problems: list[str] = []
    by_dimension = dict(axes)
    problems += unknown_roles(by_dimension, subject.roles)
    for dimension, values in by_dimension.items():
        if not subject.cuda_devices and (mistake := _needs_cuda(dimension.knob, values)):
            problems.append(f"{dimension}: {mistake} needs CUDA, which torch does not see here")
        is_interval = dimension.knob == SWITCH_INTERVAL.name
        if is_interval and not subject.has_gil and {*values} != {SWITCH_INTERVAL.default}:
            problems.append(f"{dimension}: it has no effect on an interpreter without a GIL")
    for knob in KNOBS.values():
        per_role = [d for d in by_dimension if d.knob == knob.name and d.role != ALL_ROLES]
        if knob.same_for_all_roles and per_role and _differs(knob, by_dimension, subject):
            rest = "or init_rpc fails" if knob.is_init_rpc_option else _SHARED
            problems.append(
                f"{knob.name} must be the same for all roles, {rest}; "
                f"give {knob.name}=... instead of {', '.join(map(str, per_role))}"
            )
    return list(dict.fromkeys(problems))


def unknown_roles(dimensions: Iterable[Dimension], roles: Sequence[str]) -> list[str]:
    """A mistake per role that there is not."""
    named = dict.fromkeys(each.role for each in dimensions if each.role not in (ALL_ROLES, *roles))
    return [f"unknown role {role!r}{did_you_mean(role, roles)}" for role in named]


def _needs_cuda(knob: str, values: Sequence[Value]) -> str | None:
    if KNOBS[knob].needs_cuda and {*values} - {None}:
        return "it"
    names = [name for value in values if isinstance(value, tuple) for name in value]
    return next((name for name in names if name.startswith("cuda_")), None)


def _differs(knob: Knob, axes: Mapping[Dimension, Sequence[Value]], subject: Subject) -> bool:
    for_all = axes.get(Dimension(ALL_ROLES, knob.name), [knob.default])
    lists = [tuple(axes.get(Dimension(role, knob.name), for_all)) for role in subject.roles]
    return any(len(values) > 1 for values in lists) or len(set(lists)) > 1


def _read_values(knob: Knob, raw: object) -> tuple[tuple[Value, ...], list[str]]:
    """The values in `raw`, each once in the order given, and the mistakes."""
    if isinstance(raw, str):
        items: list[object] = [item.strip() for item in raw.split(",") if item.strip()]
    else:
        items = list(raw) if isinstance(raw, Sequence) else [raw]
    has_ranges = isinstance(knob, IntegerKnob | SecondsKnob)
    values: list[Value] = []
    mistakes = [] if items else ["the list of values is empty"]
    for item in items:
        try:
            values += [knob.read(one) for one in (_expanded(item) if has_ranges else [item])]
        except ValueError as error:
            mistakes.append(str(error).removeprefix(f"{knob.name} "))
    return tuple(dict.fromkeys(values)), mistakes


def _expanded(item: object) -> Sequence[object]:
    """`1..6`: every number; `2..8:2`: every second; `1..32:x2`: by doubling; else the item."""
    match = _RANGE.fullmatch(item) if isinstance(item, str) else None
    if not match:
        return [item]
    low, high, step = (int(match[place] or 1) for place in (1, 2, 4))
    if low < 1 or high < low or step < 1:
        raise ValueError(f"range {item} must rise from at least 1, by steps of at least 1")
    if match[3]:
        if step < 2:
            raise ValueError(f"range {item} must multiply by at least 2")
        return [low * step**k for k in range(high.bit_length()) if low * step**k <= high]
    # Checked by arithmetic: a range of 1..10**12 must not fill the memory first.
    if (high - low) // step >= MAX_CONFIGS:
        few = f"; {match[1]}..{match[2]}:x2 doubles"
        raise ValueError(f"range {item} has more than {MAX_CONFIGS} values{few}")
    return range(low, high + 1, step)


def baseline_config(named: Config, space: Space, subject: Subject) -> Config:
    """The baseline: what the person named, and for each other tuned knob the default, each role's
    own where these differ. Of a knob that is tuned for all roles, what was named for one is left
    out if it is the same."""
    values = dict(named.items)
    for dimension in space.dimensions:
        if named.for_role(dimension.role).get(dimension.knob) is None:
            by_role = {role: subject.default_of(role, dimension.knob) for role in subject.roles}
            is_one = dimension.role != ALL_ROLES or len(set(by_role.values())) == 1
            for role in [dimension.role] if is_one else by_role:
                default = subject.default_of(role, dimension.knob)
                values.setdefault(Dimension(role, dimension.knob), default)
    for dimension, value in named.items:
        for_all = Dimension(ALL_ROLES, dimension.knob)
        tuned = for_all in space.dimensions and dimension not in space.dimensions
        if tuned and (for_all, value) in values.items():
            del values[dimension]
    return Config.of(values)
