"""What is imported beforehand: installed modules that leave nothing that a fork would lose."""

import json
import math
import os
from contextlib import closing
from pathlib import Path

import pytest

from testing.known import known
from tests.world.command.warm.starting_both import PYTHON, hooked, learnt_with, run_to_end
from tuner.errors import LauncherError
from tuner.plan.config import Config
from tuner.world.command.order import HookOrder
from tuner.world.command.program_channel import ProgramChannel
from tuner.world.command.program_commands import ColdStarter, Starters
from tuner.world.command.warm.warm_starting import Learnt, WarmStarter, learn
from tuner.world.own_network import OwnNetwork

pytestmark = pytest.mark.slow

MODULES = {
    "is_fine": "import os; os.environ['SET_BY_LIBRARY'] = '1'",
    "leaves_a_thread": "import threading, time\n"
    "threading.Thread(target=time.sleep, args=(600,), daemon=True).start()",
    "needs_it": "import leaves_a_thread",
    "leaves_a_socket": "import socket\nheld = socket.socket()",
    "starts_a_process": "import subprocess\nheld = subprocess.Popen(['sleep', '600'])",
    "takes_the_programs": "import beside_main",
    "takes_the_tool": "import tuner",
    "fails": "raise RuntimeError('not here')",
    "ends": "raise SystemExit(3)",
    "kills": "import os, signal\nos.kill(os.getpid(), signal.SIGKILL)",
    "is_fine_too": "import time\ntime.time_ns = lambda: 0.5",
}
OF_NO_LIBRARY = "a file of the program or of rpc-tuner"
PROGRAM = (
    "import sys, os, json\n"
    f"print(json.dumps([[n for n in {list(MODULES)} if n in sys.modules],\n"
    "                  os.environ.get('SET_BY_LIBRARY')]))\n"
)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    installed = tmp_path / "lib" / "site-packages"
    installed.mkdir(parents=True)
    for name, code in MODULES.items():
        (installed / f"{name}.py").write_text(code)
    (tmp_path / "lib" / "beside_main.py").touch()
    (tmp_path / "main.py").write_text(PROGRAM)
    return tmp_path


def libraries(folder: Path) -> str:
    lib = folder / "lib"
    return f"{lib}{os.pathsep}{lib / 'site-packages'}"


def environment_of(folder: Path, **changes: str) -> dict[str, str]:
    return hooked(folder, PYTHONPATH=libraries(folder), **changes)


def test_a_module_that_a_fork_would_break_is_left_out_and_told(folder: Path) -> None:
    environment = environment_of(folder)
    (folder / "lib" / "site-packages" / "tuner.py").touch()  # as where pip has put it there
    learnt = learnt_with(environment, ["not_there", "tuner", *MODULES])
    with WarmStarter([PYTHON, "main.py"], environment, folder, learnt) as warm:
        ended = run_to_end(warm, environment)
    assert json.loads(ended.out) == [["is_fine", "is_fine_too"], "1"]
    # The name of a thread is the process's, until Python 3.14.
    thread = "it leaves a thread"
    left_out = {name: why.partition(" (")[0] for name, why in warm.left_out.items()}
    assert left_out == {
        "leaves_a_thread": thread,
        "needs_it": thread,
        "leaves_a_socket": "it leaves an open socket",
        "starts_a_process": "it starts a process",
        "takes_the_programs": f"it imports beside_main, {OF_NO_LIBRARY}",
        "tuner": f"it imports tuner, {OF_NO_LIBRARY}",
        "takes_the_tool": f"it imports tuner, {OF_NO_LIBRARY}",
        "kills": "its import ends the process",
    }


def test_what_each_run_imports_anew_is_told(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(folder)
    monkeypatch.setenv("PYTHONPATH", libraries(folder))
    said: list[str] = []
    commands = ((PYTHON, "main.py"),)
    learnt = learnt_with(environment_of(folder), ["leaves_a_thread"])
    with Starters(commands, OwnNetwork(), said.append) as starters:
        assert starters.warm_up(learnt, math.inf)
        assert starters.how == "warm: from a process that has imported the same packages"
    (sentence,) = said
    assert sentence.startswith("imported anew by each run: leaves_a_thread (it leaves a thread")


def test_what_files_name_is_imported_first_and_what_a_run_shows_then(folder: Path) -> None:
    """By the same server, though a run has left a process there."""
    (folder / "main.py").write_text(f"{PROGRAM}if os.fork() == 0: __import__('time').sleep(600)\n")
    environment = environment_of(folder)
    named = Learnt(modules=("is_fine", "beside_main"), environment=None)
    with WarmStarter([PYTHON, "main.py"], environment, folder, named) as warm:
        first = run_to_end(warm, environment)
        warm.learn(learnt_with(environment, ["is_fine", "is_fine_too"]), math.inf)
        warm.wait()
        second = run_to_end(warm, environment)
        assert warm.left_out == {}
        warm.learn(learnt_with({**environment, "OMP_NUM_THREADS": "3"}), math.inf)
        with pytest.raises(LauncherError, match="it sets OMP_NUM_THREADS, which libraries read as"):
            warm.wait()
    assert json.loads(first.out) == [["is_fine"], "1"]
    assert json.loads(second.out) == [["is_fine", "is_fine_too"], "1"]


def test_a_module_that_a_fork_would_break_is_found_later_too(folder: Path) -> None:
    environment = environment_of(folder)
    named = Learnt(modules=("is_fine",), environment=None)
    with WarmStarter([PYTHON, "main.py"], environment, folder, named) as warm:
        warm.learn(learnt_with(environment, ["is_fine", "leaves_a_thread"]), math.inf)
        warm.wait()
        assert json.loads(run_to_end(warm, environment).out) == [["is_fine"], "1"]
        assert [*warm.left_out] == ["leaves_a_thread"]


def test_variables_that_are_read_at_import_are_the_same(folder: Path) -> None:
    environment = environment_of(folder)
    command = [PYTHON, "main.py"]
    own = learnt_with({**environment, "OMP_NUM_THREADS": "3"})
    with pytest.raises(LauncherError, match="it sets OMP_NUM_THREADS, which libraries read as"):
        WarmStarter(command, environment, folder, own).wait()
    with WarmStarter(command, environment, folder, learnt_with(environment)) as warm:
        for name in ("OMP_NUM_THREADS", "PYTHONHASHSEED"):
            with pytest.raises(LauncherError, match=f"started with another {name}"):
                run_to_end(warm, {**environment, name: "3"})
        changed = {**environment, "MASTER_PORT": "1", "PYTHONWARNINGS": "ignore"}
        assert run_to_end(warm, changed).code == 0


def test_a_child_with_other_variables_starts_cold(tmp_path: Path) -> None:
    (tmp_path / "main.py").write_text(
        "import os, multiprocessing as mp\n"
        "def look(): print(b'rpc_tuner_server' in open('/proc/self/cmdline', 'rb').read(),\n"
        "                  os.environ.get('OMP_NUM_THREADS'), flush=True)\n"
        "def start():\n"
        "    child = mp.get_context('spawn').Process(target=look)\n"
        "    child.start(); child.join()\n"
        "if __name__ == '__main__':\n"
        "    start(); os.environ['OMP_NUM_THREADS'] = '2'; start()\n"
        "    os.environ['PYTHONWARNINGS'] = 'ignore'\n"
        "    del os.environ['OMP_NUM_THREADS']; start(); os.sched_setaffinity(0, [0]); start()\n"
        "    os.umask(0o77); os.dup2(1, 90); os.close(0); start()\n"
    )
    environment = hooked(tmp_path)
    environment.pop("OMP_NUM_THREADS", None)
    with WarmStarter([PYTHON, "main.py"], environment, tmp_path, learnt_with(environment)) as warm:
        ended = run_to_end(warm, environment)
    cpus = len(os.sched_getaffinity(0))
    assert ended.err == ""
    starts = ["True None", "False 2", "True None", f"{cpus == 1} None", "False None"]
    assert ended.out.splitlines() == starts


@pytest.mark.world
def test_what_is_learnt_is_what_was_installed(folder: Path) -> None:
    """And what ranks report is the same where they are started warm."""
    (folder / "main.py").write_text(
        "import decimal, is_fine, beside_main, torch.distributed.rpc as rpc\n"
        "at = rpc.TensorPipeRpcBackendOptions(init_method='file://' + __file__ + '.store')\n"
        "rpc.init_rpc('a', rank=0, world_size=1, rpc_backend_options=at)\n"
        "import is_fine_too\n"
        "rpc.shutdown()\n"
    )
    order = HookOrder(config=Config(()), reports=folder, learn=True)
    given = {**os.environ, "PYTHONPATH": libraries(folder), "OMP_PLACES": "cores"}
    environment = order.environment(given)
    command = [PYTHON, "-W", "ignore", "main.py"]
    with closing(ProgramChannel(folder)) as channel:
        ended = run_to_end(ColdStarter(command, folder), environment)
        assert (ended.code, ended.err) == (0, "")
        learnt = learn(channel.messages())
        assert {"decimal", "is_fine", "torch.distributed.rpc"} <= set(learnt.modules)
        assert not {"is_fine_too", "beside_main", "__main__", "rpc_tuner_hook"} & set(
            learnt.modules
        )
        assert known(learnt.environment)["OMP_PLACES"] == "cores"
        with WarmStarter(command, environment, folder, learnt) as warm:
            assert run_to_end(warm, environment) == ended
            assert warm.left_out == {}
        first, second = channel.report().ranks
    assert (first.name, first.rank, first.calls) == (second.name, second.rank, second.calls)
    assert first.pid != second.pid
