"""Pages from Jinja2 templates, which load nothing: of a study, of several, of a notebook's cell."""

import functools
import re
from collections.abc import Sequence
from importlib.metadata import version
from typing import Any

import jinja2
from markupsafe import Markup, escape

from tuner.present.environment_and_method import Facts, environment_facts, method_facts
from tuner.present.figures import DrawnFigure, theme_css
from tuner.present.how_to_use import continuing, snippet_of
from tuner.present.sentences import advice_of, sentences_of, why_sentences
from tuner.present.studies_compared import Comparison
from tuner.present.tables import (
    WordsTable,
    changes_of,
    front_of_answer,
    knobs_of,
    numbers_first,
    outcomes_note,
    ratio_note,
    trials_of,
    why_of,
)
from tuner.present.wording import verdict_sentence
from tuner.study.answer import StudyAnswer
from tuner.study.search_commands import place_keys, search_command
from tuner.text import marked_names, plural, printable

FORMAT = 1
_WHOLE = re.compile(r"(?<![\w-])--[a-z][a-z-]*|[+-]?\d[\d.]*(?:-\d[\d.]*)? %")


def _failures_note(answer: StudyAnswer) -> str:
    if all(row.does_less for row in answer.rows if row.failure):
        return "These runs went well, and did less of the work."
    return f"The output and the stacks of each rank are in {answer.files.failures}."


def report_html(answer: StudyAnswer, figures: Sequence[DrawnFigure]) -> str:
    """The whole page, with its figures inside."""
    environment, what = answer.environment, answer.plan.subject.reference
    return _rendered(
        "report",
        **_of_all_pages(answer),
        answer=answer,
        subtitle=(
            # The title may say it.
            f"{'' if what == answer.study else f'{what}, '}{answer.measured_at:%Y-%m-%d}, "
            f"on {plural(environment.cpu_count, 'logical CPU')} ({environment.cpu_model}), "
            f"torch {environment.torch}"
        ),
        verdict_class="interrupted" if answer.interrupted else answer.verdict or "nothing",
        knobs=knobs_of(answer),
        changes=changes_of(answer),
        continuing=continuing(answer),
        why=_side_by_side(why_of(answer)),
        figures=figures,
        trials_note=f"{ratio_note(answer) or ''} {outcomes_note(answer)} Another blank was not "
        "measured.",
        failures=[row for row in answer.rows if row.failure],
        failures_note=_failures_note(answer),
        environment=environment_facts(answer),
        method=method_facts(answer),
        command=search_command(answer.plan, place_keys(answer)),
    )


def _side_by_side(table: WordsTable | None) -> list[tuple[str, Facts]]:
    """The columns of a table, each under its heading, with the names of its rows."""
    if table is None:
        return []
    names, *columns = zip(*table.rows, strict=True)
    facts = ([*zip(names, cells, strict=True)] for cells in columns)
    return [*zip(table.headings[1:], facts, strict=True)]


def notebook_html(answer: StudyAnswer) -> str:
    """What a terminal is told, for the output of a notebook's cell."""
    return _rendered("notebook", **_of_all_pages(answer), ratio_note=ratio_note(answer))


def _of_all_pages(answer: StudyAnswer) -> dict[str, Any]:
    return {
        "verdict": verdict_sentence(answer),
        "reasons": why_sentences(answer),
        "advice": advice_of(answer),
        "sentences": sentences_of(answer),
        "front": front_of_answer(answer),
        "trials": numbers_first(trials_of(answer)),
        "snippet": snippet_of(answer),
    }


def comparison_html(comparison: Comparison, figures: Sequence[DrawnFigure]) -> str:
    """The page that shows the studies side by side; it loads nothing."""
    objective = comparison.studies[0][1].objective
    return _rendered(
        "comparison",
        comparison=comparison,
        names=[name for name, _ in comparison.studies],
        objective=objective.heading,
        better=objective.better,
        verdicts=[(name, verdict_sentence(answer)) for name, answer in comparison.studies],
        differences=comparison.differences(),
        alone=comparison.only_in_one(),
        figures=figures,
    )


def prose(text: str) -> Markup:
    """A sentence, escaped, in which no line ends inside a flag, a percentage or an interval."""
    return Markup(_WHOLE.sub(r'<span class="whole">\g<0></span>', str(escape(text))))


def breakable(name: str) -> Markup:
    """A name, escaped, that a narrow column may break where its words end."""
    return Markup(re.sub("[_.]", r"\g<0><wbr>", str(escape(printable(name)))))


def prose_with_names(text: str) -> Markup:
    """`prose`, in which the names of functions are code."""
    return Markup(marked_names(str(prose(text)), lambda name: f"<code>{name}</code>"))


def _rendered(template: str, **values: Any) -> str:
    """The page of a template with these values, all of which it must know; text is escaped."""
    return _templates().get_template(f"{template}.html.j2").render(
        format=FORMAT, version=version("rpc-tuner"), theme_css=Markup(theme_css()), **values
    )  # fmt: skip


@functools.cache
def _templates() -> jinja2.Environment:
    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("tuner.present"),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        finalize=_seen,
    )
    environment.filters["breakable"] = breakable
    environment.filters["prose"] = prose
    environment.filters["prose_with_names"] = prose_with_names
    return environment


def _seen(value: object) -> object:
    """The value of an expression, of which what would act in a text is escaped."""
    if isinstance(value, Markup):
        return Markup(printable(value))
    return printable(value) if isinstance(value, str) else value
