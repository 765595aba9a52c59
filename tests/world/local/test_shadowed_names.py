"""Folders where a person has a `workloads` or a `tuner` of their own."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = [pytest.mark.world, pytest.mark.thorough]

ROOT = Path(__file__).parents[3]
RPC_TUNER = Path(sys.executable).with_name("rpc-tuner")
PYTHON = Path(sys.executable)

OWN = """
from tuner import Rank, Workload

class Own(Workload):
    def ranks(self):
        return [Rank("worker0", "caller")]

    def step(self, world):
        pass
"""

# Without a main guard.
ONE_WORLD = """
from testing.fakes import order
from tuner.world.local.local_launcher import LocalLauncher
with LocalLauncher() as launcher:
    print(launcher.run(order(launcher.describe("own.py:Own", {}), steps=2)).kind)
    print(*launcher.describe("udf", {}).roles)
    launcher.describe("workloads.mine:Own", {})
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with a workload, and with a package `workloads` that is not ours."""
    (tmp_path / "own.py").write_text(OWN)
    package = tmp_path / "workloads"
    package.mkdir()
    (package / "__init__.py").write_text("MINE = 1\n")
    (package / "mine.py").write_text(OWN)
    return tmp_path


def run(folder: Path, *command: str | Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command, cwd=folder, env={**os.environ, "PYTHONPATH": str(ROOT)}, capture_output=True,
        text=True, timeout=300,
    )  # fmt: skip


@pytest.mark.parametrize("is_script", [False, True])
def test_a_world_runs_in_such_a_folder(folder: Path, is_script: bool) -> None:
    """The person's own workload is measured, the shipped ones are found, and the hidden module is
    reported. The current folder comes first; or it is not looked in, as for a console script."""
    hidden, script = "workloads", folder / "bin" / "one_world.py"
    if is_script:
        (folder / "tuner.py").write_text("raise RuntimeError('not this one')\n")
        (folder / "workloads").rename(folder / "others")
        hidden = "workloads.py"
        (folder / hidden).write_text("MINE = 1\n")
        listed = run(folder, RPC_TUNER, "search", "--list-workloads", "--json")
        assert '"parameter_server"' in listed.stdout, listed.stderr
    script.parent.mkdir()
    for file in (script, folder / script.name):
        file.write_text(ONE_WORLD)
    done = run(folder, PYTHON, *([script] if is_script else ["-m", "one_world"]))
    assert done.stdout == "measurement\ncaller server\n", done.stderr
    told = f"rpc-tuner has a package workloads of its own, which hides {folder}/{hidden}: rename"
    assert told in done.stderr


def test_the_contract_is_imported_from_tuner_unless_another_one_is_there(folder: Path) -> None:
    ours = "from tuner import Rank, Workload, WorkloadError, World\nimport workloads\n"
    done = run(folder, PYTHON, "-c", f"{ours}print(workloads.Rank is Rank)")
    assert done.stdout == "True\n", done.stderr
    done = run(folder, PYTHON, "-c", "import workloads\nfrom tuner import Rank")
    told = f"ImportError: rpc-tuner needs its own package workloads, and {folder}/workloads"
    assert told in done.stderr
