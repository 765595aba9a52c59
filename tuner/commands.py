"""All commands as one: `rpc-tuner <command>`, each of which is imported where it is asked for."""

import importlib
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from typer.core import TyperGroup

from tuner.flags import print_version
from tuner.text import command, did_you_mean

if TYPE_CHECKING:
    from typer._click import Command, Context, HelpFormatter

SUMMARIES = {
    "init": "Write a workload, a program or a plan to begin with.",
    "search": "Find the best configuration.",
    "record": "Record the calls of a program.",
    "run": "Run a program with a configuration.",
    "analyze": "Show what existing traces hold.",
    "list": "List the studies that are there.",
    "show": "Print the answer of a study again.",
    "report": "Write the page of a study, or of several.",
    "export": "Write a configuration as JSON, TOML, Python.",
    "dashboard": "Show studies in optuna-dashboard.",
}
"""The commands, in the order in which a person meets them."""
_ELSEWHERE = {
    "check": ("search", "--check", "STUDY"),
    "help": ("--help",),
    "version": ("--version",),
}
"""Commands that one may look for, and where they are."""


class _Commands(TyperGroup):
    """Imports one command, and none to list them all; see `typer.core.TyperGroup`."""

    def list_commands(self, ctx: "Context") -> list[str]:
        return list(SUMMARIES)

    def get_command(self, ctx: "Context", cmd_name: str) -> "Command | None":
        if cmd_name not in SUMMARIES:
            return None
        if cmd_name == "run":
            return typer.main.get_command(_run_app())
        return typer.main.get_command(importlib.import_module(f"tuner.{cmd_name}").app)

    def resolve_command(
        self, ctx: "Context", args: list[str]
    ) -> "tuple[str | None, Command | None, list[str]]":
        name = args[0]
        if name not in SUMMARIES and not name.startswith("-"):
            elsewhere = _ELSEWHERE.get(name)
            is_near = did_you_mean(name, list(SUMMARIES))
            if elsewhere is not None:
                is_flag = elsewhere[0].startswith("-")
                is_near = f"; it is {ctx.command_path} {elsewhere[0]}" if is_flag else (
                    f"; it is {command(*elsewhere)}"
                )  # fmt: skip
            ctx.fail(f"No such command {name!r}{is_near}")
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: "Context", formatter: "HelpFormatter") -> None:
        with formatter.section("Commands"):
            formatter.write_dl(list(SUMMARIES.items()))


app = typer.Typer(
    cls=_Commands,
    rich_markup_mode=None,
    help="Find the best torch.distributed.rpc configuration for a program, and say why.",
)


def _print_version(is_asked_for: bool) -> None:
    if is_asked_for:
        print_version()
        raise typer.Exit


@app.callback()
def _options(
    show_version: Annotated[bool, typer.Option("--version", help="Print the version.",
        is_eager=True, callback=_print_version)] = False,
) -> None:  # fmt: skip
    """Take the options before a command; the version is printed as it is read."""


def _run_app() -> typer.Typer:
    """The flags of `tuner.run`, which has no typer of its own, for the shell's completion.

    `tuner.__main__` runs it.
    """
    from tuner import run
    from tuner.plan_flags import RoleOption

    own = typer.Typer(add_completion=False, rich_markup_mode=None)

    @own.command("run", help=run.SUMMARY, epilog=run.EPILOG)
    def run_program(
        recommended: Annotated[Path | None, typer.Argument(metavar="RECOMMENDED",
            show_default=False, help=run.RECOMMENDED_HELP)] = None,
        config: Annotated[list[str] | None, typer.Option(metavar="[ROLE.]KNOB=VALUE",
            help=run.CONFIG_HELP)] = None,
        role: RoleOption = None,
    ) -> None: ...  # fmt: skip

    return own
