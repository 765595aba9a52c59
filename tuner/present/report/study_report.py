"""The report of one study: a page that can be passed on."""

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from tuner.files import written_atomically
from tuner.present.environment_and_method import Facts, environment_facts, method_facts
from tuner.present.figures import DrawnFigure
from tuner.present.report.pages import render
from tuner.present.tables import (
    TrialLine,
    knob_headings,
    number_headings,
    trial_lines,
    why_facts,
)
from tuner.present.wording import tied_sentence, verdict_sentence
from tuner.recommended.snippet import init_rpc_lines
from tuner.study.answer import StudyAnswer


class TrialsTable(NamedTuple):
    """The table of all settings."""

    headings: list[str]
    lines: list[TrialLine]


def report_html(answer: StudyAnswer, figures: Sequence[DrawnFigure]) -> str:
    """The whole page, figures and all: it loads nothing."""
    environment = answer.environment
    return render(
        "report",
        answer=answer,
        subtitle=(
            f"{answer.plan.workload.reference}, {answer.measured_at:%Y-%m-%d}, "
            f"on {environment.cpu_count} cores ({environment.cpu_model}), "
            f"torch {environment.torch}"
        ),
        verdict=verdict_sentence(answer),
        verdict_class=_verdict_class(answer),
        tied=tied_sentence(answer),
        lines_to_paste=_lines_to_paste(answer),
        why=_why(answer),
        figures=figures,
        trials=trials_of(answer),
        trials_note=(
            "A row is over all blocks of its settings; the verdict compares within blocks. Tied: "
            "within epsilon of the best, as far as measured. Eliminated: out of the race "
            "before its end, so measured less often. Numbers from traces are blank where there is "
            "none."
        ),
        failures=[row for row in answer.rows if row.failure],
        failures_note=(
            f"What each rank printed, and its stacks, are in {answer.plan.out / 'failures'}."
        ),
        environment=environment_facts(answer),
        method=method_facts(answer),
    )


def write_report(answer: StudyAnswer, figures: Sequence[DrawnFigure], path: Path) -> None:
    """Write the page, whole or not at all."""
    with written_atomically(path) as partial:
        partial.write_text(report_html(answer, figures), encoding="utf-8")


def notebook_html(answer: StudyAnswer) -> str:
    """The verdict, the table and the lines to paste, for the output of a notebook's cell."""
    return render(
        "notebook",
        verdict=verdict_sentence(answer),
        trials=trials_of(answer),
        lines_to_paste=_lines_to_paste(answer),
    )


def trials_of(answer: StudyAnswer) -> TrialsTable:
    """Headings in full, and a line per settings."""
    headings = [*knob_headings(answer), *number_headings(answer)]
    return TrialsTable([heading.full for heading in headings], trial_lines(answer))


def _why(answer: StudyAnswer) -> list[tuple[str, Facts]]:
    """What was traced of each role's settings, under its heading."""
    headings, facts = why_facts(answer)
    return [
        (heading, [(fact[0], fact[place]) for fact in facts])
        for place, heading in enumerate(headings, start=1)
    ]


def _lines_to_paste(answer: StudyAnswer) -> str | None:
    return None if answer.best is None else init_rpc_lines(answer.best, answer.plan.workload)


def _verdict_class(answer: StudyAnswer) -> str:
    if answer.interrupted:
        return "interrupted"
    return answer.verdict or "nothing"
