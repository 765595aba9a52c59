"""What a program needs on its ranks works with torch alone, and what torch itself needs."""

import json
import re
import subprocess
import sys
import venv
from importlib.metadata import distribution
from pathlib import Path

import pytest

import tuner
from testing.programs import PROGRAMS, free_port
from testing.specs import threads
from tests.recommended.documents import recommendation
from tests.world.command.recorded import recorded
from tuner.recommended.model import as_json

pytestmark = [pytest.mark.world, pytest.mark.thorough]

ROOT = Path(__file__).parents[1]
SITE = f"lib/python{sys.version_info.major}.{sys.version_info.minor}/site-packages"

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
    """The interpreter of an environment with torch, what torch needs, and this package."""
    folder = tmp_path_factory.mktemp("alone")
    venv.create(folder, with_pip=False, symlinks=True)
    site = folder / SITE
    # torch does not require NumPy, but its `init_rpc` does.
    for name in required_by("torch") | {"numpy"}:
        for top in tops_of(name):
            if top.exists() and not (site / top.name).exists():
                (site / top.name).symlink_to(top)
    # What pip knows of this package, which may be installed from another folder.
    (known,) = (top for top in tops_of("rpc-tuner") if top.suffix == ".dist-info")
    (site / known.name).symlink_to(known)
    (site / "ours.pth").write_text(f"{ROOT}\n")
    return folder / "bin" / "python"


def required_by(name: str, seen: frozenset[str] = frozenset()) -> frozenset[str]:
    """The distribution and all that it requires, extras and other systems' needs left out."""
    if name in seen:
        return seen
    seen |= {name}
    for requirement in distribution(name).requires or []:
        wanted, _, condition = requirement.partition(";")
        if not re.search("extra|platform_|python_version", condition):
            seen = required_by(re.split(r"[^\w.-]", wanted.strip(), maxsplit=1)[0], seen)
    return seen


def tops_of(name: str) -> set[Path]:
    """What a distribution has in `site-packages`."""
    found = distribution(name)
    parts = {Path(file).parts[0] for file in found.files or [] if ".." not in Path(file).parts}
    return {Path(str(found.locate_file(part))) for part in parts - {"__pycache__"}}


def run_in(python: Path, *arguments: str) -> "subprocess.CompletedProcess[str]":
    """Run the environment's interpreter, with nothing of this process's paths."""
    names = {"TP_SOCKET_IFNAME": "lo", "GLOO_SOCKET_IFNAME": "lo", "MASTER_ADDR": "localhost"}
    return subprocess.run(
        [str(python), "-W", "ignore", *arguments], capture_output=True, text=True,
        env={"PATH": "/usr/bin:/bin", **names}, timeout=200,
    )  # fmt: skip


def test_options_are_loaded_and_a_program_is_run_with_a_configuration(
    python: Path, tmp_path: Path
) -> None:
    path = tmp_path / "recommended.json"
    path.write_text(as_json(recommendation(threads(3))))
    script = "import sys, tuner; print(tuner.load_rpc_options(sys.argv[1]).num_worker_threads)"
    done = run_in(python, "-c", script, str(path))
    assert done.stdout == "3\n", done.stderr
    program = ["--", str(python), "-W", "ignore", str(PROGRAMS / "own_options.py"), free_port()]
    done = run_in(python, "-m", "tuner", "run", str(path), *program)
    assert done.returncode == 0, done.stderr
    for rank in (0, 1):
        assert f"rpc-tuner: trainer{rank} has num_worker_threads=3\n" in done.stderr


def test_its_calls_are_recorded(python: Path) -> None:
    run = recorded(str(python), "-W", "ignore", str(PROGRAMS / "own_options.py"), free_port())
    assert (run.end.exit_code, run.trace.losses) == (0, ())
    assert len(run.trace.calls) == run.counted == 5


def test_a_profile_is_exported_and_read_elsewhere(python: Path, tmp_path: Path) -> None:
    program, path = tmp_path / "profiled.py", tmp_path / "trace.json"
    program.write_text(PROFILED)
    done = run_in(python, str(program), free_port(), str(path))
    assert done.returncode == 0, done.stderr
    assert done.stdout.endswith(
        " is not installed here: install it with python -m pip install 'rpc-tuner', or do this "
        "where it is. A rank of a program needs torch alone\n"
    )
    assert json.loads(path.read_text())["rpc_tuner"]["format"] == 2
    names = tuner.read_trace(path).calls["name"].astype(str)
    assert list(names) == ["rpc_sync#aten::add(worker0 -> worker1)"] * 5


def test_what_needs_more_says_so(python: Path) -> None:
    for command in (["-m", "tuner"], ["-m", "tuner", "search"]):
        done = run_in(python, *command)
        assert (done.returncode, done.stdout, done.stderr.count("\n")) == (1, "", 1)
        assert done.stderr.startswith("rpc-tuner: typer is not installed here: install it with ")
    done = run_in(python, "-c", "import tuner; tuner.tune")
    assert "is not installed here: install it with python -m pip install" in done.stderr
