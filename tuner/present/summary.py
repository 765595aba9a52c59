"""The answer on a terminal: what a search prints at its end."""

from collections.abc import Iterator
from textwrap import fill

from rich.console import Console

from tuner.present.how_to_use import continuing, snippet_of
from tuner.present.sentences import sentences_of
from tuner.present.tables import WordsTable, front_of_answer, ratio_note, trials_of, why_of
from tuner.present.terminal import Part, code, column, files_line, line, print_parts, table
from tuner.present.wording import failure_lines, verdict_sentence, worlds_text
from tuner.study.answer import StudyAnswer
from tuner.text import duration, plural

_FACT, _HEADING = 14, 29
"""Letters of a fact's name in a line, and of a heading's word that is not broken: two of them have
room on 80 columns."""


def print_summary(answer: StudyAnswer, console: Console) -> None:
    """The table, the failures, the verdict, the lines to paste, and where the files are."""
    print_parts([*summary_parts(answer), files_line(answer.files)], console)


def print_verdict(answer: StudyAnswer, console: Console) -> None:
    """The verdict alone."""
    print_parts([_verdict(answer)], console)


def print_interruption(answer: StudyAnswer, console: Console) -> None:
    """The table as far as it goes, and where the report is."""
    parts = [trials_part(answer)] if answer.blocks else []
    print_parts([*parts, files_line(answer.files)], console)


def summary_parts(answer: StudyAnswer) -> list[Part]:
    """All of the summary but where the files are, which is for whoever prints it."""
    return list(_parts(answer))


def _parts(answer: StudyAnswer) -> Iterator[Part]:
    yield trials_part(answer)
    if note := ratio_note(answer):
        yield line(note)
    for failure in failure_lines(answer):
        yield line(failure, "red")
    yield _verdict(answer)
    yield from map(line, sentences_of(answer))
    if front := front_of_answer(answer):
        yield from (line(""), _front_part(front), line(front.note))
    if why := why_of(answer):
        yield from (line(""), _why_part(why))
    if snippet := snippet_of(answer):
        yield from (line(""), code(snippet.text, snippet.language))
    if more := continuing(answer):
        yield from (line("To continue measuring:\n"), code(more.text, more.language))
    here = answer.environment
    yield line(
        f"{worlds_text(answer)}, in {duration(answer.elapsed_s)}, "
        f"on {plural(here.cpu_count, 'logical CPU')} ({here.cpu_model}), torch {here.torch}."
    )


def _verdict(answer: StudyAnswer) -> Part:
    style = "bold"
    if answer.verdict in ("better", "undecided"):
        style = "bold green" if answer.verdict == "better" else "bold yellow"
    elif answer.verdict is None and not answer.interrupted:
        style = "bold red"
    return line(verdict_sentence(answer), style)


def trials_part(answer: StudyAnswer) -> Part:
    """The trials, the fastest first: a column per tuned knob, the best and the baseline marked.

    A narrow screen can do without the columns of metrics.
    """
    found = trials_of(answer)
    shown = [(place, each) for place, each in enumerate(found.columns) if each.folded is not None]
    columns = []
    for _, each in shown:
        header = each.folded or ""
        if each.of == "knob":
            # Where the screen is narrow the knobs' names are folded, never the numbers.
            columns.append(column(header, "right", overflow="fold"))
        else:
            least = max(map(len, [*header.split("\n"), *each.cells]))
            columns.append(column(header, "right", no_wrap=True, min_width=least))
    words = [word for line in found.lines for word in line.outcome.split()]
    columns.append(column("outcome", min_width=max(map(len, words), default=0)))
    rows = [
        (
            [*(line.cells[place] for place, _ in shown), line.outcome],
            "bold" if line.is_best
            else "red" if line.row.failure is not None
            else "yellow" if line.row.broken
            else "",
        )
        for line in found.lines
    ]  # fmt: skip
    spare = [place for place, (_, each) in enumerate(shown) if each.of == "metric"]
    return table(columns, rows, collapse_padding=True, spare=spare)


def _front_part(front: WordsTable) -> Part:
    first, *others = front.headings
    columns = [column(first, overflow="fold")]
    columns += [column(heading, "right", overflow="fold") for heading in others]
    return table(columns, [(row, "") for row in front.rows], title="Front")


def _why_part(why: WordsTable) -> Part:
    columns = [column("")]
    for heading in why.headings[1:]:
        # The name of a knob is not broken, if the screen has room.
        longest = min(max(map(len, heading.split())), _HEADING)
        columns.append(column(heading, ratio=1, overflow="fold", min_width=longest))
    rows = [((fill(name, _FACT), *texts), "") for name, *texts in why.rows]
    return table(columns, rows, title="Why")
