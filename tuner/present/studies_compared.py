"""Several studies side by side: other machines, workloads or dates."""

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import NamedTuple

from tuner.decide.statistics import Interval
from tuner.errors import UsageError
from tuner.plan.config import Config
from tuner.plan.objectives import METRIC
from tuner.plan.program_spec import intra_op_text
from tuner.present.environment_and_method import Facts, environment_facts
from tuner.present.wording import confidence, fast, interval_cell
from tuner.study.answer import StudyAnswer
from tuner.study.log import BASELINE
from tuner.study.rows import TrialRow
from tuner.text import UNTOLD, duration, interval_text, three_digits


def _objective(answer: StudyAnswer) -> str:
    """Its name; programs print different numbers, all of which have the name `metric`."""
    objective = answer.objective
    if objective.name != METRIC.name:
        return objective.name
    return f"{objective.label}, {objective.better}"


# What must be the same in all studies, or their numbers mean different things.
_MEASURED_ALIKE: dict[str, Callable[[StudyAnswer], str]] = {
    "objective": _objective,
    "confidence of the intervals": confidence,
    "measured time of a world": lambda answer: duration(answer.plan.measuring.min_time_s),
    "intra-op threads": lambda answer: intra_op_text(answer.plan.subject),
}


class Cell(NamedTuple):
    """A configuration in one study: its objective, also relative to the reference."""

    value: str = ""
    interval: str = ""
    relative: str = ""
    """How many times as fast as the reference, from the blocks that measured both."""
    mark: str = ""


class Comparison(NamedTuple):
    """Studies that can be compared, each with a name of its own."""

    studies: list[tuple[str, StudyAnswer]]
    reference: Config
    """The configuration, common to all studies, that values are relative to."""

    @classmethod
    def of(cls, answers: Sequence[StudyAnswer]) -> "Comparison":
        """The comparison of these studies.

        UsageError if they were measured differently, or have no configuration in common.
        """
        answers = _with_equal_configs(answers)
        names = [answer.study for answer in answers]
        studies = [
            (f"{name} in {answer.files.root}" if names.count(name) > 1 else name, answer)
            for name, answer in zip(names, answers, strict=True)
        ]
        problems = [
            f"{what}: " + ", ".join(f"{say(answer)} ({name})" for name, answer in studies)
            for what, say in _MEASURED_ALIKE.items()
            if len({say(answer) for answer in answers}) > 1
        ]
        if problems:
            raise UsageError.about(
                "these studies cannot be compared because they were measured differently", problems
            )
        measured = [measured_in(answer) for answer in answers]
        common = [config for config in measured[0] if all(config in each for each in measured)]
        if not common:
            listed = (
                f"{name}: {', '.join(map(str, each))}"
                for (name, _), each in zip(studies, measured, strict=True)
            )
            raise UsageError(
                "these studies cannot be compared because no configuration was measured in all of "
                f"them: {'; '.join(listed)}"
            )
        baseline = answers[0].baseline
        return cls(studies, baseline if baseline in common else common[0])

    def lines(self) -> list[tuple[str, list[Cell]]]:
        """The configurations that two studies or more have measured, with a cell for each study."""
        return [
            (str(config), [self._cell(answer, config) for _, answer in self.studies])
            for config in self._shared()
        ]

    @property
    def note(self) -> str:
        """What the ratios are."""
        return (
            f"Against {self.reference}: how many times as {fast(self.studies[0][1])}"
            " in the same study, with its interval. It is from the blocks that measured both, and "
            f"blank where none did. ?: {UNTOLD}."
        )

    def only_in_one(self) -> Facts:
        """The configurations that one study alone has measured, by the study's name."""
        shared = set(self._shared())
        alone = {
            name: [str(config) for config in measured_in(answer) if config not in shared]
            for name, answer in self.studies
        }
        return [(name, ", ".join(configs)) for name, configs in alone.items() if configs]

    def _shared(self) -> list[Config]:
        configs = [config for _, answer in self.studies for config in measured_in(answer)]
        return [config for config, count in Counter(configs).items() if count > 1]

    def differences(self) -> list[tuple[str, list[str]]]:
        """What differs between the studies: the fact's name, and each study's."""
        facts = [
            {**dict(environment_facts(answer)), "baseline": str(answer.baseline)}
            for _, answer in self.studies
        ]
        names = dict.fromkeys(name for fact in facts for name in fact)
        rows = [(name, [fact.get(name, "-") for fact in facts]) for name in names]
        return [(name, values) for name, values in rows if len(set(values)) > 1]

    def _cell(self, answer: StudyAnswer, config: Config) -> Cell:
        rows = measured_in(answer)
        if (row := rows.get(config)) is None:
            return Cell()
        best = "best" if answer.verdict in ("better", "tie") else "kept"
        marks = [best] if row.trial == answer.best_trial else []
        if row.trial == BASELINE:
            marks.append("baseline")
        found = self.ratio(answer, config)
        ratio = "" if found is None else interval_cell(found)
        spread = interval_text(row.ci_low, row.ci_high)
        return Cell(three_digits(row.value), spread, ratio, ", ".join(marks))

    def ratio(self, answer: StudyAnswer, config: Config) -> Interval | None:
        """How many times as fast as the reference it is in one study; None where none tells."""
        rows = measured_in(answer)
        if config not in rows or self.reference not in rows:
            return None
        found = answer.paired.compare(rows[config].trial, rows[self.reference].trial)
        return found and found.ratio


def measured_in(answer: StudyAnswer) -> dict[Config, TrialRow]:
    """The rows of what was measured, by configuration."""
    return {row.config: row for row in answer.rows if row.is_measured}


def _with_equal_configs(answers: Sequence[StudyAnswer]) -> list[StudyAnswer]:
    """The answers, in which configurations that act alike are equal, in the shortest form."""
    shortest: dict[object, Config] = {}
    for answer in answers:
        for row in answer.rows:
            same = row.config.resolved(answer.plan.subject)
            known = shortest.get(same, row.config)
            shortest[same] = min(known, row.config, key=lambda config: len(str(config)))
    equal = []
    for answer in answers:
        subject = answer.plan.subject
        rows = (replace(row, config=shortest[row.config.resolved(subject)]) for row in answer.rows)
        equal.append(replace(answer, rows=tuple(rows)))
    return equal
