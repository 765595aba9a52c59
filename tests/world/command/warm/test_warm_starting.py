"""Which commands can be started warm, and why others cannot."""

import os
from pathlib import Path

import pytest

from tuner.world.command.warm.python_command import PythonCommand, recognise


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "main.py").touch()
    (tmp_path / "python").touch(mode=0o700)
    return tmp_path


def recognised(command: str, folder: Path) -> PythonCommand | str:
    return recognise(command.split(), {"PATH": f"{folder}:{os.environ['PATH']}"}, folder)


@pytest.mark.parametrize(
    ("command", "interpreter", "kind", "name", "arguments"),
    [
        ("python main.py", "python", "script", "main.py", ""),
        ("./python main.py -c 1", "./python", "script", "main.py", "-c 1"),
        ("python -u -W ignore main.py -m x", "python -u -W ignore", "script", "main.py", "-m x"),
        ("python -Wignore -OO main.py", "python -Wignore -OO", "script", "main.py", ""),
        ("python -X dev -BX utf8=1 main.py", "python -X dev -BX utf8=1", "script", "main.py", ""),
        ("python -m package.main -S", "python", "module", "package.main", "-S"),
        ("python -s -um main 1 2", "python -s -u", "module", "main", "1 2"),
        ("python -mmain", "python", "module", "main", ""),
        ("python -W ignore -c pass -c 1", "python -W ignore", "code", "pass", "-c 1"),
        ("python -Buc pass - 1", "python -Bu", "code", "pass", "- 1"),
        ("python -cmain.c()", "python", "code", "main.c()", ""),
    ],
)
def test_a_script_a_module_or_code(
    command: str, interpreter: str, kind: str, name: str, arguments: str, folder: Path
) -> None:
    assert recognised(command, folder) == PythonCommand(
        tuple(interpreter.split()), kind, name, tuple(arguments.split())
    )


def test_what_env_sets_before_a_command_is_its_own(folder: Path) -> None:
    found = recognised("/usr/bin/env RANK=1 A= python -u main.py B=2", folder)
    own = (("RANK", "1"), ("A", ""))
    assert found == PythonCommand(("python", "-u"), "script", "main.py", ("B=2",), own)


@pytest.mark.parametrize(
    ("command", "why"),
    [
        ("env RANK=1 sh main.sh", "it does not start with python"),
        ("env -i python main.py", "it does not start with python"),
        ("env RANK=1", "it does not start with python"),
        ("env OMP_NUM_THREADS=1 PATH=/bin python main.py",
         "it sets OMP_NUM_THREADS, PATH, which is read before the program is"),
        ("torchrun main.py", "it does not start with python"),
        ("python-config main.py", "it does not start with python"),
        ("bin/python3 main.py", "bin/python3 cannot be started"),
        ("python -c", "the option -c of python asks for another way of running"),
        ("python -Ec pass", "-E keeps the hook out"),
        ("python", "it names no script"),
        ("python -", "it names no script"),
        ("python gone.py", "gone.py is no file of Python's source"),
        ("python .", ". is no file of Python's source"),
        ("python -E main.py", "-E keeps the hook out"),
        ("python -uI -m main", "-I keeps the hook out"),
        ("python -S main.py", "-S keeps the hook out"),
        ("python -i main.py", "the option -i of python asks for another way of running"),
        ("python --version", "the option -- of python asks for another way of running"),
        ("python -Ximporttime main.py", "-X importtime looks at how Python starts"),
    ],
)  # fmt: skip
def test_others_say_why(command: str, why: str, folder: Path) -> None:
    assert recognised(command, folder) == why
