"""What a search prints at its end."""

import os

from rich.console import Console
from rich.padding import Padding
from rich.syntax import Syntax
from rich.text import Text

from tuner.decide.result import StudyAnswer
from tuner.plan.folder import StudyFolder
from tuner.plan.quantities import format_duration
from tuner.present.config import init_rpc_lines
from tuner.present.tables import failure_lines, trials_table, why_table
from tuner.present.wording import tied_sentence, verdict_sentence


def print_summary(result: StudyAnswer, console: Console) -> None:
    """The table, the failures, the verdict, the lines to paste, and where the files are."""
    console.print(trials_table(result))
    for line in failure_lines(result):
        console.print(Text(line, style="red"), soft_wrap=True)
    console.print(Text(verdict_sentence(result), style="bold"), soft_wrap=True)
    if tied := tied_sentence(result):
        console.print(Text(tied), soft_wrap=True)
    if why := why_table(result):
        console.print()
        console.print(why)
    if result.best is not None:
        code = init_rpc_lines(result.best, result.plan.workload)
        console.print()
        if console.is_terminal:
            syntax = Syntax(code, "python", theme="ansi_light", background_color="default")
            console.print(Padding(syntax, (0, 4)))
        else:
            console.print(
                Text("\n".join(f"    {line}" for line in code.split("\n"))), soft_wrap=True
            )
        console.print()
    console.print(Text(_measured(result)), soft_wrap=True)


def print_interruption(result: StudyAnswer, console: Console) -> None:
    """The table as far as it goes."""
    if result.blocks:
        console.print(trials_table(result))


def _measured(result: StudyAnswer) -> str:
    folder = StudyFolder(result.plan.out)
    names = ", ".join(
        path.name
        for path in (
            folder.database,
            folder.trials_csv,
            folder.recommended,
            folder.report,
            folder.figures,
            folder.traces,
        )
        if path.exists()
    )
    return (
        f"{result.worlds} worlds, {result.blocks} blocks in {format_duration(result.elapsed_s)}, "
        f"on {result.environment.cpu_count} cores ({result.environment.cpu_model}), "
        f"torch {result.environment.torch}.\n"
        f"In {os.path.relpath(folder.root)}: {names}"
    )
