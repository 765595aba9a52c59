"""The answer on a terminal: on one screen, or all of it."""

from collections.abc import Iterator

from rich.console import Console

from tuner.present.how_to_use import continuing, few_lines_of, snippet_of
from tuner.present.sentences import advice_of, limit_sentences, sentences_of, why_sentences
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
from tuner.present.wording import failure_lines, verdict_sentence, worlds_text
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
_EXPLAINING = 1.25
"""A metric explains something where the best's is so many times the baseline's, or less."""


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
    pasted = (("To use it:", few_lines_of(answer)), ("To go on:", continuing(answer)))
    height = 1  # where the page is
    for title, snippet in pasted:
        if snippet is not None:
            below += [line(title), code(snippet.text, snippet.language)]
            height += snippet.text.count("\n") + 2
    if said and not any(snippet for _, snippet in pasted):
        below.append(line(""))
    height += sum(height_of(part, _WIDTH) for part in [*above, *below] if "code" not in part)
    # The heading, the rule, and how many more there are.
    rows = max(_LEAST_ROWS, min(_MOST_ROWS, _MOST_LINES - height - 4))
    yield from [*above, _few_trials(answer, rows), *below]


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
    for title, pasted in (
        ("To use it:", snippet_of(answer)), ("To go on:", continuing(answer))
    ):  # fmt: skip
        if pasted is not None:
            yield from (line(""), line(title), line(""), code(pasted.text, pasted.language))
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
    return _table(found.columns, found.lines)


def _few_trials(answer: StudyAnswer, most: int = _MOST_ROWS) -> Part:
    """The trials on one screen: the knobs that differ, the time, the ratio, the outcome.

    A metric only where it differs between the baseline and the best. Of many trials those nearest
    to the best, and the baseline.
    """
    found = trials_of(answer)
    kept = [place for place, each in enumerate(found.columns) if _is_news(answer, each)]
    lines = found.lines
    if len(lines) > most:
        contenders = {*answer.contenders.values(), BASELINE}
        others = [each for each in lines if each.row.trial not in contenders]
        near = {each.row.trial for each in others[: most - len(contenders)]}
        lines = [each for each in lines if each.row.trial in contenders | near]
    shown = [found.columns[place] for place in kept]
    cut = [each._replace(cells=tuple(each.cells[place] for place in kept)) for each in lines]
    more = len(found.lines) - len(lines)
    return _table(shown, cut, f"and {more:,} more" if more else "")


def _is_news(answer: StudyAnswer, column: Column) -> bool:
    """Whether a column belongs on one screen.

    A knob that differs does, and a metric of the best, or of the challenger, that is far from the
    baseline's.
    """
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
    return not base / _EXPLAINING < other < base * _EXPLAINING


def _table(columns: list[Column], lines: list[TrialLine], more: str = "") -> Part:
    texts = list(zip(*(each.cells for each in lines), strict=True)) or [()] * len(columns)
    shown = [
        TextColumn(column.short, cells)
        for column, cells in zip(columns, texts, strict=True)
        if column.short is not None
    ]
    shown.append(TextColumn("outcome", [each.outcome for each in lines], is_name=True))
    styles = [
        "bold" if each.is_best
        else "red" if each.row.failure is not None
        else "yellow" if each.row.broken
        else ""
        for each in lines
    ]  # fmt: skip
    return table_part(shown, styles, more)


def _words_part(words: WordsTable) -> Part:
    columns = zip(words.headings, zip(*words.rows, strict=True), strict=True)
    first, *others = (TextColumn(heading, cells) for heading, cells in columns)
    return table_part([first._replace(is_name=True), *others])
