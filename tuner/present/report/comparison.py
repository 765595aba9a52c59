"""Studies side by side: the same settings on other machines, workloads or dates."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

from tuner.errors import UsageError
from tuner.files import written_atomically
from tuner.plan.config import Config
from tuner.present.environment_and_method import Facts, environment_facts
from tuner.present.figures import DrawnFigure
from tuner.present.report.pages import render
from tuner.present.wording import verdict_sentence
from tuner.study.answer import StudyAnswer, TrialRow
from tuner.text import duration, interval_text, three_digits

# What two studies must have in common, or their numbers do not mean the same.
_MEASURED_ALIKE: dict[str, Callable[[StudyAnswer], str]] = {
    "objective": lambda answer: answer.objective.name,
    "confidence of the intervals": lambda answer: f"{answer.plan.measuring.confidence * 100:g} %",
    "timed part of a world": lambda answer: duration(answer.plan.measuring.min_time_s),
    "intra-op threads": lambda answer: str(answer.plan.workload.intra_op_threads),
}


class Cell(NamedTuple):
    """Settings in one study: its objective, and what that is beside the reference settings'."""

    value: str
    interval: str
    beside: str
    mark: str


class Line(NamedTuple):
    """Settings that two studies have in common at least."""

    label: str
    cells: list[Cell]


class Comparison(NamedTuple):
    """Studies that can be compared, each with a name of its own."""

    studies: list[tuple[str, StudyAnswer]]
    reference: str
    """The settings, common to all, that ratios are to."""

    @classmethod
    def of(cls, answers: Sequence[StudyAnswer]) -> "Comparison":
        """UsageError, saying what differs, if the answers were not measured alike."""
        answers = _with_equal_names(answers)
        named = _named(answers)
        problems = [
            f"{what}: " + ", ".join(f"{say(answer)} ({name})" for name, answer in named)
            for what, say in _MEASURED_ALIKE.items()
            if len({say(answer) for answer in answers}) > 1
        ]
        if problems:
            raise UsageError.about(
                "these studies cannot be compared, for they were measured differently", problems
            )
        common = [
            label
            for label in _measured(answers[0])
            if all(label in _measured(answer) for answer in answers)
        ]
        if not common:
            listed = "; ".join(f"{name}: {', '.join(_measured(each))}" for name, each in named)
            raise UsageError(
                f"these studies cannot be compared, for no settings were measured in all: {listed}"
            )
        baseline = str(answers[0].baseline)
        return cls(named, baseline if baseline in common else common[0])

    def lines(self) -> list[Line]:
        """The settings that two studies or more have measured, in the order of the first's."""
        labels = [label for _, answer in self.studies for label in _measured(answer)]
        shared = [label for label in dict.fromkeys(labels) if labels.count(label) > 1]
        return [
            Line(label, [self._cell(answer, label) for _, answer in self.studies])
            for label in shared
        ]

    def only_in_one(self) -> Facts:
        """What each study has measured alone, by its name."""
        shared = {line.label for line in self.lines()}
        alone = {
            name: [label for label in _measured(answer) if label not in shared]
            for name, answer in self.studies
        }
        return [(name, ", ".join(labels)) for name, labels in alone.items() if labels]

    def differences(self) -> list[tuple[str, list[str]]]:
        """What is not the same for all studies: the fact's name, and each study's."""
        facts = [dict(environment_facts(answer)) for _, answer in self.studies]
        facts = [
            {**fact, "baseline": str(answer.baseline)}
            for fact, (_, answer) in zip(facts, self.studies, strict=True)
        ]
        return [
            (name, [fact[name] for fact in facts])
            for name in facts[0]
            if len({fact[name] for fact in facts}) > 1
        ]

    def _cell(self, answer: StudyAnswer, label: str) -> Cell:
        rows = _measured(answer)
        if (row := rows.get(label)) is None:
            return Cell("", "", "", "")
        beside = row.value / rows[self.reference].value
        marks = [
            mark
            for mark, config in ((_mark(answer), answer.best), ("baseline", answer.baseline))
            if label == str(config)
        ]
        return Cell(
            three_digits(row.value),
            interval_text(row.ci_low, row.ci_high),
            f"{beside:.2f}",
            ", ".join(marks),
        )


def comparison_html(comparison: Comparison, figures: Sequence[DrawnFigure]) -> str:
    """The page that shows the studies side by side; it loads nothing."""
    objective = comparison.studies[0][1].objective
    return render(
        "comparison",
        names=[name for name, _ in comparison.studies],
        objective=f"{objective.label} ({objective.unit})",
        verdicts=[(name, verdict_sentence(answer)) for name, answer in comparison.studies],
        differences=comparison.differences(),
        reference=comparison.reference,
        lines=comparison.lines(),
        alone=comparison.only_in_one(),
        figures=figures,
    )


def write_comparison(comparison: Comparison, figures: Sequence[DrawnFigure], path: Path) -> None:
    """Write the page, whole or not at all."""
    with written_atomically(path) as partial:
        partial.write_text(comparison_html(comparison, figures), encoding="utf-8")


def _mark(answer: StudyAnswer) -> str:
    return "best" if answer.verdict in ("better", "tie") else "kept"


def _measured(answer: StudyAnswer) -> dict[str, TrialRow]:
    return {row.label: row for row in answer.rows if row.counts}


def _with_equal_names(answers: Sequence[StudyAnswer]) -> list[StudyAnswer]:
    """The answers, in which equal settings are written alike: in the shortest way.

    To say that a knob is at PyTorch's default is as good as not to name it.
    """
    written: dict[object, Config] = {}
    for answer in answers:
        for row in answer.rows:
            config = Config.from_json(row.config)
            same = config.resolved(answer.plan.workload)
            written[same] = min(written.get(same, config), config, key=lambda s: len(str(s)))
    return [_rewritten(answer, written) for answer in answers]


def _rewritten(answer: StudyAnswer, written: Mapping[object, Config]) -> StudyAnswer:
    def of(config: Config) -> Config:
        return written.get(config.resolved(answer.plan.workload), config)

    rows = []
    for row in answer.rows:
        config = of(Config.from_json(row.config))
        rows.append(replace(row, label=str(config), config=config.to_json()))
    return replace(
        answer,
        rows=tuple(rows),
        baseline=of(answer.baseline),
        best=None if answer.best is None else of(answer.best),
    )


def _named(answers: Sequence[StudyAnswer]) -> list[tuple[str, StudyAnswer]]:
    """The studies by name; those of one name by their folders."""
    names = [answer.study for answer in answers]
    return [
        (f"{name} in {answer.plan.out}" if names.count(name) > 1 else name, answer)
        for name, answer in zip(names, answers, strict=True)
    ]
