"""What a program needs on its ranks works with torch alone, and what torch itself needs."""

import json
import re
from pathlib import Path

import pytest

import tuner
from tests.plan.specs import threads
from tests.programs.running import PROGRAMS, free_port
from tests.recommended.documents import recommendation
from tests.torch_alone import run_in, torch_alone
from tests.world.command.recorded import recorded
from tuner.recommended.model import as_json

pytestmark = [pytest.mark.world, pytest.mark.thorough]

FOREIGN = """
import importlib.util, sys
print([name for name in {names!r} if importlib.util.find_spec(name)])
"""

PROFILED = """
import os, sys
import torch
import torch.distributed.rpc as rpc
import torch.multiprocessing as mp
import tuner

def run(rank, port, path):
    os.environ["MASTER_PORT"] = port
    rpc.init_rpc(f"worker{rank}", rank=rank, world_size=2)
    if rank == 0:
        with tuner.profile() as prof:
            for _ in range(5):
                rpc.rpc_sync("worker1", torch.add, args=(torch.ones(2), 1))
        prof.export_perfetto(path)
        try:
            prof.table()
        except tuner.MissingPackageError as error:
            print(error)
    rpc.shutdown()

if __name__ == "__main__":
    mp.spawn(run, args=tuple(sys.argv[1:]), nprocs=2)
"""


@pytest.fixture(scope="module")
def python(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return torch_alone(tmp_path_factory.mktemp("alone"))


@pytest.fixture
def recommended(tmp_path: Path) -> Path:
    path = tmp_path / "recommended.json"
    path.write_text(as_json(recommendation(threads(3))))
    return path


def test_the_environment_has_nothing_else(python: Path) -> None:
    names = ["pandas", "pydantic", "msgspec", "psutil", "typer", "optuna"]
    done = run_in(python, "-c", FOREIGN.format(names=names))
    assert done.stdout == "[]\n", done.stderr


def test_options_are_loaded(python: Path, recommended: Path) -> None:
    script = "import sys, tuner; print(tuner.load_rpc_options(sys.argv[1]).num_worker_threads)"
    done = run_in(python, "-c", script, str(recommended))
    assert done.stdout == "3\n", done.stderr


def test_a_program_is_run_with_a_configuration(python: Path, recommended: Path) -> None:
    program = ["--", str(python), "-W", "ignore", str(PROGRAMS / "own_options.py"), free_port()]
    done = run_in(python, "-m", "tuner", "run", str(recommended), *program)
    assert done.returncode == 0, done.stderr
    found = re.findall(r"rpc-tuner: (\S+) has (.*)$", done.stderr, re.MULTILINE)
    assert dict(found) == {
        "trainer0": "num_worker_threads=3", "trainer1": "num_worker_threads=3"
    }  # fmt: skip


def test_its_calls_are_recorded(python: Path) -> None:
    run = recorded(str(python), "-W", "ignore", str(PROGRAMS / "own_options.py"), free_port())
    assert run.end.exit_code == 0
    assert run.trace.losses == ()
    assert len(run.trace.calls) == run.counted == 5
    assert set(run.trace.calls["link"]) == {"exact"}


def test_a_profile_is_exported_and_read_elsewhere(python: Path, tmp_path: Path) -> None:
    program, path = tmp_path / "profiled.py", tmp_path / "trace.json"
    program.write_text(PROFILED)
    done = run_in(python, str(program), free_port(), str(path))
    assert done.returncode == 0, done.stderr
    assert done.stdout.endswith(
        " is not installed here: install it with python -m pip install 'rpc-tuner', or do this "
        "where it is (a rank of a program needs torch alone)\n"
    )
    assert json.loads(path.read_text())["rpc_tuner"]["format"] == 2
    assert (
        list(tuner.read_trace(path).calls["name"].astype(str))
        == ["rpc_sync#aten::add(worker0 -> worker1)"] * 5
    )


@pytest.mark.parametrize("command", [["-m", "tuner"], ["-m", "tuner", "search"]])
def test_a_command_that_needs_more_says_what(python: Path, command: list[str]) -> None:
    done = run_in(python, *command)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith("rpc-tuner: typer is not installed here: install it with ")
    assert done.stderr.count("\n") == 1


def test_a_function_that_needs_more_says_what(python: Path) -> None:
    done = run_in(python, "-c", "import tuner; tuner.tune")
    assert "is not installed here: install it with python -m pip install" in done.stderr
