"""The page of several studies side by side: other machines, workloads or dates."""

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

from tuner.errors import UsageError
from tuner.files import written_atomically
from tuner.plan.config import Config
from tuner.plan.objectives import METRIC, Objective
from tuner.plan.program_spec import intra_op_text
from tuner.present.environment_and_method import Facts, environment_facts
from tuner.present.figures import DrawnFigure
from tuner.present.report.pages import render
from tuner.present.wording import verdict_sentence
from tuner.study.answer import StudyAnswer
from tuner.study.log import BASELINE
from tuner.study.rows import TrialRow
from tuner.text import UNTOLD, duration, interval_text, percent, ratio_cell, three_digits

# What must be the same in all studies, or their numbers mean different things.
_MEASURED_ALIKE: dict[str, Callable[[StudyAnswer], str]] = {
    "objective": lambda answer: _objective(answer.objective),
    "confidence of the intervals": lambda answer: percent(answer.plan.measuring.confidence),
    "measured time of a world": lambda answer: duration(answer.plan.measuring.min_time_s),
    "intra-op threads": lambda answer: intra_op_text(answer.plan.subject),
}


def _objective(objective: Objective) -> str:
    """Its name; programs print different numbers, all of which have the name `metric`."""
    if objective.name != METRIC.name:
        return objective.name
    return f"{objective.label}, {objective.better}"


class Cell(NamedTuple):
    """A configuration in one study: its objective, also relative to the reference."""

    value: str
    interval: str
    relative: str
    """How many times as fast as the reference, from the blocks that measured both."""
    mark: str


class Line(NamedTuple):
    """A configuration that at least two studies have in common."""

    label: str
    cells: list[Cell]


class Comparison(NamedTuple):
    """Studies that can be compared, each with a name of its own."""

    studies: list[tuple[str, StudyAnswer]]
    reference: Config
    """The configuration, common to all studies, that values are relative to."""

    @classmethod
    def of(cls, answers: Sequence[StudyAnswer]) -> "Comparison":
        """The comparison of these studies.

        Raises:
            UsageError: They were measured differently, or have no configuration in common.
        """
        answers = _with_equal_configs(answers)
        named = _named(answers)
        problems = [
            f"{what}: " + ", ".join(f"{say(answer)} ({name})" for name, answer in named)
            for what, say in _MEASURED_ALIKE.items()
            if len({say(answer) for answer in answers}) > 1
        ]
        if problems:
            raise UsageError.about(
                "these studies cannot be compared because they were measured differently", problems
            )
        common = [
            config
            for config in _measured(answers[0])
            if all(config in _measured(answer) for answer in answers)
        ]
        if not common:
            listed = "; ".join(
                f"{name}: {', '.join(map(str, _measured(each)))}" for name, each in named
            )
            raise UsageError(
                "these studies cannot be compared because no configuration was measured in all of "
                f"them: {listed}"
            )
        baseline = answers[0].baseline
        return cls(named, baseline if baseline in common else common[0])

    def lines(self) -> list[Line]:
        """The configurations that two studies or more have measured, in the order of the first."""
        return [
            Line(str(config), [self._cell(answer, config) for _, answer in self.studies])
            for config in self._shared()
        ]

    @property
    def note(self) -> str:
        """What the ratios are."""
        objective = self.studies[0][1].objective
        return (
            f"Against {self.reference}: how many times as {'fast' if objective.is_time else 'good'}"
            " in the same study, with its interval, from the blocks that measured both; blank "
            f"where none did. ?: {UNTOLD}."
        )

    def only_in_one(self) -> Facts:
        """The configurations that one study alone has measured, by the study's name."""
        shared = set(self._shared())
        alone = {
            name: [str(config) for config in _measured(answer) if config not in shared]
            for name, answer in self.studies
        }
        return [(name, ", ".join(configs)) for name, configs in alone.items() if configs]

    def _shared(self) -> list[Config]:
        configs = [config for _, answer in self.studies for config in _measured(answer)]
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
        rows = _measured(answer)
        if (row := rows.get(config)) is None:
            return Cell("", "", "", "")
        marks = [
            mark
            for mark, trial in ((_mark(answer), answer.best_trial), ("baseline", BASELINE))
            if row.trial == trial
        ]
        return Cell(
            three_digits(row.value),
            interval_text(row.ci_low, row.ci_high),
            _beside(answer, row.trial, rows[self.reference].trial),
            ", ".join(marks),
        )


def comparison_html(comparison: Comparison, figures: Sequence[DrawnFigure]) -> str:
    """The page that shows the studies side by side; it loads nothing."""
    objective = comparison.studies[0][1].objective
    return render(
        "comparison",
        names=[name for name, _ in comparison.studies],
        objective=objective.heading,
        better=objective.better,
        verdicts=[(name, verdict_sentence(answer)) for name, answer in comparison.studies],
        differences=comparison.differences(),
        reference=str(comparison.reference),
        lines=comparison.lines(),
        lines_note=comparison.note,
        alone=comparison.only_in_one(),
        figures=figures,
    )


def write_comparison(comparison: Comparison, figures: Sequence[DrawnFigure], path: Path) -> None:
    """Write the page, whole or not at all."""
    with written_atomically(path) as partial:
        partial.write_text(comparison_html(comparison, figures), encoding="utf-8")


def _beside(answer: StudyAnswer, trial: int, reference: int) -> str:
    found = answer.paired.compare(trial, reference)
    if found is None:
        return ""
    return ratio_cell(found.ratio.estimate, found.ratio.low, found.ratio.high)


def _mark(answer: StudyAnswer) -> str:
    return "best" if answer.verdict in ("better", "tie") else "kept"


def _measured(answer: StudyAnswer) -> dict[Config, TrialRow]:
    return {row.config: row for row in answer.rows if row.is_measured}


def _with_equal_configs(answers: Sequence[StudyAnswer]) -> list[StudyAnswer]:
    """The answers, in which configurations that act alike are equal: each in its shortest form.

    To name a knob with PyTorch's default is the same as not to name it.
    """
    shortest: dict[object, Config] = {}
    for answer in answers:
        for row in answer.rows:
            same = row.config.resolved(answer.plan.subject)
            known = shortest.get(same, row.config)
            shortest[same] = min(known, row.config, key=lambda config: len(str(config)))
    return [
        replace(
            answer,
            rows=tuple(
                replace(row, config=shortest[row.config.resolved(answer.plan.subject)])
                for row in answer.rows
            ),
        )
        for answer in answers
    ]


def _named(answers: Sequence[StudyAnswer]) -> list[tuple[str, StudyAnswer]]:
    """The studies by name; those of one name by their folders."""
    names = [answer.study for answer in answers]
    return [
        (f"{name} in {answer.folder.root}" if names.count(name) > 1 else name, answer)
        for name, answer in zip(names, answers, strict=True)
    ]
