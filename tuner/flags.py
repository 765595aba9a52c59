"""What commands share that needs no package, for `tuner.run`: flags as plain values, and `say`."""

import shlex
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import TextIO

from tuner.errors import UsageError
from tuner.patterns import pattern_problem
from tuner.text import printable

ROLE_HELP = (
    "The RPC names of a role, as a regular expression. Default: the name without its digits."
)


def say(message: object, *, file: TextIO | None = None) -> None:
    """Print a line in which control characters are seen; on stdout unless `file` is given."""
    print(printable(str(message)), file=file, flush=True)


def split_at_dashes(given: Sequence[str]) -> tuple[list[str], list[str]]:
    """A command's own arguments, and the program behind `--`; that is empty if there is none."""
    dashes = list(given).index("--") if "--" in given else len(given)
    return list(given[:dashes]), list(given[dashes + 1 :])


def program_of(command: list[str]) -> list[str]:
    """The program that a person names behind `--`. UsageError if there is none."""
    if not command:
        raise UsageError("name a program behind --, such as: -- python main.py --world-size 3")
    return command


def forgotten_dashes(given: Sequence[str]) -> str:
    """What to type where a command stands among the flags, without `--`; empty if none does."""
    if "--" in given:
        return ""
    for before, word, place in zip(["", *given], given, range(len(given)), strict=False):
        is_python = Path(word).name.startswith("python") or Path(word).suffix == ".py"
        # The value of a flag may have the name of some command.
        if (is_python or not before.startswith("-")) and (shutil.which(word) or _is_file(word)):
            return f"put -- before the command: -- {shlex.join(given[place:])}"
    return ""


def _is_file(word: str) -> bool:
    return Path(word).suffix == ".py" and Path(word).is_file()


def pairs_of(flag: str, entries: list[str]) -> list[tuple[str, str]]:
    """`NAME=VALUE` entries; UsageError for those that are not."""
    if wrong := [entry for entry in entries if "=" not in entry or entry.startswith("=")]:
        raise UsageError(f"{flag} takes NAME=VALUE, got {', '.join(map(repr, wrong))}")
    return [(name.strip(), value) for name, _, value in (e.partition("=") for e in entries)]


def roles_of(entries: list[str] | None) -> list[tuple[str, str]]:
    """The roles and patterns of `--role`; UsageError for what is no regular expression."""
    pairs = pairs_of("--role", entries or [])
    for role, pattern in pairs:
        if problem := pattern_problem(pattern):
            raise UsageError(f"--role {role}: {pattern!r} is not a regular expression: {problem}")
    return pairs


def commands_of(entries: list[str] | None) -> list[list[str]]:
    """The commands of `--beside`, each as a shell would split it; UsageError if it cannot."""
    commands = []
    for entry in entries or []:
        try:
            commands.append(shlex.split(entry))
        except ValueError as error:
            raise UsageError(f"--beside {entry!r}: {error}") from None
        if not commands[-1]:
            raise UsageError(f"--beside takes a command, got {entry!r}")
    return commands
