"""The commands that can be started warm, and what their files say that they import."""

import ast
import re
import shutil
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import takewhile
from pathlib import Path

from tuner.world.command.hook.rpc_tuner_hook import RPC_MODULE, read_at_import

_INTERPRETER = re.compile(r"python(3(\.\d+)?)?")
_ASSIGNMENT = re.compile(r"[A-Za-z_]\w*=")
_KEPT = "bBdOPqRsuW"
"""Options that the server is started with too, so that each has the effect that it has."""
_KEPT_X = {"dev", "faulthandler", "frozen_modules", "int_max_str_digits", "no_debug_ranges",
           "pycache_prefix", "utf8", "warn_default_encoding"}  # fmt: skip
_WITHOUT_HOOK = "EIS"


@dataclass(frozen=True)
class PythonCommand:
    """A command that runs a script, a module or the code after `-c` in Python."""

    interpreter: tuple[str, ...]
    """Python, and the options that are its own."""
    kind: str
    """`script`, `module` or `code`."""
    name: str
    """The script's path as it is given, the module's name, or the code."""
    arguments: tuple[str, ...]
    variables: tuple[tuple[str, str], ...] = ()
    """What `env NAME=VALUE` before it sets."""


def recognise(
    command: Sequence[str], environment: Mapping[str, str], cwd: Path
) -> PythonCommand | str:
    """The parts of a command that can be started warm; of another one, a clause that says why not.
    The environment says where Python is."""
    if command and Path(command[0]).name == "env":
        return _behind_env(command, environment, cwd)
    if not command or _INTERPRETER.fullmatch(Path(command[0]).name) is None:
        return "it does not start with python"
    python = cwd / command[0] if "/" in command[0] else command[0]
    if shutil.which(python, path=environment.get("PATH")) is None:
        return f"{command[0]} cannot be started"
    after = 1
    for letter, value, place in _options(command):
        if letter in "cm" and place <= len(command):
            # What is before it in the same argument is an option too: `-um`.
            before = command[after][1 : command[after].index(letter)]
            interpreter = (*command[:after], *([f"-{before}"] if before else []))
            kind = {"c": "code", "m": "module"}[letter]
            return PythonCommand(interpreter, kind, value, tuple(command[place:]))
        if (problem := _problem(letter, value)) is not None:
            return problem
        after = place
    if after >= len(command) or command[after] == "-":
        return "it names no script"
    name = command[after]
    if not (cwd / name).is_file() or Path(name).suffix in {".pyc", ".zip", ".pyz"}:
        return f"{name} is no file of Python's source"
    return PythonCommand(tuple(command[:after]), "script", name, tuple(command[after + 1 :]))


def _behind_env(
    command: Sequence[str], environment: Mapping[str, str], cwd: Path
) -> PythonCommand | str:
    """`recognise` of `env NAME=VALUE python ...`."""
    values = [*takewhile(_ASSIGNMENT.match, command[1:])]
    variables = dict(value.split("=", 1) for value in values)
    if early := sorted({"PATH", *read_at_import(variables)} & variables.keys()):
        return f"it sets {', '.join(early)}, which is read before the program is"
    parts = recognise(command[1 + len(values) :], environment, cwd)
    if isinstance(parts, str):
        return parts
    return replace(parts, variables=(*variables.items(), *parts.variables))


def _options(command: Sequence[str]) -> Iterator[tuple[str, str, int]]:
    """Each option of the interpreter: its letter, its value, and where the next argument is."""
    place = 1
    while place < len(command) and command[place].startswith("-") and command[place] != "-":
        argument = command[place]
        for at, letter in enumerate(argument[1:], start=1):
            if letter in "cmWX":
                value = argument[at + 1 :]
                if not value:
                    place += 1
                    value = command[place] if place < len(command) else ""
                yield letter, value, place + 1
                break
            # It takes effect with the rest of its argument.
            yield letter, "", place + (at == len(argument) - 1)
        place += 1


def _problem(letter: str, value: str) -> str | None:
    """Why an option of the interpreter rules a warm start out; None if it does not."""
    name = value.partition("=")[0]
    if letter in _KEPT or (letter == "X" and name in _KEPT_X):
        return None
    if letter == "X":
        return f"-X {name} looks at how Python starts"
    if letter in _WITHOUT_HOOK:
        return f"-{letter} keeps the hook out"
    return f"the option -{letter} of python asks for another way of running"


def named_modules(command: PythonCommand, cwd: Path) -> list[str]:
    """The modules that a program imports as it starts, in that order, as far as its own files name
    them, and RPC: what it imports only here and there, or from other folders, is not among them."""
    folder, found = cwd, dict[str, None]()
    seen = set[Path]()

    def read(source: str) -> None:
        try:
            body = ast.parse(source).body
        except (SyntaxError, ValueError):  # it may be of another version of Python
            return
        for name in (name for statement in body for name in _names(statement)):
            if (own := _own_files(folder, name)) is None:
                found[name] = None
            for path in own or ():
                read_file(path)

    def read_file(path: Path) -> None:
        if path not in seen:
            seen.add(path)
            with suppress(OSError, UnicodeDecodeError):
                read(path.read_text())

    if command.kind == "code":
        read(command.name)
    elif command.kind == "script":
        folder = (cwd / command.name).resolve().parent
        read_file(cwd / command.name)
    else:
        read(f"import {command.name}, {command.name}.__main__")
    return [*dict.fromkeys([*found, RPC_MODULE])]


def _names(statement: ast.stmt) -> Iterator[str]:
    """What a statement imports; of relative imports nothing."""
    if isinstance(statement, ast.Import):
        yield from (each.name for each in statement.names)
    elif isinstance(statement, ast.ImportFrom) and statement.module and not statement.level:
        yield statement.module
        yield from (f"{statement.module}.{each.name}" for each in statement.names)


def _own_files(folder: Path, name: str) -> list[Path] | None:
    """The files of a module of the program, those of its packages first; None if it has none."""
    files, place = list[Path](), folder
    for part in name.split("."):
        place /= part
        files += [each for each in (place / "__init__.py", place.with_suffix(".py"))
                  if each.is_file()]  # fmt: skip
    is_own = (folder / name.partition(".")[0]).is_dir() or files
    return files if is_own else None
