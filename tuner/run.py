"""`python -m tuner.run`: run a program with a configuration, without editing it."""

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer.core import TyperCommand

from tuner.command_line import RoleOption, pairs_of, program_after_dashes, roles_of, run
from tuner.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tuner.plan.config import Config

app = typer.Typer(add_completion=False, rich_markup_mode=None)

EPILOG = (
    "The exit code is the program's; 2 means that it was not started. Knobs that the configuration "
    "does not name stay as the program sets them."
)


class _WithProgram(TyperCommand):
    """A command whose usage names the program."""

    def collect_usage_pieces(self, context: Any) -> list[str]:
        """What stands behind the command's name."""
        return [*super().collect_usage_pieces(context), "-- COMMAND..."]


@app.command(cls=_WithProgram, epilog=EPILOG)
def run_program(
    context: typer.Context,
    recommended: Annotated[
        Path | None,
        typer.Argument(
            metavar="RECOMMENDED",
            show_default=False,
            help="A recommended.json, or an export to JSON or TOML; after -- the program.",
        ),
    ] = None,
    config: Annotated[
        list[str] | None,
        typer.Option(metavar="[ROLE.]KNOB=VALUE", help="A knob to set, instead of a file."),
    ] = None,
    role: RoleOption = None,
) -> None:
    """Run a program with an RPC configuration put under it; nothing of the program is changed."""
    command = program_after_dashes(context)
    if (recommended is None) == (not config):
        raise UsageError("name a recommended.json, or give --config KNOB=VALUE")
    # Late: --help and a mistyped flag must not wait for pydantic.
    from tuner.world.command import running

    chosen, known_roles = _chosen(recommended, config or [])
    roles = roles_of(role) or known_roles
    end = running.run_program(command, chosen, roles=roles)
    notes = end.report.notes("the configuration")
    if not end.report.ranks:
        notes.append("no process of the program called init_rpc, so nothing was configured")
    notes += end.unused(chosen)
    for note in notes:
        print(f"rpc-tuner: {note}", file=sys.stderr)  # noqa: T201 - this is the terminal
    raise typer.Exit(end.exit_code)


def _chosen(
    recommended: Path | None, entries: list[str]
) -> "tuple[Config, Sequence[tuple[str, str]]]":
    """The configuration, and the roles that it was found with."""
    from tuner.plan.draft import read_config
    from tuner.recommended.json_and_toml import read_recommendation

    if recommended is not None:
        found = read_recommendation(recommended)
        program = found.environment.program
        return found.config, program.role_patterns if program else ()
    return read_config(pairs_of("--config", entries)), ()


def main(arguments: list[str] | None = None, program: str = "python -m tuner.run") -> int:
    """Run the command; returns the exit code and prints errors to stderr."""
    return run(app, arguments, program, takes_program=True)


if __name__ == "__main__":
    sys.exit(main())
