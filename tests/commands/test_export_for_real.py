"""From a search to agents that have the threads it recommends, in programs of their own."""

import json
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from tests.commands.running import Done, environment
from tuner import export

pytestmark = pytest.mark.world

# What a person writes with the exports to JSON and TOML.
PROGRAM = """
import sys, warnings
import torch
import torch.distributed.rpc as rpc
import tuner

path, name, role, rank = sys.argv[1:]
warnings.simplefilter("error", tuner.EnvironmentWarning)
torch.set_num_threads(1)
options = tuner.load_rpc_options(path, role=role)
rpc.init_rpc(name, rank=int(rank), world_size=2, rpc_backend_options=options)
threads = rpc.api._get_current_rpc_agent().get_debug_info()["agent.thread_pool_size"]
print(f"{name}: num_worker_threads={threads}")
rpc.shutdown()
"""


@pytest.fixture
def searched(real_search: tuple[Done, Path]) -> Path:
    """The folder of a study that was searched."""
    return real_search[1]


def free_port() -> str:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return str(one.getsockname()[1])


def started(path: Path) -> list[subprocess.Popen[str]]:
    """A caller and a server, two fresh processes that start RPC with an export."""
    port = free_port()
    running = []
    for rank, role in enumerate(("caller", "server")):
        loads = ["-c", PROGRAM, str(path), f"worker{rank}", role, str(rank)]
        running.append(
            subprocess.Popen(
                [sys.executable, *([str(path)] if path.suffix == ".py" else loads)],
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
                env=environment(MASTER_ADDR="127.0.0.1", MASTER_PORT=port, RANK=str(rank)),
            )
        )
    return running


def threads_of(recommended: Path) -> int:
    config = json.loads(recommended.read_text())["config"]
    return int(config["*"]["num_worker_threads"])


def test_the_agents_have_as_many_threads_as_every_export_says(searched: Path) -> None:
    best = threads_of(searched / "recommended.json")
    another, threads = next((t, n) for t, n in ((1, 2), (2, 3)) if n != best)
    exports: dict[Path, int] = {}
    for form, suffix in (("json", "json"), ("toml", "toml"), ("python", "py")):
        for chosen, expected in (((), best), (("--trial", str(another)), threads)):
            path = searched / f"{len(exports)}.{suffix}"
            flags = ("--format", form, *chosen, "--output", str(path))
            assert export.main([str(searched), *flags]) == 0
            exports[path] = expected
    assert threads_of(searched / "0.json") == best
    assert (searched / "0.json").read_text() == (searched / "recommended.json").read_text()
    # Two worlds at a time: all at once would wait for each other's import of torch.
    paths = list(exports)
    for some in (paths[:2], paths[2:4], paths[4:]):
        for path, running in [(path, started(path)) for path in some]:
            printed = [process.communicate(timeout=60) for process in running]
            assert [process.returncode for process in running] == [0, 0], printed
            assert [out for out, _ in printed] == [
                f"worker{rank}: num_worker_threads={exports[path]}\n" for rank in (0, 1)
            ]
