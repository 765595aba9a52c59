"""The answer on a terminal: on one screen, or all of it."""

from collections.abc import Iterator, Sequence

from rich.console import Console

from tuner.present.failures_told import failure_lines
from tuner.present.how_to_use import Snippet, continuing, few_lines_of, snippet_of
from tuner.present.sentences import (
    advice_of,
    is_changed,
    limit_sentences,
    sentences_of,
    why_sentences,
)
from tuner.present.tables import (
    Column,
    TrialLine,
    WordsTable,
    front_of_answer,
    ratio_note,
    trials_of,
    why_of,
)
from tuner.present.terminal import (
    Part,
    Summary,
    code,
    files_line,
    height_of,
    line,
    paragraph,
    print_parts,
)
from tuner.present.terminal import table as table_part
from tuner.present.text_table import Column as TextColumn
from tuner.present.text_table import shown_of
from tuner.present.wording import verdict_sentence, worlds_text
from tuner.study.answer import StudyAnswer
from tuner.study.log import BASELINE
from tuner.study.metrics import CPUS_USED, PARALLELISM_MEAN
from tuner.text import duration, plural

_MOST_LINES, _WIDTH = 24, 80
"""Of one screen, and its columns."""
_MOST_ROWS, _LEAST_ROWS = 8, 2
"""Configurations that one screen shows, where they have room."""
_TELLING = (PARALLELISM_MEAN.heading, CPUS_USED.heading)
"""The metrics that may explain a time."""


def summary_of(answer: StudyAnswer) -> Summary:
    """Both forms of what is printed, but for where the files are: that is for whoever prints."""
    return Summary([*_brief(answer)], [*_whole(answer)])


def print_summary(answer: StudyAnswer, console: Console, *, whole: bool = False) -> None:
    """Print the answer on one screen, or the `whole` of it, and where its files are."""
    summary_of(answer).print(console, answer.files, answer.storage, whole=whole)


def print_verdict(answer: StudyAnswer, console: Console) -> None:
    """The verdict alone."""
    print_parts([_verdict(answer)], console)


def print_interruption(answer: StudyAnswer, console: Console) -> None:
    """The table as far as it goes, and where the report is."""
    parts = [_few_trials(answer)] if answer.blocks else []
    print_parts([*parts, files_line(answer.files)], console)


def _brief(answer: StudyAnswer) -> Iterator[Part]:
    above, below = [_verdict(answer), line("")], [line("")]
    said = [*why_sentences(answer), *advice_of(answer)]
    below += map(paragraph, said)
    pasted = _pasted(answer, few_lines_of(answer))
    for title, snippet in pasted.items():
        below += [line(title), code(snippet.text, snippet.language)]
    if said and not pasted:
        below.append(line(""))
    # Also the heading, the rule, how many more there are, a gap, and where the page is.
    height = 5 + sum(height_of(part, _WIDTH) for part in [*above, *below])
    rows = max(_LEAST_ROWS, min(_MOST_ROWS, _MOST_LINES - height))
    yield from [*above, _few_trials(answer, rows), *below]


def _pasted(answer: StudyAnswer, of_use: Snippet | None) -> dict[str, Snippet]:
    """What there is to paste, each under its title."""
    found = {"To use it:": of_use, "To go on:": continuing(answer)}
    return {title: snippet for title, snippet in found.items() if snippet is not None}


def _whole(answer: StudyAnswer) -> Iterator[Part]:
    yield _verdict(answer)
    yield line("")
    yield trials_part(answer)
    yield line("")
    if note := ratio_note(answer):
        yield paragraph(note)
    for failure in [*failure_lines(answer), *limit_sentences(answer)]:
        yield line(failure, "red")
    yield from map(paragraph, sentences_of(answer))
    if front := front_of_answer(answer):
        yield from (line(""), line("Front", "bold"), _words_part(front), paragraph(front.note))
    if why := why_of(answer):
        names = [each.partition(":")[0] for each in why.headings]
        numbers = why._replace(headings=names, rows=why.rows[:-1])
        yield from (line(""), line("Why", "bold"))
        if numbers.rows:
            yield _words_part(numbers)
        for name, said in zip(why.headings[1:], why.rows[-1][1:], strict=True):
            yield paragraph(f"{name}: {said}")
    for title, snippet in _pasted(answer, snippet_of(answer)).items():
        yield from (line(""), line(title), line(""), code(snippet.text, snippet.language))
    here = answer.environment
    yield paragraph(
        f"{worlds_text(answer)}, in {duration(answer.elapsed_s)}, "
        f"on {plural(here.cpu_count, 'logical CPU')} ({here.cpu_model}), torch {here.torch}."
    )


def _verdict(answer: StudyAnswer) -> Part:
    style = "bold"
    if answer.verdict in ("better", "undecided"):
        style = "bold green" if answer.verdict == "better" else "bold yellow"
    elif answer.verdict is None and not answer.interrupted:
        style = "bold red"
    return paragraph(verdict_sentence(answer), style)


def trials_part(answer: StudyAnswer) -> Part:
    """The table of all trials, the fastest first, with every column."""
    found = trials_of(answer)
    lines = [each._replace(outcome=each.outcome_told) for each in found.lines]
    return _table(found.columns, lines, range(len(lines)))


def _few_trials(answer: StudyAnswer, most: int = _MOST_ROWS) -> Part:
    """The trials nearest to the best, and the baseline, with what differs between them."""
    found, contenders = trials_of(answer), {*answer.contenders.values(), BASELINE}
    columns = [each for each in found.columns if _is_news(answer, each)]
    trials = [each.row.trial for each in found.lines]
    others = [trial for trial in trials if trial not in contenders]
    shown = contenders.union(others[: shown_of(len(trials), most) - len(contenders)])
    kept = [place for place, trial in enumerate(trials) if trial in shown]
    more = len(trials) - len(kept)
    return _table(columns, found.lines, kept, f"and {more:,} more" if more else "")


def _is_news(answer: StudyAnswer, column: Column) -> bool:
    """Whether it is a knob that differs, or a metric of the rival far from the baseline's."""
    if column.of == "knob":
        return len({*column.cells}) > 1 or len(column.cells) == 1
    if column.of != "metric":
        return column.of == "number" and column.short is not None
    if column.heading not in _TELLING:
        return False
    rows = {row.trial: place for place, row in enumerate(answer.rows)}
    texts = [column.cells[rows[trial]].split("/")[0] for trial in answer.contenders.values()]
    try:
        base, other = (float(text.replace(",", "")) for text in texts)
    except ValueError:
        return False
    return is_changed(base, other)


def _table(
    columns: list[Column], lines: list[TrialLine], kept: Sequence[int], more: str = ""
) -> Part:
    """The rows at these places."""
    shown = [
        TextColumn(column.short, [column.cells[place] for place in kept])
        for column in columns
        if column.short is not None
    ]
    rows = [lines[place] for place in kept]
    shown.append(TextColumn("outcome", [each.outcome for each in rows], is_name=True))
    styles = [
        "bold" if each.is_best
        else "red" if each.row.failure is not None
        else "yellow" if each.row.broken
        else ""
        for each in rows
    ]  # fmt: skip
    return table_part(shown, styles, more)


def _words_part(words: WordsTable) -> Part:
    columns = zip(words.headings, zip(*words.rows, strict=True), strict=True)
    first, *others = (TextColumn(heading, cells) for heading, cells in columns)
    return table_part([first._replace(is_name=True), *others])
