"""`python -m tuner.show`: the answer of a study, as its search printed it."""

import sys
from typing import Annotated

import typer

from tuner import completing
from tuner.command_line import Command, FolderOption, StorageOption, print_json, run, stdout_console

app = typer.Typer(add_completion=False, rich_markup_mode=None)

EPILOG = (
    "Of a search that still runs, or was interrupted, it prints how far that is. Exit codes: 0 "
    "shown, 1 internal error, 2 bad usage or bad input."
)


@app.command(cls=Command, epilog=EPILOG)
def show(
    study: Annotated[
        str,
        typer.Argument(
            metavar="STUDY",
            show_default=False,
            autocompletion=completing.study,
            help="A study's name, or the path of its folder.",
        ),
    ],
    storage: StorageOption = None,
    out: FolderOption = None,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON document on stdout.")] = False,
) -> None:
    """Print the answer of a study again: table, verdict, reasons and the lines to paste."""
    # Late: --help and a mistyped flag must not wait for rich, and a kept answer not for Optuna.
    from tuner.present.answer_file import find_kept_answer
    from tuner.present.summary_parts import files_line, line, print_parts

    kept = None if storage is not None else find_kept_answer(study, out)
    if kept is not None and as_json:
        print_json(kept.document)
        return
    if kept is not None and kept.is_seen_from_here:
        parts = [*kept.parts, line(files_line(kept.folder))]
        print_parts(parts, stdout_console())
        return
    from tuner.present.summary import print_summary
    from tuner.study.finding import find_study

    answer = find_study(study, storage=storage, out=out)
    if as_json:
        print_json(answer.to_json())
    else:
        print_summary(answer, stdout_console())


def main(arguments: list[str] | None = None, program: str = "python -m tuner.show") -> int:
    """Run the command; returns the exit code and prints errors to stderr."""
    return run(app, arguments, program)


if __name__ == "__main__":
    sys.exit(main())
