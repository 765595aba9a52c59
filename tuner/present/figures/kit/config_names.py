"""What the configurations of a study are called in its figures, and which are its contenders."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tuner.plan.config import ALL_ROLES, Config, Dimension, varying
from tuner.plan.knobs import KNOBS, NUM_WORKER_THREADS, Value
from tuner.study.answer import Contender, StudyAnswer


@dataclass(frozen=True, kw_only=True)
class ConfigNames:
    """The names of a study's configurations, and its contenders, by trial number."""

    contenders: Mapping[int, Contender]
    knob: str | None
    """The only knob in which the configurations differ: then a name is the knob's value alone."""
    names: Mapping[int, str]

    def name(self, trial: int) -> str:
        """What the configuration is called in the figures of its study."""
        return self.names[trial]

    def row_name(self, trial: int) -> str:
        """`16 (baseline)` for a contender, else the name alone."""
        contender = self.contenders.get(trial)
        return f"{self.name(trial)} ({contender})" if contender else self.name(trial)

    @property
    def by(self) -> str:
        """What the names are values of, for a sentence: `by num_worker_threads`."""
        return f"by {self.knob}" if self.knob else "by configuration"

    def full_name(self, trial: int) -> str:
        """The name with its knob, for a sentence."""
        return f"{self.knob}={self.name(trial)}" if self.knob else self.name(trial)

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


def short_names(configs: Sequence[Config]) -> tuple[str | None, dict[Config, str]]:
    """Names that leave out what all configurations share.

    Returns:
        The knob in which the configurations differ, if it is only one; and the name of each.
    """
    kept = dict(zip(configs, differing(configs), strict=True))
    dimensions = {tuple(dimension for dimension, _ in items) for items in kept.values()}
    only = dimensions.pop() if len(dimensions) == 1 else ()
    if len(only) == 1:
        knob = KNOBS[only[0].knob]
        return str(only[0]), {config: knob.format(items[0][1]) for config, items in kept.items()}
    return None, {config: str(Config.of(items)) for config, items in kept.items()}


def differing(configs: Sequence[Config]) -> list[list[tuple[Dimension, Value]]]:
    """The items of each configuration that not all of them share; of a single one, all items."""
    shared = set.intersection(*(set(each.items) for each in configs)) if configs[1:] else set()
    return [[item for item in each.items if item not in shared] for each in configs]


def varying_dimensions(answer: StudyAnswer) -> dict[Dimension, tuple[Value, ...]]:
    """The dimensions that differ between the measured configurations, each with its values."""
    rows = sorted((row for row in answer.rows if row.is_measured), key=lambda row: row.trial)
    return varying([row.config for row in rows], answer.plan.subject)


def threads_dimension(answer: StudyAnswer) -> Dimension | None:
    """The number of worker threads that varies; None if none does.

    Where several vary, one of a role that serves calls is taken before the driver's, and of these
    the one with the most values.
    """
    found = varying_dimensions(answer)
    driver = answer.plan.subject.roles[0]

    def rank(dimension: Dimension) -> tuple[bool, int, bool]:
        return dimension.role != driver, len(found[dimension]), dimension.role != ALL_ROLES

    threads = [dimension for dimension in found if dimension.knob == NUM_WORKER_THREADS.name]
    return max(threads, key=rank, default=None)
