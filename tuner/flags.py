"""What commands share that needs no package, for `tuner.run`: flags as plain values, and `say`."""

import errno
import itertools
import os
import re
import shlex
import shutil
import signal
import sys
from collections.abc import Collection, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TextIO

from tuner.errors import TunerError, UsageError
from tuner.files import head_of
from tuner.roles import pattern_problem
from tuner.text import listed, printable

# As of other commands, where what reads the output has ended, as `head` does.
_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO)
NOBODY_READS = 128 + signal.SIGPIPE
# What is looked at of a program: so many files of its folder and of its packages, so far each.
_MOST_FILES, _MOST_BYTES = 100, 1 << 20


def say(message: object, *, file: TextIO | None = None) -> None:
    """Print a line in which control characters are seen; on stdout unless `file` is given."""
    print(printable(str(message)), file=file, flush=True)


def let_go_of_pipes() -> int:
    """Print to nobody from now on, where nobody reads: Python would tell of it at its end."""
    nobody = os.open(os.devnull, os.O_WRONLY)
    for descriptor, stream in ((1, sys.stdout), (2, sys.stderr)):
        try:
            stream.flush()
        except (OSError, ValueError):
            os.dup2(nobody, descriptor)
    os.close(nobody)
    return NOBODY_READS


def cannot_print(error: OSError) -> int:
    """Say in one line that nothing can be printed, if that can; the error again for another one."""
    if error.filename or error.errno not in _FULL:
        raise error
    let_go_of_pipes()
    with suppress(OSError):
        say(f"rpc-tuner: cannot print: {error.strerror}", file=sys.stderr)
    let_go_of_pipes()
    return TunerError.exit_code


def print_version() -> None:
    """The version of the package that is installed."""
    # Late: it takes longer than everything else here.
    from importlib.metadata import version

    say(f"rpc-tuner {version('rpc-tuner')}")


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


def misplaced_flags(program: Sequence[str], ours: Collection[str]) -> str:
    """What to say of flags of this command, `ours`, that a program gets; empty if it gets none.

    A program may have flags of the same names: those that its folder's Python code names, in any
    spelling, are its own. Of what is no Python script nothing is known, and nothing is said.
    """
    script = next((place for place, word in enumerate(program) if _is_file(word)), len(program))
    own, _ = split_at_dashes(program[script + 1 :])
    behind = [word.partition("=")[0] for word in own]
    # Every program that takes flags takes --help.
    known = {flag for flag in ours if flag.startswith("--")} - {"--help"}
    found = [flag for flag in dict.fromkeys(behind) if flag in known]
    code = _code_beside(Path(program[script])) if found else ""
    if not (surely := [flag for flag in found if not _is_named(flag, code)]):
        return ""
    goes, it_is, it = ("goes", "it is", "it") if len(surely) == 1 else ("go", "they are", "them")
    return (
        f"{listed(surely)} {goes} to {Path(program[script]).name}, as all behind -- does; if "
        f"{it_is} for rpc-tuner, put {it} before --"
    )


def _is_named(flag: str, code: str) -> bool:
    """Whether Python code names a flag: as it is typed, as a string, or as a parameter."""
    name = re.escape(flag[2:]).replace(r"\-", "[-_]")
    return bool(re.search(rf"--{name}\b|(['\"]){name}\1|\b{name}\s*[:=,)]", code))


def _code_beside(script: Path) -> str:
    """The script and the Python files of its folder and of packages there, as far as readable."""
    files = [script]
    for pattern in ("*.py", "*/*.py"):
        files += itertools.islice(script.parent.glob(pattern), _MOST_FILES)
    return "\n".join(head_of(file, _MOST_BYTES).decode(errors="replace") for file in files)


def _is_file(word: str) -> bool:
    return word.endswith(".py") and os.path.isfile(word)  # noqa: PTH113 - any text may stand there


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
            command = shlex.split(entry)
        except ValueError as error:
            raise UsageError(f"--beside {entry!r}: {error}") from None
        if not command:
            raise UsageError(f"--beside takes a command, got {entry!r}")
        commands.append(command)
    return commands
