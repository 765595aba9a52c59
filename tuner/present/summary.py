"""What a search prints at its end."""

from collections.abc import Iterator

from rich.console import Console

from tuner.decide.rules import VerdictKind
from tuner.present.failures import failure_lines
from tuner.present.front_table import front_for_terminal, front_sentence
from tuner.present.how_to_use import continuing, snippet_of
from tuner.present.sentences import sentences_of
from tuner.present.summary_parts import Part, code, files_line, line, print_parts, table
from tuner.present.tables import ratio_note, spare_columns, trials_table, why_table
from tuner.present.wording import verdict_sentence, worlds_text
from tuner.study.answer import StudyAnswer
from tuner.text import duration, plural

_COLOURS: dict[VerdictKind, str] = {"better": "bold green", "undecided": "bold yellow"}
"""Of verdicts that are not bold alone; where NO_COLOR is set, rich leaves colours out."""


def print_summary(answer: StudyAnswer, console: Console) -> None:
    """The table, the failures, the verdict, the lines to paste, and where the files are."""
    print_parts([*summary_parts(answer), line(files_line(answer.folder))], console)


def print_verdict(answer: StudyAnswer, console: Console) -> None:
    """The verdict alone."""
    print_parts([line(verdict_sentence(answer), verdict_style(answer))], console)


def summary_parts(answer: StudyAnswer) -> list[Part]:
    """All of the summary but where the files are, which is for whoever prints it."""
    return list(_parts(answer))


def _parts(answer: StudyAnswer) -> Iterator[Part]:
    yield table(trials_table(answer), spare_columns(answer))
    if note := ratio_note(answer):
        yield line(note)
    for failure in failure_lines(answer):
        yield line(failure, "red")
    yield line(verdict_sentence(answer), verdict_style(answer))
    yield from map(line, sentences_of(answer))
    if front := front_for_terminal(answer):
        yield line("")
        yield table(front)
        yield line(front_sentence(answer) or "")
    if why := why_table(answer):
        yield line("")
        yield table(why)
    if snippet := snippet_of(answer):
        yield line("")
        yield code(snippet.text, snippet.language)
    if more := continuing(answer):
        yield line("To continue measuring:\n")
        yield code(more.text, more.language)
    yield line(_measured(answer))


def verdict_style(answer: StudyAnswer) -> str:
    """How the verdict stands out on a terminal."""
    if answer.verdict is None:
        return "bold" if answer.interrupted else "bold red"
    return _COLOURS.get(answer.verdict, "bold")


def print_interruption(answer: StudyAnswer, console: Console) -> None:
    """The table as far as it goes, and where the report is."""
    parts = [table(trials_table(answer), spare_columns(answer))] if answer.blocks else []
    print_parts([*parts, line(files_line(answer.folder))], console)


def _measured(answer: StudyAnswer) -> str:
    here = answer.environment
    return (
        f"{worlds_text(answer)}, in {duration(answer.elapsed_s)}, "
        f"on {plural(here.cpu_count, 'logical CPU')} ({here.cpu_model}), torch {here.torch}."
    )
