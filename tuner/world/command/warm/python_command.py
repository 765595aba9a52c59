"""Which commands can be started warm: those that run a script or a module in Python."""

import re
import shutil
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

_INTERPRETER = re.compile(r"python(3(\.\d+)?)?")
_KEPT = "bBdOPqRsuW"
"""Options that the server is started with too, so that each has the effect that it has."""
_KEPT_X = {"dev", "faulthandler", "frozen_modules", "int_max_str_digits", "no_debug_ranges",
           "pycache_prefix", "utf8", "warn_default_encoding"}  # fmt: skip
_WITHOUT_HOOK = "EIS"


@dataclass(frozen=True)
class PythonCommand:
    """A command that runs a script or a module in Python."""

    interpreter: tuple[str, ...]
    """Python, and the options that are its own."""
    kind: str
    """`script` or `module`."""
    name: str
    """The script's path as it is given, or the module's name."""
    arguments: tuple[str, ...]


def recognise(
    command: Sequence[str], environment: Mapping[str, str], cwd: Path
) -> PythonCommand | str:
    """The parts of a command that can be started warm; of another one, a clause that says why not.
    The environment says where Python is."""
    if not command or _INTERPRETER.fullmatch(Path(command[0]).name) is None:
        return "it does not start with python"
    python = cwd / command[0] if "/" in command[0] else command[0]
    if shutil.which(python, path=environment.get("PATH")) is None:
        return f"{command[0]} cannot be started"
    after = 1
    for letter, value, place in _options(command):
        if letter == "m":
            # What is before -m in the same argument is an option too: `-um`.
            before = command[after][1 : command[after].index("m")]
            interpreter = (*command[:after], *([f"-{before}"] if before else []))
            return PythonCommand(interpreter, "module", value, tuple(command[place:]))
        if (problem := _problem(letter, value)) is not None:
            return problem
        after = place
    if after >= len(command) or command[after] == "-":
        return "it names no script"
    name = command[after]
    if not (cwd / name).is_file() or Path(name).suffix in {".pyc", ".zip", ".pyz"}:
        return f"{name} is no file of Python's source"
    return PythonCommand(tuple(command[:after]), "script", name, tuple(command[after + 1 :]))


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
    if letter == "c":
        return "it runs the code after -c"
    return f"the option -{letter} of python asks for another way of running"
