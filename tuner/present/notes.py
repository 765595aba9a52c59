"""The answer in optuna-dashboard: the notes beside a study and its trials, in Markdown."""

import re
import textwrap
from collections.abc import Callable, Iterable, Iterator, Sequence

from tuner.present.environment_and_method import Facts, environment_facts, method_facts
from tuner.present.how_to_use import few_lines_of
from tuner.present.sentences import advice_of, sentences_of, why_sentences
from tuner.present.tables import TrialLine, front_of_answer, knobs_of, ratio_note, trials_of, why_of
from tuner.present.wording import confidence, verdict_sentence
from tuner.study.answer import StudyAnswer
from tuner.study.metrics import metric_cells
from tuner.study.rows import TrialDetail, TrialRow, comparable_values
from tuner.text import marked_names, printable, three_digits

FOLDED_WIDTH = 100
# What Markdown reads as a mark; it reads an underscore inside a word as a letter.
_MARKS = re.compile(r"[\\`*{}\[\]<>#|~&]|(?<![A-Za-z0-9])_|_(?![A-Za-z0-9])")
# The same at the beginning of a line: `- `, `+ `, `=`, `1. `.
_LINE_MARKS = re.compile(r"^(\d*)([-+=.)])")


def trial_notes(answer: StudyAnswer) -> dict[int, str]:
    """The note of every trial, by its number: what became of it, and its numbers."""
    marked, misleading = _marked_trial(answer), _misleading_mark(answer)
    return {
        line.row.trial: _trial_note(answer, line, misleading if line.row.trial == marked else None)
        for line in trials_of(answer).lines
    }


def study_note(answer: StudyAnswer) -> str:
    """The verdict, the lines to paste, every configuration, and how it was measured."""
    parts = [f"**{_plain(verdict_sentence(answer))}**"]
    parts += filter(None, [_misleading_mark(answer), _misleading_importance(answer)])
    trials = trials_of(answer)
    cells = [(str(line.row.trial), *line.cells, line.outcome_told) for line in trials.lines]
    headings = [column.heading for column in trials.columns]
    parts.append(_table(["trial", *headings, "outcome"], cells))
    parts += map(_plain, [*why_sentences(answer), *advice_of(answer)])
    if snippet := few_lines_of(answer):
        parts.append(f"```{snippet.language}\n{snippet.text}\n```")
    if front := front_of_answer(answer):
        parts += ["## Front", _table(front.headings, front.rows), _plain(front.note)]
    if said := [*filter(None, [ratio_note(answer)]), *sentences_of(answer)]:
        parts += ["## How sure, and what else was seen", *map(_plain, said)]
    if knobs := knobs_of(answer):
        parts += ["## Knobs", _table(knobs.headings, knobs.rows), _plain(knobs.note)]
    if why := why_of(answer):
        parts += ["## What the traces show", _table(why.headings, why.rows, _with_names)]
    parts += ["## Environment", _bullets(environment_facts(answer))]
    parts += ["## How it was measured", _bullets(method_facts(answer))]
    return "\n\n".join(parts)


def _trial_note(answer: StudyAnswer, line: TrialLine, misleading: str | None) -> str:
    row, facts = line.row, [*_facts(answer, line.row)]
    how = "" if row.does_less else "Failed, "
    is_answer = ": the answer" if line.is_best else ": not the answer" if misleading else ""
    parts = [
        f"## {_plain(row.label)}{is_answer}",
        _folded(f"{how}{line.outcome}: {row.failure}") if row.failure else line.outcome_told,
        misleading,
        _table(["number", "value"], facts) if facts else None,
        _folded(row.diagnosis, names=True) if row.diagnosis else None,
    ]
    return "\n\n".join(filter(None, parts))


def _marked_trial(answer: StudyAnswer) -> int | None:
    """The trial that the dashboard calls the best: the best value of those that came through."""
    values = comparable_values(answer.rows, answer.objective)
    completed = [row.trial for row in answer.rows if row.outcome == "completed" and row.samples]
    cost = answer.objective.cost
    return min(completed, key=lambda trial: (cost(values[trial]), trial), default=None)


def _misleading_mark(answer: StudyAnswer) -> str | None:
    """What to think of the trial that the dashboard calls the best, if it is not the answer."""
    marked, best = _marked_trial(answer), answer.best_trial
    # While a search is not finished, no trial is, and none is marked.
    if answer.interrupted or marked in (None, best):
        return None
    extreme = "highest" if answer.objective.maximize else "lowest"
    answered = f"The answer is trial {best}, by the comparison within blocks."
    if best is None:
        answered = "No configuration is recommended: that needs a comparison within blocks."
    return (
        f"The dashboard marks trial {marked} as the best because its value is the {extreme}. "
        f"{answered}"
    )


def _misleading_importance(answer: StudyAnswer) -> str | None:
    """What to think of what the dashboard calls the importance of knobs, where it shows any."""
    if len({dimension for row in answer.rows for dimension in row.config.values}) < 2:
        return None
    where = " Knobs, below, is from the blocks." if knobs_of(answer) else ""
    return (
        "The dashboard takes the importance of a parameter from one value per trial, also of few "
        f"blocks. It is no part of the answer.{where}"
    )


def _facts(answer: StudyAnswer, row: TrialRow) -> Iterator[tuple[str, str]]:
    """The numbers of one trial that are known, each under its heading."""
    value, low, high = map(three_digits, (row.value, row.ci_low, row.ci_high))
    if value:
        interval = f", {confidence(answer)} interval {low} to {high}" if low else ""
        yield answer.objective.heading, f"{value}{interval}"
    if row.samples:
        yield "worlds", str(row.samples)
    if row.fails_sometimes:
        yield "worlds that failed", f"{row.worlds_failed} of {row.worlds_run}"
    for cell in metric_cells():
        if text := cell.text(row.metrics):
            yield cell.heading, text
    detail = answer.details.get(row.trial, TrialDetail())
    for what, found in (("step time", detail.step_ms), ("latency of a call", detail.call_ms)):
        if found is not None:
            percentiles = map(three_digits, (found.p5, found.p50, found.p95, found.p99))
            yield f"{what}, percentiles 5, 50, 95, 99 (ms)", ", ".join(percentiles)
    if parts_ms := detail.call_parts_ms:
        parts = (f"{part.replace('_', ' ')} {three_digits(ms)}" for part, ms in parts_ms.items())
        yield "where the time of a call goes, mean (ms)", ", ".join(parts)


def _folded(text: str, *, names: bool = False) -> str:
    """Text in short lines, none of them a list: the dashboard never folds the page of a trial."""
    say = _with_names if names else _plain
    lines = map(say, textwrap.wrap(text, FOLDED_WIDTH))
    return "\\\n".join(_LINE_MARKS.sub(r"\1\\\2", line) for line in lines)


def _with_names(text: str) -> str:
    """`_plain`, and names of functions as code, in which Markdown sees no marks anyway."""
    parts = marked_names(text, lambda name: f"\0{name}\0").split("\0")
    return "".join(f"`{part}`" if place % 2 else _spaced(part) for place, part in enumerate(parts))


def _spaced(text: str) -> str:
    """`_plain`, with the spaces at the ends kept."""
    plain = _plain(text)
    before, after = text[:1].isspace(), text[-1:].isspace()
    return f"{' ' * before}{plain}{' ' * (after and bool(plain))}"


def _plain(text: str) -> str:
    """Text in one line, in which Markdown sees no marks."""
    return _MARKS.sub(r"\\\g<0>", " ".join(printable(text).split()))


def _table(
    headings: Sequence[str], rows: Iterable[Sequence[str]], say: Callable[[str], str] = _plain
) -> str:
    cells = [map(_plain, headings), [":--"] * len(headings), *(map(say, row) for row in rows)]
    return "\n".join(f"| {' | '.join(line)} |" for line in cells)


def _bullets(facts: Facts) -> str:
    return "\n".join(f"- {_plain(f'{name}: {said}')}" for name, said in facts)
