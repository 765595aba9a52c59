"""Programs that nobody edited and that fail: what is told, and what is kept of it."""

import json
import os
import threading
from pathlib import Path
from typing import Any

import psutil
import pytest

import tuner
from testing.fakes import threads_of
from testing.known import known
from testing.launching import PROGRAMS, PYTHON, launched, refused
from testing.programs import free_port
from tests.searching.tuning import Listening
from tuner.errors import UsageError
from tuner.plan.config import Config
from tuner.present.wording import verdict_sentence
from tuner.recommended.model import read_recommendation
from tuner.world.own_network import OwnNetwork

pytestmark = [pytest.mark.world, pytest.mark.thorough]

DEADLINES_S = (8.0, 60.0)
"""A busy machine takes a while to come to the rendezvous."""


def one_rank(folder: Path, before: str = "", after: str = "", world_size: int = 1) -> list[str]:
    """A program of one rank that does something before it starts RPC, and after its end."""
    program = folder / "main.py"
    program.write_text(
        f"import os, sys\n{before}\n"
        "import torch.distributed.rpc as rpc\n"
        "at = rpc.TensorPipeRpcBackendOptions(init_method='tcp://127.0.0.1:' + sys.argv[1])\n"
        f"rpc.init_rpc('a', rank=0, world_size={world_size}, rpc_backend_options=at)\n"
        f"rpc.shutdown()\n{after}\n"
    )
    return [PYTHON, str(program), free_port()]


def test_a_rank_that_is_missing_is_told_and_what_the_first_run_left_is_kept(tmp_path: Path) -> None:
    folder = tmp_path / "failures" / "first-run"
    command = one_rank(tmp_path, world_size=3)
    for deadline_s in DEADLINES_S:
        told = refused(command, deadline=f"{deadline_s}s", failure_folder=folder)
        if "rank 0 waits in init_rpc for ranks 1 and 2 at tcp://" in told:
            break
    assert "if another command starts what is missing, name it with --beside" in told
    assert f"; see {folder}" in told
    assert "a larger --budget" not in told
    (stacks,) = folder.glob("rank0-*.stacks")
    assert "in init_rpc" in stacks.read_text()
    assert json.loads((folder / "failure.json").read_text())["failure"] == "timed-out"


def test_a_search_keeps_it_in_the_folder_of_the_study(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("main.py").write_text("raise ValueError('no data')")
    kept = Path("studies", "main", "failures", "first-run")
    for _ in range(2):  # the folder of a study that never began is in nobody's way
        with pytest.raises(UsageError, match=f"ValueError: no data; see {kept}"):
            tuner.tune(program=[PYTHON, "main.py"])
        assert "ValueError: no data" in (kept / "output").read_text()


def test_a_program_that_deadlocks_by_itself_is_tuned_all_the_same(tmp_path: Path) -> None:
    """Three nested calls at once on the three threads that it gives itself."""
    heard = Listening()
    result = tuner.tune(
        program=[PYTHON, str(PROGRAMS / "nested.py"), free_port(), "3", "3"],
        space={"relay": {"num_worker_threads": [3, 4]}}, max_blocks=4, budget="3m",
        out=tmp_path / "study", observer=heard,
    )  # fmt: skip
    start = "the program fails with its own options: relay1 deadlocked"
    assert any(sentence.startswith(start) for sentence in heard.told)
    assert not any("cold" in sentence for sentence in heard.told)
    assert result.baseline_failed
    assert result.best == Config.from_json({"relay": {"num_worker_threads": 4}})
    said = "The program as it is deadlocks: use 4 threads or more for relay."
    assert verdict_sentence(result).startswith(said)
    assert list((tmp_path / "study" / "failures" / "first-run").glob("relay1-*.stacks"))


def test_a_deadlock_in_callbacks_is_proved(tmp_path: Path) -> None:
    """Four blocking calls at once, in callbacks on the four threads of the client."""
    command = [PYTHON, str(PROGRAMS / "callbacks.py"), free_port(), "calling", "16"]
    with launched(command) as running:
        folder = tmp_path / "failures" / "four"
        four = {"client": {"num_worker_threads": 4}}
        failure = running.failed(config=four, failure_folder=folder)
        assert failure.failure == "deadlocked"
        start = "client deadlocked: all 4 worker threads wait for the answer to a call made in a "
        assert failure.message.startswith(start + "callback of a future. That answer needs a free")
        assert "4 waiting for their own calls, 4 of them in callbacks" in failure.detail
        five = {"client": {"num_worker_threads": 5}}
        assert known(running.measured(config=five).program).calls == 24


def test_a_pipeline_that_hangs_as_it_is_needs_more_threads(tmp_path: Path) -> None:
    result = tuner.tune(
        program=[PYTHON, str(PROGRAMS / "cases/hangs_as_it_is.py")],
        space={"num_worker_threads": [1, 8, 16]}, max_blocks=4, budget="2m", out=tmp_path / "study",
    )  # fmt: skip
    said = "The program as it is deadlocks: use 8 threads or more."
    assert verdict_sentence(result).startswith(said)
    tried = {threads_of(row.config): row.worlds_run for row in result.rows}
    assert tried[1] == 0  # fewer threads are no help
    assert tried[4] == 1
    assert tried[8] > 0
    recommended = read_recommendation(tmp_path / "study" / "recommended.json")
    assert threads_of(recommended.config) in (8, 16)


def test_what_breaks_a_limit_of_memory_gives_its_place(tmp_path: Path) -> None:
    """One thread holds 60 MB at once, sixteen 960."""
    given: dict[str, Any] = {
        "program": [PYTHON, str(PROGRAMS / "cases/memory_limit.py")],
        "space": {"num_worker_threads": [16, 8, 4]},
    }  # fmt: skip
    alone = tuner.tune(**given, budget="1m", max_blocks=1, out=tmp_path / "apart" / "alone")
    peaks = {
        threads_of(row.config): row.metrics["peak_rss_mb"] for row in alone.rows if row.metrics
    }
    if not {8, 16} <= peaks.keys():
        pytest.skip("the machine is too slow for a world of each")
    limit = (peaks[8] + peaks[16]) / 2
    heard = Listening()
    result = tuner.tune(
        **given, require=f"peak_rss_mb<={limit:.0f}", budget="25s", out=tmp_path / "study",
        observer=heard,
    )  # fmt: skip
    assert threads_of(known(result.best)) != 16
    assert any(threads_of(row.config) in (8, 4) and row.worlds_run for row in result.rows)


def servers() -> list[psutil.Process]:
    """The servers of warm starts that this process has started."""
    found = psutil.Process().children()
    return [each for each in found if "rpc_tuner_server.main" in " ".join(each.cmdline())]


@pytest.mark.parametrize("after_s", [0.0, 2.0])
def test_where_the_server_of_warm_starts_dies_it_is_started_again(after_s: float) -> None:
    """Before a run, and in the middle of one, which takes 4 s at least. The next one is cold."""
    gone = "the server of warm starts ended"
    with launched([PYTHON, str(PROGRAMS / "spawn_env.py"), "2", "200"]) as running:
        (server,) = servers()
        if after_s:
            threading.Timer(after_s, server.kill).start()
        else:
            server.kill()
        assert running.counted() == 1600
        warm, again = running.told
        assert warm.startswith("each run starts warm: ")
        assert again == f"{gone}; it is started again"
        (server,) = servers()
        server.kill()
        assert running.counted() == 1600
        assert servers() == []
    assert running.told[2:] == [f"each run starts cold: {gone}"]


def test_a_wrong_answer_in_a_network_of_its_own_is_tried_in_the_machines(tmp_path: Path) -> None:
    here = os.readlink("/proc/self/ns/net")  # noqa: PTH115
    look = f"os.readlink('/proc/self/ns/net') == '{here}'"
    command = one_rank(tmp_path, after=f"print('found' if {look} else 'not found')")
    with OwnNetwork() as network:
        is_allowed = bool(network.prefix)
    with launched(command, expect="^found", cold=True) as running:
        running.measured()
    *told, cold = running.told
    assert cold == "each run starts cold: --cold asks for it"
    assert len(told) == 2 * is_allowed
    if told:
        assert told[0].startswith("the program failed in a network of its own, and is run ")
        assert "its output does not match '^found'" in told[0]
        assert told[1] == ("the program does not run in a network of its own; it has the machine's")
