"""From a search to agents that have the threads it recommends, in programs of their own."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.commands.running import Done, environment
from tests.programs.running import free_port
from tuner import export

pytestmark = [pytest.mark.world, pytest.mark.thorough]

# What a person writes with the exports to JSON and TOML.
PROGRAM = """
import os, sys, warnings
import torch
import torch.distributed.rpc as rpc
import tuner

name, role, rank, *exports = sys.argv[1:]
warnings.simplefilter("error", tuner.EnvironmentWarning)
torch.set_num_threads(1)
for path, os.environ["MASTER_PORT"] in zip(exports[::2], exports[1::2]):
    options = tuner.load_rpc_options(path, role=role)
    rpc.init_rpc(name, rank=int(rank), world_size=2, rpc_backend_options=options)
    threads = rpc.api._get_current_rpc_agent().get_debug_info()["agent.thread_pool_size"]
    print(f"{name}: num_worker_threads={threads}")
    rpc.shutdown()
"""

# Runs exports to Python as `python MODULE` does: they are programs by themselves.
MODULES = """
import os, runpy, sys

exports = sys.argv[4:]
for path, os.environ["MASTER_PORT"] in zip(exports[::2], exports[1::2]):
    sys.argv = [path]
    runpy.run_path(path, run_name="__main__")
assert not {name.partition(".")[0] for name in sys.modules} & {"tuner", "workloads"}
"""


@pytest.fixture
def searched(real_search: tuple[Done, Path]) -> Path:
    """The folder of a study that was searched."""
    return real_search[1]


def started(program: str, *paths: Path) -> list[subprocess.Popen[str]]:
    """A caller and a server, two fresh processes that start RPC with each export in turn."""
    ports = [free_port() for _ in paths]
    loaded = [text for path, port in zip(paths, ports, strict=True) for text in (str(path), port)]
    running = []
    for rank, role in enumerate(("caller", "server")):
        running.append(
            subprocess.Popen(
                [sys.executable, "-c", program, f"worker{rank}", role, str(rank), *loaded],
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
                env=environment(MASTER_ADDR="127.0.0.1", MASTER_PORT=ports[0], RANK=str(rank)),
            )
        )
    return running


def threads_of(recommended: Path) -> int:
    config = json.loads(recommended.read_text())["config"]
    return int(config["*"]["num_worker_threads"])


def test_the_agents_have_as_many_threads_as_every_export_says(
    searched: Path, tmp_path: Path
) -> None:
    best = threads_of(searched / "recommended.json")
    another, threads = next((t, n) for t, n in ((1, 1), (2, 2)) if n != best)
    exports: dict[Path, int] = {}
    for form, suffix in (("json", "json"), ("toml", "toml"), ("python", "py")):
        for chosen, expected in (((), best), (("--trial", str(another)), threads)):
            path = tmp_path / f"{len(exports)}.{suffix}"
            flags = ("--format", form, *chosen, "--output", str(path))
            assert export.main([str(searched), *flags]) == 0
            exports[path] = expected
    assert threads_of(tmp_path / "0.json") == best
    assert (tmp_path / "0.json").read_text() == (searched / "recommended.json").read_text()
    *loadable, module, another_module = exports
    check_threads(PROGRAM, loadable, exports)
    check_threads(MODULES, [module, another_module], exports)


def check_threads(program: str, paths: list[Path], exports: dict[Path, int]) -> None:
    """The agents that are started with these exports have the threads that are expected."""
    running = started(program, *paths)
    printed = [process.communicate(timeout=300) for process in running]
    assert [process.returncode for process in running] == [0, 0], printed
    assert [out for out, _ in printed] == [
        "".join(f"worker{rank}: num_worker_threads={exports[path]}\n" for path in paths)
        for rank in (0, 1)
    ]
