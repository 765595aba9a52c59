"""The configurations of a study: what they are called, which dimensions vary, and their grid."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from tuner.decide.additive import variance_shares
from tuner.plan.config import ALL_ROLES, Config, Dimension, varying
from tuner.plan.knobs import KNOBS, NUM_WORKER_THREADS, Value
from tuner.study.answer import Contender, StudyAnswer
from tuner.study.evidence import points_among


def named_value(dimension: Dimension, value: Value) -> str:
    """`server.num_worker_threads=8`."""
    return f"{dimension}={KNOBS[dimension.knob].format(value)}"


def named(configs: Sequence[Config]) -> str:
    """`num_worker_threads=2, 4` where all name the same one knob, else each of them whole."""
    knob, names = _by_only_knob({config: config.items for config in configs})
    return with_knob(knob, [names[config] for config in configs])


def with_knob(knob: str | None, names: Iterable[str]) -> str:
    """Names as `short_names` gives them, with the knob that they are values of, if they are."""
    return f"{knob}={', '.join(names)}" if knob else "; ".join(names)


def short_names(configs: Sequence[Config]) -> tuple[str | None, dict[Config, str]]:
    """The knob in which configurations differ, if it is one; and names without what all share."""
    shared = set.intersection(*(set(each.items) for each in configs)) if configs[1:] else set()
    return _by_only_knob(
        {each: tuple(item for item in each.items if item not in shared) for each in configs}
    )


def _by_only_knob(
    items: Mapping[Config, tuple[tuple[Dimension, Value], ...]],
) -> tuple[str | None, dict[Config, str]]:
    dimensions = {tuple(dimension for dimension, _ in each) for each in items.values()}
    if len(dimensions) == 1 and len(only := dimensions.pop()) == 1:
        knob = KNOBS[only[0].knob]
        return str(only[0]), {config: knob.format(each[0][1]) for config, each in items.items()}
    return None, {config: str(Config.of(each)) for config, each in items.items()}


@dataclass(frozen=True, kw_only=True)
class ConfigNames:
    """The names of a study's configurations in its figures, and its contenders, by trial."""

    contenders: Mapping[int, Contender]
    knob: str | None
    """The only knob in which the configurations differ: then a name is the knob's value alone."""
    names: Mapping[int, str]

    def row_name(self, trial: int) -> str:
        """`16 (baseline)` for a contender, else the name alone."""
        contender = self.contenders.get(trial)
        return f"{self.names[trial]} ({contender})" if contender else self.names[trial]

    @property
    def by(self) -> str:
        """What the names are values of: `by num_worker_threads`."""
        return f"by {self.knob or 'configuration'}"

    def full_name(self, trial: int) -> str:
        """The name with its knob, for a sentence."""
        return f"{self.knob}={self.names[trial]}" if self.knob else self.names[trial]

    def legend_name(self, trial: int) -> str:
        """Of a contender: `baseline: num_worker_threads=16`."""
        return f"{self.contenders[trial]}: {self.full_name(trial)}"


def names_of(answer: StudyAnswer) -> ConfigNames:
    """The names of all configurations of a study."""
    knob, names = short_names([row.config for row in answer.rows])
    return ConfigNames(
        contenders={trial: contender for contender, trial in answer.contenders.items()},
        knob=knob,
        names={row.trial: names[row.config] for row in answer.rows},
    )


def varying_dimensions(answer: StudyAnswer) -> dict[Dimension, tuple[Value, ...]]:
    """The dimensions that differ between the measured configurations, each with its values."""
    rows = sorted((row for row in answer.rows if row.is_measured), key=lambda row: row.trial)
    return varying([row.config for row in rows], answer.plan.subject)


def threads_dimension(answer: StudyAnswer) -> Dimension | None:
    """The number of worker threads that varies, of a server and with most values before others."""
    found = varying_dimensions(answer)
    driver = answer.plan.subject.roles[0]

    def rank(dimension: Dimension) -> tuple[bool, int, bool]:
        return dimension.role != driver, len(found[dimension]), dimension.role != ALL_ROLES

    threads = [dimension for dimension in found if dimension.knob == NUM_WORKER_THREADS.name]
    return max(threads, key=rank, default=None)


class Grid(NamedTuple):
    """The measured configurations as points, with the logarithms of their levels."""

    values: Mapping[Dimension, tuple[Value, ...]]
    """Of each dimension that varies."""
    points: list[tuple[int, ...]]
    logs: list[float]

    @property
    def shares(self) -> dict[Dimension, float]:
        """The share of the variance that each dimension explains alone, the largest first."""
        by_name = {str(each): each for each in self.values}
        columns = zip(by_name, zip(*self.points, strict=True), strict=True)
        found = variance_shares(dict(columns), self.logs)
        return {by_name[name]: share for name, share in found.items()}


def grid_of(answer: StudyAnswer) -> Grid:
    """The grid of what was measured, as compared with the baseline within blocks."""
    levels, subject = answer.levels, answer.plan.subject
    rows = sorted((row for row in answer.rows if row.trial in levels), key=lambda row: row.trial)
    configs = [row.config for row in rows]
    values = varying(configs, subject)
    points = points_among(values, configs, subject)
    return Grid(values, points, [levels[row.trial] for row in rows])
