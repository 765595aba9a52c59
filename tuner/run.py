"""`python -m tuner.run`: run a program with a configuration, without editing it.

Standard library only, so that it runs on hosts where torch is the only package: no typer here.
"""

import sys
from argparse import ArgumentParser
from collections.abc import Sequence
from pathlib import Path
from typing import NoReturn

from tuner.errors import TunerError, UsageError
from tuner.flags import (
    cannot_print,
    forgotten_dashes,
    let_go_of_pipes,
    misplaced_flags,
    pairs_of,
    print_version,
    program_of,
    roles_of,
    say,
    split_at_dashes,
)
from tuner.machine import BINDING_COMPARED, machine_differences, this_machine
from tuner.plan.config import read_config
from tuner.recommended.document import read_process_values
from tuner.roles import PATTERNS_HELP
from tuner.text import did_you_mean
from tuner.world.command import running

SUMMARY = "Run a program with an RPC configuration put under it; nothing of the program is changed."
RECOMMENDED_HELP = "A recommended.json, or an export to JSON or TOML; after -- the program."
CONFIG_HELP = "A knob to set, instead of a file."
EPILOG = (
    "The exit code is the program's; 2 means that it was not started. Knobs that the configuration "
    "does not name stay as the program sets them."
)


def run_program(
    command: list[str], recommended: Path | None, config: list[str], role: list[str]
) -> int:
    """Run a program with what one of `recommended` and `config` has; returns its exit code.

    Without a `role`, those that the file was searched with hold. UsageError if it cannot be run.
    """
    program_of(command)
    if (recommended is None) == (not config):
        raise UsageError("name a recommended.json, or give --config KNOB=VALUE")
    known_roles: Sequence[tuple[str, str]] = ()
    if recommended is None:
        named = chosen = read_config(pairs_of("--config", config))
    else:
        found = read_process_values(recommended)
        chosen, known_roles = found.whole_config, found.role_patterns
        named = found.config
        elsewhere = machine_differences(found.machine, this_machine(), BINDING_COMPARED)
        if chosen.binds and elsewhere:
            _warn(
                f"rpc-tuner: {recommended} binds ranks to CPUs of their own, and was measured "
                f"elsewhere (there, here): {'; '.join(elsewhere)}"
            )
    end = running.run_program(command, chosen, roles=roles_of(role) or known_roles)
    notes = end.notes
    if not end.report.ranks and not end.report.unmet:
        notes.append("no process of the program called init_rpc, so nothing was configured")
    for note in (*notes, *end.unused(named)):
        _warn(f"rpc-tuner: {note}")
    return end.exit_code


def _warn(message: str) -> None:
    say(message, file=sys.stderr)


class _Parser(ArgumentParser):
    """One that tells of mistakes as the other commands do."""

    def __init__(self, program: str) -> None:
        super().__init__(
            prog=program,
            usage=f"{program} [OPTIONS] [RECOMMENDED] -- COMMAND...",
            description=SUMMARY,
            epilog=EPILOG,
            add_help=False,
            allow_abbrev=False,
        )
        self.add_argument("recommended", metavar="[RECOMMENDED]", nargs="?", help=RECOMMENDED_HELP)
        options = self.add_argument_group("Options")
        for flag, metavar, text in (
            ("--config", "[ROLE.]KNOB=VALUE", CONFIG_HELP),
            ("--role", "ROLE=PATTERN", PATTERNS_HELP),
        ):
            options.add_argument(flag, metavar=metavar, action="append", default=[], help=text)
        options.add_argument(
            "-h", "--help", action="store_true", help="Show this message and exit."
        )
        self.flags = list(self._option_string_actions)

    def error(self, message: str) -> NoReturn:
        """Say what is wrong, and end with exit code 2."""
        _warn(f"Usage: {self.usage}\nTry '{self.prog} --help' for help.\n\nError: {message}")
        raise SystemExit(2)


def main(arguments: list[str] | None = None, program: str = "python -m tuner.run") -> int:
    """Run the command; returns the exit code and prints errors to stderr."""
    given = sys.argv[1:] if arguments is None else arguments
    own, command = split_at_dashes(given)
    parser = _Parser(program)
    try:
        if given == ["--version"]:
            print_version()
            return 0
        values, others = parser.parse_known_args(own)
        if values.help:
            # argparse writes its first word small.
            say(f"U{parser.format_help()[1:].rstrip()}")
            return 0
        if flags := [word.partition("=")[0] for word in others if word.startswith("-")]:
            parser.error(f"No such option: {flags[0]}{did_you_mean(flags[0], parser.flags)}")
        if others:
            parser.error(f"Got unexpected extra argument ({' '.join(others)})")
    except BrokenPipeError:
        return let_go_of_pipes()
    except OSError as error:
        return cannot_print(error)
    except SystemExit as end:
        if hint := forgotten_dashes(given):
            _warn(f"rpc-tuner: {hint}")
        return end.code if isinstance(end.code, int) else 1
    if hint := misplaced_flags(command, parser.flags):
        _warn(f"rpc-tuner: {hint}")
    recommended = None if values.recommended is None else Path(values.recommended)
    try:
        return run_program(command, recommended, values.config, values.role)
    except TunerError as error:
        _warn(f"rpc-tuner: {error}")
        return error.exit_code


if __name__ == "__main__":
    sys.exit(main())
