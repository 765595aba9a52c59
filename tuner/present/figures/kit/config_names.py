"""Who plays which part in a study's figures, and what each settings is called there."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

from tuner.plan.config import Config, Dimension
from tuner.plan.knobs import KNOBS, Value
from tuner.present.figures.kit.theme import BASELINE, BEST, CHALLENGER, Colour
from tuner.study.answer import StudyAnswer, TrialRow

MOST_ROWS = 16
MOST_LONG_ROWS = 10
"""More settings than this are too many to stand one below the other; the same for long names."""
_LONG = 40

Role = Literal["baseline", "best", "challenger"]


class Look(NamedTuple):
    """How a role is drawn, told apart by more than its colour."""

    colour: Colour
    marker: str
    size: float
    line: str
    hollow: bool = False

    @property
    def marks(self) -> dict[str, object]:
        """The marker, as matplotlib's keywords."""
        return {
            "marker": self.marker,
            "markersize": self.size,
            "color": self.colour.light,
            "markerfacecolor": "none" if self.hollow else self.colour.light,
            "markeredgecolor": self.colour.light,
        }


LOOKS: dict[Role, Look] = {
    "baseline": Look(BASELINE, "s", 5, "-", hollow=True),
    "best": Look(BEST, "*", 8, "--"),
    "challenger": Look(CHALLENGER, "D", 5, "--"),
}


@dataclass(frozen=True, kw_only=True)
class Cast:
    """The baseline and what it met, and the names of all settings, each by its label."""

    roles: Mapping[str, Role]
    knob: str | None
    """The knob that is all that the settings differ in: then a name is its value alone."""
    names: Mapping[str, str] = field(default_factory=dict)

    def name(self, label: str) -> str:
        """What the settings are called in the figures of their study."""
        return self.names.get(label, label)

    def row_name(self, label: str) -> str:
        """`16 (baseline)` for settings that have a role, else the name alone."""
        role = self.roles.get(label)
        return f"{self.name(label)} ({role})" if role else self.name(label)

    @property
    def by(self) -> str:
        """What numbers are told by: the names alone do not say whose values they are."""
        return f"by {self.knob}" if self.knob else "by settings"

    def full_name(self, label: str) -> str:
        """The name with its knob, for a sentence."""
        return f"{self.knob}={self.name(label)}" if self.knob else self.name(label)

    def legend_name(self, label: str) -> str:
        """`baseline: num_worker_threads=16`."""
        return f"{self.roles[label]}: {self.full_name(label)}"


def cast_of(answer: StudyAnswer) -> Cast:
    """The baseline, and the best settings or else the challenger, where they are others."""
    roles: dict[str, Role] = {str(answer.baseline): "baseline"}
    if answer.best is not None and answer.best != answer.baseline:
        roles[str(answer.best)] = "best"
    elif answer.challenger is not None and answer.challenger != answer.baseline:
        roles[str(answer.challenger)] = "challenger"
    knob, names = short_names([Config.from_json(row.config) for row in answer.rows])
    return Cast(roles=roles, knob=knob, names=names)


def short_names(configs: Sequence[Config]) -> tuple[str | None, dict[str, str]]:
    """The one knob that the settings differ in, if it is one, and a name for each by its label.

    Left out is what is the same in all of them.
    """
    kept = {str(each): items for each, items in zip(configs, differing(configs), strict=True)}
    dimensions = {tuple(dimension for dimension, _ in items) for items in kept.values()}
    only = dimensions.pop() if len(dimensions) == 1 else ()
    if len(only) == 1:
        knob = KNOBS[only[0].knob]
        return str(only[0]), {label: knob.format(items[0][1]) for label, items in kept.items()}
    return None, {label: str(Config.of(items)) for label, items in kept.items()}


def differing(configs: Sequence[Config]) -> list[list[tuple[Dimension, Value]]]:
    """Of each settings the items that are not the same in all of them; all items of one alone."""
    shared = set.intersection(*(set(each.items) for each in configs)) if configs[1:] else set()
    return [[item for item in each.items if item not in shared] for each in configs]


def shown_rows(cast: Cast, rows: Sequence[TrialRow]) -> list[TrialRow]:
    """Of these rows those with a role and the fastest others, in their order."""
    most = most_rows(cast.name(row.label) for row in rows)
    leading = {row.trial for row in rows if row.label in cast.roles}
    others = [row.trial for row in rows if row.trial not in leading]
    kept = leading.union(others[: max(0, most - len(leading))])
    return [row for row in rows if row.trial in kept]


def most_rows(names: Iterable[str]) -> int:
    """How many settings that are called so can stand one below the other."""
    return MOST_LONG_ROWS if any(len(name) > _LONG for name in names) else MOST_ROWS


def left_out(shown: int, of: int) -> str:
    """` Shown are 16 of 60 settings: ...`, or nothing where all are."""
    if shown == of:
        return ""
    return f" Shown are {shown} of {of} settings: the baseline, and the fastest."
