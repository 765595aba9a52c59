"""`tuner.load_rpc_options`, in a process that has no agent."""

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.distributed.rpc as rpc

import tuner
from tests.plan.specs import for_all, threads
from tests.present.results import ENVIRONMENT
from tests.recommended.documents import AGENT, BY_ROLE, recommendation
from tuner.cpus import share_of_rank
from tuner.errors import UsageError
from tuner.plan.config import Config
from tuner.plan.workload_spec import WorkloadSpec
from tuner.recommended.loading import ThreadsWarning
from tuner.recommended.model import as_json, as_toml
from tuner.torch_private.agent import tensorpipe_options
from tuner.world.environment import Environment

ROOT = Path(__file__).parents[2]


@pytest.fixture(autouse=True)
def _one_thread() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture(autouse=True)
def here(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Pretends to be the machine of the measurement, with some changes."""

    def is_at(**changes: Any) -> None:
        found = {**ENVIRONMENT.model_dump(), **changes}
        monkeypatch.setattr("tuner.recommended.loading.this_machine", lambda: found)

    is_at()
    return is_at


def written(
    folder: Path, config: Config, spec: WorkloadSpec | None = None, suffix: str = "json"
) -> Path:
    path = folder / f"recommended.{suffix}"
    write = as_toml if suffix == "toml" else as_json
    path.write_text(write(recommendation(config, spec)))
    return path


@pytest.mark.parametrize("suffix", ["json", "toml"])
def test_the_options_of_a_role(tmp_path: Path, suffix: str) -> None:
    path = written(tmp_path, BY_ROLE, AGENT, suffix)
    agent = tuner.load_rpc_options(path, role="agent")
    assert isinstance(agent, rpc.TensorPipeRpcBackendOptions)
    assert (agent.num_worker_threads, agent.rpc_timeout) == (2, 9.5)
    torch.set_num_threads(2)
    observer = tuner.load_rpc_options(str(path), role="observer")
    assert (observer.num_worker_threads, observer.rpc_timeout) == (8, 60.0)


def test_transports_and_channels_keep_their_order(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Torch's object does not show them; the arguments that make it do."""
    given: list[dict[str, Any]] = []

    def noting(**options: Any) -> rpc.TensorPipeRpcBackendOptions:
        given.append(options)
        return tensorpipe_options(**options)

    monkeypatch.setattr("tuner.recommended.loading.tensorpipe_options", noting)
    tuner.load_rpc_options(written(tmp_path, BY_ROLE, AGENT), role="agent")
    assert given == [
        {
            "num_worker_threads": 2,
            "rpc_timeout": 9.5,
            "transports": ["uv", "shm"],
            "channels": ["basic", "cma"],
        }
    ]


def test_without_a_role_all_must_have_the_same_options(tmp_path: Path) -> None:
    same = {"caller": {"num_worker_threads": 4}, "server": {"num_worker_threads": 4}}
    for config in (threads(4), Config.from_json(same)):
        assert tuner.load_rpc_options(written(tmp_path, config)).num_worker_threads == 4
    path = written(tmp_path, BY_ROLE, AGENT)
    for role, message in (
        (None, f"the options in {path} differ by role: give role=, one of 'agent', 'observer'"),
        ("agnet", f"{path} has no role 'agnet'; its roles are 'agent', 'observer'"),
    ):
        with pytest.raises(UsageError) as caught:
            tuner.load_rpc_options(path, role=role)
        assert str(caught.value) == message


def test_another_environment_is_warned_of_once_with_what_helps(
    tmp_path: Path, here: Callable[..., None]
) -> None:
    path = written(tmp_path, threads(4))
    here(python="3.14.0", memory_gb=1.0, kernel="7.0")
    tuner.load_rpc_options(path, role="caller")  # a warning would be an error
    here(torch="2.14.0", cpu_count=64, cpu_model="Z80")
    told = "torch: 2.13.0, 2.14.0; CPU model: Abacus 9000, Z80; logical CPUs: 2, 64"
    with pytest.warns(tuner.EnvironmentWarning) as caught:
        options = tuner.load_rpc_options(path, role="caller")
    assert options.num_worker_threads == 4
    (warning,) = caught
    assert str(warning.message) == (
        f"{path} was measured elsewhere (there, here): {told}. Its configuration may not "
        f"be the best here; to measure it again: python -m tuner.search --check {path}"
    )
    assert warning.filename == __file__


def test_other_intra_op_threads_are_warned_of_with_what_helps(tmp_path: Path) -> None:
    torch.set_num_threads(3)
    path = written(tmp_path, BY_ROLE, AGENT)
    with pytest.warns(ThreadsWarning) as caught:
        tuner.load_rpc_options(path, role="observer")
    (warning,) = caught
    assert str(warning.message) == (
        f"{path} was measured with 2 intra-op threads in such a process, and this one has 3: "
        "call torch.set_num_threads(2) first"
    )
    assert warning.filename == __file__


BOUND = for_all(num_worker_threads=4, cpu_binding="equal", switch_interval="1ms")
AT_ONE_PLACE = {"numa_nodes": 1, "threads_per_core": 1}


@pytest.fixture
def applied(monkeypatch: pytest.MonkeyPatch) -> list[tuple[dict[str, Any], int, int]]:
    """What is set in this process, which stays as it is."""
    found: list[tuple[dict[str, Any], int, int]] = []

    def apply(self: object, values: dict[str, Any], index: int, ranks: int) -> None:
        found.append((values, index, ranks))

    monkeypatch.setattr("tuner.process_knobs.ProcessKnobs.apply", apply)
    for variable in ("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "GROUP_WORLD_SIZE"):
        monkeypatch.delenv(variable, raising=False)
    return found


Applied = list[tuple[dict[str, Any], int, int]]


def test_a_rank_is_bound_and_gets_the_switch_interval(tmp_path: Path, applied: Applied) -> None:
    tuner.load_rpc_options(written(tmp_path, BOUND), rank=1, world_size=2)
    assert applied == [({"switch_interval": 0.001, "cpu_binding": "equal"}, 1, 2)]


def test_torchrun_says_which_rank_it_is(
    tmp_path: Path, applied: Applied, monkeypatch: pytest.MonkeyPatch
) -> None:
    for variable, text in (("RANK", "5"), ("WORLD_SIZE", "8"), ("LOCAL_RANK", "1"),
                           ("LOCAL_WORLD_SIZE", "4"), ("GROUP_WORLD_SIZE", "2")):  # fmt: skip
        monkeypatch.setenv(variable, text)
    tuner.load_rpc_options(written(tmp_path, BOUND))
    assert [place for _, *place in applied] == [[1, 4]]


def test_a_rank_that_is_not_known_is_warned_of_with_what_helps(
    tmp_path: Path, applied: Applied
) -> None:
    path = written(tmp_path, BOUND)
    with pytest.warns(tuner.EnvironmentWarning) as caught:
        tuner.load_rpc_options(path, rank=1)
    (warning,) = caught
    assert str(warning.message) == (
        f"{path} has cpu_binding=equal, and this process is not bound, since its rank is not "
        "known: give rank= and world_size= to load_rpc_options, as to init_rpc"
    )
    assert warning.filename == __file__
    assert applied == [({"switch_interval": 0.001}, 0, 1)]


def test_a_rank_that_there_is_not_is_refused(tmp_path: Path, applied: Applied) -> None:
    path = written(tmp_path, BOUND)
    with pytest.raises(UsageError, match="there is no rank 2 in a world of 2 ranks"):
        tuner.load_rpc_options(path, rank=2, world_size=2)
    assert not applied


def test_a_process_that_cannot_be_bound_is_warned_of(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(index: int, ranks: int) -> None:
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr("tuner.process_knobs.bind_rank", refuse)
    path = written(tmp_path, for_all(cpu_binding="equal"))
    with pytest.warns(tuner.EnvironmentWarning, match=r"CPU affinity \(Operation not permitted\)"):
        tuner.load_rpc_options(path, rank=0, world_size=2)


def test_a_switch_interval_without_a_gil_is_said_to_have_no_effect(
    tmp_path: Path, applied: Applied, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tuner.recommended.loading.has_gil", lambda: False)
    path = written(tmp_path, for_all(switch_interval="1ms"))
    with pytest.warns(tuner.EnvironmentWarning, match="no effect on an interpreter without a GIL"):
        tuner.load_rpc_options(path)
    assert applied == [({"switch_interval": 0.001}, 0, 1)]


def test_a_switch_interval_by_role_needs_the_role(tmp_path: Path, applied: Applied) -> None:
    path = written(tmp_path, Config.from_json({"server": {"switch_interval": 0.0002}}))
    tuner.load_rpc_options(path, role="server")
    with pytest.warns(tuner.EnvironmentWarning) as caught:
        tuner.load_rpc_options(path)
    (warning,) = caught
    assert str(warning.message) == (
        f"{path} has a switch_interval by role, and none is set in this process: give role=, one "
        "of 'caller', 'server'"
    )
    assert applied == [({"switch_interval": 0.0002}, 0, 1), ({}, 0, 1)]


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"numa_nodes": 2}, "NUMA nodes: 1, 2"),
        ({"threads_per_core": 2}, "threads per core: 1, 2"),
    ],
)
def test_another_topology_is_warned_of_where_ranks_are_bound(
    tmp_path: Path, here: Callable[..., None], applied: Applied, changes: dict[str, int], told: str
) -> None:
    measured = ENVIRONMENT.model_copy(update=AT_ONE_PLACE)
    here(**{**AT_ONE_PLACE, **changes})
    path = tmp_path / "recommended.json"
    path.write_text(as_json(recommendation(BOUND, environment=measured)))
    with pytest.warns(tuner.EnvironmentWarning, match=rf"\(there, here\): {told}\. Its"):
        tuner.load_rpc_options(path, rank=0, world_size=2)
    path.write_text(as_json(recommendation(threads(4), environment=measured)))
    here(**{**AT_ONE_PLACE, **changes, "cpu_count": 2})
    tuner.load_rpc_options(path)


def test_a_program_that_loads_twice_is_bound_to_the_same_share(tmp_path: Path) -> None:
    if len(os.sched_getaffinity(0)) < 2:
        pytest.skip("binding needs two logical CPUs")
    path = tmp_path / "recommended.json"
    path.write_text(as_json(recommendation(BOUND, environment=Environment.here())))
    script = (
        "import os, sys, threading, torch, tuner, warnings\n"
        "warnings.simplefilter('error', tuner.EnvironmentWarning)\n"
        "torch.set_num_threads(1)\n"
        "for _ in range(2):\n"
        f"    tuner.load_rpc_options({str(path)!r}, rank=1, world_size=2)\n"
        "    print(sorted({*map(tuple, map(os.sched_getaffinity, map(int,\n"
        "        os.listdir('/proc/self/task'))))}), round(sys.getswitchinterval(), 6))\n"
    )
    assert run(script) == f"{[share_of_rank(1, 2)]} 0.001\n" * 2


@pytest.mark.parametrize(
    ("place", "value", "reason"),
    [
        (["config"], None, "config is missing"),
        (["config"], {"*": {"num_worker_threads": 0}},
         "config: num_worker_threads must be at least 1, got 0"),
        (["config"], {"*": {"num_worker_threads": "8"}},
         "config: *.num_worker_threads must be 8, got '8'"),
        (["config"], {"agnet": {"num_worker_threads": 8}}, "config: unknown role 'agnet'"),
        (["environment", "own"], {"*": {"threads": 8}}, "environment.own: unknown knob 'threads'"),
        (["environment"], 7, "environment must be an object, got 7"),
        (["environment", "cpu_count"], None, "environment.cpu_count is missing"),
        (["environment", "intra_op_threads"], {"caller": 1},
         "environment.intra_op_threads lacks 'server'"),
        (["environment", "intra_op_threads"], {"caller": 1, "server": 0},
         "intra_op_threads must be at least 1, got 0"),
        (["environment", "intra_op_threads"], {"caller": True, "server": 1},
         "environment.intra_op_threads.caller must be a whole number, got True"),
        (["environment", "program"], {"role_patterns": [["a"]]},
         "environment.program.role_patterns must hold pairs, got ['a']"),
        (["ranks"], [], "ranks must be a list of processes, got []"),
        (["ranks"], [{"name": "worker0"}], "ranks.0 must name its role"),
    ],
)  # fmt: skip
def test_a_damaged_file_is_refused(
    tmp_path: Path, place: list[str], value: object, reason: str
) -> None:
    path = written(tmp_path, threads(4))
    document = json.loads(path.read_text())
    *outer, key = place
    (document[outer[0]] if outer else document)[key] = value
    path.write_text(json.dumps(document))
    with pytest.raises(UsageError) as caught:
        tuner.load_rpc_options(path, role="caller")
    assert str(caught.value).startswith(f"{path} is damaged: {reason}")


def run(script: str) -> str:
    return subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True, cwd=ROOT
    ).stdout
