"""`python -m tuner <command>`, and the console script `rpc-tuner`."""

import sys
from typing import Annotated

import typer

from tuner import analyze, dashboard, export, record, report, run, search, show
from tuner import list as listing
from tuner.command_line import run as run_command

app = typer.Typer(
    add_completion=False,
    rich_markup_mode=None,
    help="Find the best torch.distributed.rpc configuration for a program, and say why.",
)
for module, command, summary in (
    (search, search.search, "Find the best configuration."),
    (record, record.record, "Record the calls of a program."),
    (run, run.run_program, "Run a program with a configuration."),
    (analyze, analyze.analyze, "Show what existing traces hold."),
    (listing, listing.list_studies, "List the studies that are there."),
    (show, show.show, "Print the answer of a study again."),
    (report, report.report, "Write the page of a study, or of several."),
    (export, export.export, "Write a configuration as JSON, TOML, Python."),
    (dashboard, dashboard.dashboard, "Show studies in optuna-dashboard."),
):
    name = module.__name__.rpartition(".")[2]
    app.command(name, epilog=module.EPILOG, short_help=summary)(command)


def _print_version(is_asked_for: bool) -> None:
    if is_asked_for:
        # Late: it takes longer than everything else here.
        from importlib.metadata import version

        print(f"rpc-tuner {version('rpc-tuner')}")  # noqa: T201 - this is the terminal
        raise typer.Exit


@app.callback()
def _options(
    show_version: Annotated[
        bool,
        typer.Option(
            "--version", help="Print the version.", is_eager=True, callback=_print_version
        ),
    ] = False,
) -> None:
    """Take the options before a command; the version is printed as it is read."""


def main(arguments: list[str] | None = None) -> int:
    """Run the command that the arguments name first; returns the exit code."""
    given = (sys.argv[1:] if arguments is None else arguments) or ["--help"]
    return run_command(
        app, given, "rpc-tuner", takes_program=given[0] in ("search", "record", "run")
    )


if __name__ == "__main__":
    sys.exit(main())
