"""What a search prints at its end."""

import os
import textwrap
from pathlib import Path

from rich.console import Console
from rich.syntax import Syntax
from rich.text import Text

from tuner.present.front import front_for_terminal, front_sentence
from tuner.present.how_to_use import snippet_of
from tuner.present.sentences import sentences_of
from tuner.present.tables import failure_lines, ratio_note, trials_table, why_table
from tuner.present.wording import verdict_sentence
from tuner.study.answer import StudyAnswer
from tuner.text import duration, plural


def print_summary(answer: StudyAnswer, console: Console) -> None:
    """The table, the failures, the verdict, the lines to paste, and where the files are."""
    console.print(trials_table(answer))
    if note := ratio_note(answer):
        console.print(Text(note), soft_wrap=True)
    for line in failure_lines(answer):
        console.print(Text(line, style="red"), soft_wrap=True)
    console.print(Text(verdict_sentence(answer), style="bold"), soft_wrap=True)
    for sentence in sentences_of(answer):
        console.print(Text(sentence), soft_wrap=True)
    if front := front_for_terminal(answer):
        console.print()
        console.print(front)
        console.print(Text(front_sentence(answer) or ""), soft_wrap=True)
    if why := why_table(answer):
        console.print()
        console.print(why)
    if snippet := snippet_of(answer):
        code = textwrap.indent(snippet.text, "    ")
        syntax = Syntax("", snippet.language, theme="ansi_light", background_color="default")
        console.print()
        # Never cut at the edge of a narrow terminal: these lines are for pasting.
        console.print(syntax.highlight(code), soft_wrap=True)
    console.print(Text(_measured(answer)), soft_wrap=True)


def print_interruption(answer: StudyAnswer, console: Console) -> None:
    """The table as far as it goes, and where the report is."""
    if answer.blocks:
        console.print(trials_table(answer))
    console.print(Text(_files(answer)), soft_wrap=True)


def _measured(answer: StudyAnswer) -> str:
    return (
        f"{plural(answer.worlds, 'world')}, {plural(answer.blocks, 'block')} in "
        f"{duration(answer.elapsed_s)}, on {plural(answer.environment.cpu_count, 'logical CPU')} "
        f"({answer.environment.cpu_model}), "
        f"torch {answer.environment.torch}.\n{_files(answer)}"
    )


def _files(answer: StudyAnswer) -> str:
    """Where the report is, and the names of the other files of the study."""
    folder = answer.folder
    near = os.path.relpath(folder.root)
    root = folder.root.resolve() if near.startswith("..") else Path(near)
    others = (
        folder.recommended,
        folder.trials_csv,
        folder.figures,
        folder.traces,
        folder.failures,
        folder.database,
    )
    names = ", ".join(path.name for path in others if path.exists())
    report = f"Report: {root / folder.report.name}\n" if folder.report.exists() else ""
    return f"{report}In {root}: {names}"
