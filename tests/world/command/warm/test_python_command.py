"""What a program imports as it starts, by what its own files say."""

from pathlib import Path

import pytest

from tuner.world.command.warm.python_command import PythonCommand, named_modules

MAIN = """
import os, numpy.linalg as la
from models import Net
from own import layer
from . import sibling
if os.environ.get("DEBUG"):
    import pdb
try:
    import tensorboard
except ImportError:
    pass
def late():
    import pandas
if __name__ == "__main__":
    import argparse
"""
FILES = {
    "main.py": MAIN,
    "models.py": "from torch import nn\nimport main, broken\nimport torch.distributed.rpc as rpc",
    "own/__init__.py": "import json",
    "own/layer.py": "import torch.optim",
    "broken.py": "match = = 1",
}
NAMED = ["os", "numpy.linalg", "torch", "torch.nn", "torch.distributed.rpc", "json", "torch.optim"]
RPC = ["torch.distributed.rpc"]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name, text in FILES.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    return tmp_path


@pytest.mark.parametrize(
    ("kind", "name", "named"),
    [
        ("script", "main.py", NAMED),
        ("module", "main", NAMED),
        ("module", "own.layer", ["json", "torch.optim", *RPC]),
        ("module", "torch.distributed.run",
         ["torch.distributed.run", "torch.distributed.run.__main__", *RPC]),
        ("code", "import decimal, own; decimal.Decimal()", ["decimal", "json", *RPC]),
        ("code", "not Python", RPC),
    ],
)  # fmt: skip
def test_what_every_run_imports_is_named_and_what_only_some_do_is_not(
    folder: Path, kind: str, name: str, named: list[str]
) -> None:
    assert named_modules(PythonCommand(("python",), kind, name, ()), folder) == named


def test_the_files_beside_a_script_are_its_own_wherever_it_is_started(folder: Path) -> None:
    command = PythonCommand(("python",), "script", f"{folder.name}/main.py", ())
    assert named_modules(command, folder.parent) == NAMED
