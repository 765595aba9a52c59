"""The report of one study: one page that loads nothing."""

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from tuner.files import written_atomically
from tuner.present.environment_and_method import Facts, environment_facts, method_facts
from tuner.present.failures import failure_lines
from tuner.present.figures import DrawnFigure
from tuner.present.front_table import front_sentence, front_table
from tuner.present.how_to_use import continuing, snippet_of
from tuner.present.knob_effects import effects_table
from tuner.present.report.pages import render
from tuner.present.sentences import sentences_of
from tuner.present.tables import (
    TrialLine,
    knob_headings,
    number_headings,
    ratio_note,
    trial_lines,
    why_facts,
)
from tuner.present.wording import verdict_sentence
from tuner.recommended.recheck import search_command
from tuner.study.answer import StudyAnswer
from tuner.study.resuming import place_keys
from tuner.text import plural


class TrialsTable(NamedTuple):
    """The table of all configurations."""

    headings: list[str]
    lines: list[TrialLine]


def report_html(answer: StudyAnswer, figures: Sequence[DrawnFigure]) -> str:
    """The whole page, with its figures inside."""
    environment = answer.environment
    return render(
        "report",
        answer=answer,
        subtitle=(
            f"{_of_what(answer)}{answer.measured_at:%Y-%m-%d}, "
            f"on {plural(environment.cpu_count, 'logical CPU')} ({environment.cpu_model}), "
            f"torch {environment.torch}"
        ),
        verdict=verdict_sentence(answer),
        verdict_class=_verdict_class(answer),
        sentences=sentences_of(answer),
        front=front_table(answer),
        front_note=front_sentence(answer),
        knobs=effects_table(answer),
        snippet=snippet_of(answer),
        continuing=continuing(answer),
        why=_why(answer),
        figures=figures,
        trials=trials_of(answer),
        trials_note=(
            f"{ratio_note(answer) or ''} The other numbers of a row are over all its blocks. "
            "Tied: within epsilon of the best, as far as measured. Eliminated: it left the race "
            "before the end, so it was measured less often. Not-measured: it was in no block. "
            "Completed: it stayed, and is not known to be as fast as the best. "
            "Kept: the baseline, where nothing is shown to be better. "
            "Infeasible: it breaks a limit. 1 of 9 failed: of its worlds, first ones included. "
            "A blank number was not measured: the worlds failed, or there is no trace."
        ),
        failures=[row for row in answer.rows if row.failure],
        failures_note=(f"The output and the stacks of each rank are in {answer.folder.failures}."),
        environment=environment_facts(answer),
        method=method_facts(answer),
        command=search_command(answer.plan, place_keys(answer)),
    )


def write_report(answer: StudyAnswer, figures: Sequence[DrawnFigure], path: Path) -> None:
    """Write the page, whole or not at all."""
    with written_atomically(path) as partial:
        partial.write_text(report_html(answer, figures), encoding="utf-8")


def notebook_html(answer: StudyAnswer) -> str:
    """What a terminal is told, for the output of a notebook's cell."""
    return render(
        "notebook",
        verdict=verdict_sentence(answer),
        sentences=sentences_of(answer),
        front=front_table(answer),
        front_note=front_sentence(answer),
        trials=trials_of(answer),
        ratio_note=ratio_note(answer),
        failures=failure_lines(answer),
        snippet=snippet_of(answer),
    )


def trials_of(answer: StudyAnswer) -> TrialsTable:
    """Headings in full, and a line per configuration."""
    headings = [*knob_headings(answer), *number_headings(answer)]
    return TrialsTable(headings, trial_lines(answer))


def _why(answer: StudyAnswer) -> list[tuple[str, Facts]]:
    """What was traced of each contender, under its heading."""
    headings, facts = why_facts(answer)
    return [
        (heading, [(fact[0], fact[place]) for fact in facts])
        for place, heading in enumerate(headings, start=1)
    ]


def _of_what(answer: StudyAnswer) -> str:
    """What was searched for, unless the title says it."""
    what = answer.plan.subject.reference
    return "" if what == answer.study else f"{what}, "


def _verdict_class(answer: StudyAnswer) -> str:
    if answer.interrupted:
        return "interrupted"
    return answer.verdict or "nothing"
