"""What all commands share: how they end, how they are interrupted, how they write JSON."""

import re
import shlex
import shutil
import signal
import sys
from collections.abc import Sequence
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Annotated, Any

import orjson
import typer

from tuner.errors import TunerError, UsageError

if TYPE_CHECKING:
    from rich.console import Console

    from tuner.searching.progress import Observer, Snapshot


StorageOption = Annotated[
    str | None,
    typer.Option(
        "--storage", metavar="URL", help="The Optuna storage that the study was searched with."
    ),
]
"""Where a study is, for the commands that look at one."""

FolderOption = Annotated[
    Path | None,
    typer.Option("--out", metavar="DIR", help="The study's folder, where it is not studies/STUDY."),
]
"""Where a study's files are, for the same commands."""

RoleOption = Annotated[
    list[str] | None,
    typer.Option(
        "--role",
        metavar="ROLE=PATTERN",
        help="The RPC names of a role, as a regular expression. Default: the name without its "
        "digits.",
    ),
]
"""Which ranks have which role, for the commands that start a program; see `roles_of`."""


BesideOption = Annotated[
    list[str] | None,
    typer.Option(
        "--beside", metavar="COMMAND", help="A command to run beside the program, as one world."
    ),
]
"""Further commands, for those that run a program; see `commands_of`."""


def run(
    app: typer.Typer, arguments: list[str] | None, program: str, *, takes_program: bool = False
) -> int:
    """Run a command; returns the exit code and prints errors to stderr.

    `arguments` are those of this process if None; `program` is what `--help` calls it. Where it
    `takes_program`, what stands behind `--` is for `program_after_dashes`.
    """
    given = sys.argv[1:] if arguments is None else arguments
    dashes = given.index("--") if takes_program and "--" in given else len(given)
    try:
        app(args=given[:dashes], prog_name=program, standalone_mode=True, obj=given[dashes + 1 :])
    except SystemExit as end:
        if takes_program and end.code == 2 and (hint := _forgotten_dashes(given)):
            print(f"rpc-tuner: {hint}", file=sys.stderr)  # noqa: T201 - this is the terminal
        return end.code if isinstance(end.code, int) else 1
    except TunerError as error:
        print(f"rpc-tuner: {error}", file=sys.stderr)  # noqa: T201 - this is the terminal
        return error.exit_code
    return 0


def _forgotten_dashes(given: Sequence[str]) -> str:
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


def program_after_dashes(context: typer.Context) -> list[str]:
    """The program that a person names behind `--`. UsageError if there is none."""
    command: list[str] = context.obj
    if not command:
        raise UsageError("name a program behind --, such as: -- python main.py --world-size 3")
    return command


def commands_of(entries: list[str] | None) -> list[list[str]]:
    """The commands of `BesideOption`, each as a shell would split it; UsageError if it cannot."""
    commands = []
    for entry in entries or []:
        try:
            commands.append(shlex.split(entry))
        except ValueError as error:
            raise UsageError(f"--beside {entry!r}: {error}") from None
        if not commands[-1]:
            raise UsageError(f"--beside takes a command, got {entry!r}")
    return commands


def pairs_of(flag: str, entries: list[str]) -> list[tuple[str, str]]:
    """`NAME=VALUE` entries; UsageError for those that are not."""
    if wrong := [entry for entry in entries if "=" not in entry or entry.startswith("=")]:
        raise UsageError(f"{flag} takes NAME=VALUE, got {', '.join(map(repr, wrong))}")
    return [(name.strip(), value) for name, _, value in (e.partition("=") for e in entries)]


def roles_of(entries: list[str] | None) -> list[tuple[str, str]]:
    """The roles and patterns of `RoleOption`; UsageError for what is no regular expression."""
    pairs = pairs_of("--role", entries or [])
    for role, pattern in pairs:
        try:
            re.compile(pattern)
        except re.error as error:
            raise UsageError(
                f"--role {role}: {pattern!r} is not a regular expression: {error}"
            ) from None
    return pairs


def stdout_console(*, piped_width: int) -> "Console":
    """As wide as the terminal; what is piped goes to a file or a pager, with no screen to fit into.

    `piped_width` is in characters.
    """
    # Late: --help and a mistyped flag do not need it.
    from rich.console import Console

    return Console() if sys.stdout.isatty() else Console(width=piped_width)


def print_json(document: dict[str, Any]) -> None:
    """One JSON document on stdout; numpy's numbers and arrays too."""
    option = orjson.OPT_INDENT_2 | orjson.OPT_SERIALIZE_NUMPY
    sys.stdout.buffer.write(orjson.dumps(document, option=option) + b"\n")
    sys.stdout.flush()


class Interruption:
    """Ctrl-C and SIGTERM, each of which raises KeyboardInterrupt, and is also remembered.

    Python drops the exception where it happens to be running a destructor or a callback of the
    garbage collector, and a search would go on.
    """

    def __init__(self) -> None:
        self._is_asked_for = False
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, self._ask)

    def check(self) -> None:
        """KeyboardInterrupt if a signal has come."""
        if self._is_asked_for:
            raise KeyboardInterrupt

    def _ask(self, number: int, frame: FrameType | None) -> None:
        del number, frame
        self._is_asked_for = True
        raise KeyboardInterrupt


class Interruptible:
    """An observer that passes everything on, and ends the search once it was interrupted."""

    def __init__(self, observer: "Observer", interruption: Interruption) -> None:
        self._observer = observer
        self._interruption = interruption

    def on_snapshot(self, snapshot: "Snapshot") -> None:
        """Pass it on; KeyboardInterrupt if a signal has come."""
        self._interruption.check()
        self._observer.on_snapshot(snapshot)

    def on_event(self, message: str) -> None:
        """Pass it on."""
        self._observer.on_event(message)
