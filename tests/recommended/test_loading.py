"""`tuner.load_rpc_options`, in a process that has no agent."""

import json
from collections.abc import Callable, Iterator
from functools import reduce
from operator import getitem
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest
import torch
import torch.distributed.rpc as rpc

import tuner
from testing.results import ENVIRONMENT
from testing.specs import for_all, threads
from tests.recommended.documents import AGENT, BY_ROLE, recommendation
from tuner.errors import UsageError
from tuner.plan.config import Config
from tuner.plan.workload_spec import WorkloadSpec
from tuner.recommended.loading import ThreadsWarning
from tuner.recommended.model import as_json, as_toml
from tuner.torch_private.agent import tensorpipe_options

THERE = ENVIRONMENT.model_copy(update={"numa_nodes": 1, "threads_per_core": 1})
BOUND = for_all(num_worker_threads=4, cpu_binding="equal", switch_interval="1ms")
TORCHRUN = {"RANK": "5", "WORLD_SIZE": "8", "LOCAL_RANK": "1", "LOCAL_WORLD_SIZE": "4",
            "GROUP_WORLD_SIZE": "2"}  # fmt: skip
SET = "tuner.process_knobs.ProcessKnobs.apply"
Applied = list[tuple[dict[str, Any], int, int]]


@pytest.fixture(autouse=True)
def here(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., None]]:
    """A process with one thread on the machine of the measurement; pretends some changes."""

    def is_at(**changes: Any) -> None:
        found = {**THERE.model_dump(), **changes}
        monkeypatch.setattr("tuner.recommended.loading.this_machine", lambda: found)

    is_at()
    for variable in TORCHRUN:
        monkeypatch.delenv(variable, raising=False)
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield is_at
    torch.set_num_threads(before)


@pytest.fixture
def applied(monkeypatch: pytest.MonkeyPatch) -> Applied:
    """What is set in this process, which stays as it is."""
    found: Applied = []
    monkeypatch.setattr(SET, lambda _, *given: found.append(given))
    return found


def written(folder: Path, config: Config, spec: WorkloadSpec | None = None) -> Path:
    path = folder / "recommended.json"
    path.write_text(as_json(recommendation(config, spec, THERE)))
    return path


def warned(path: Path, kind: type[Warning] = tuner.EnvironmentWarning, **place: Any) -> str:
    """The only warning of a load, which names this file, and what it says after the path."""
    with pytest.warns(kind) as caught:
        tuner.load_rpc_options(path, **place)
    (warning,) = caught
    assert warning.filename == __file__
    return str(warning.message).removeprefix(f"{path} ")


@pytest.mark.parametrize("name", ["recommended.json", "recommended.toml"])
def test_each_role_has_its_options(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    given: list[dict[str, Any]] = []

    def noting(**options: Any) -> rpc.TensorPipeRpcBackendOptions:
        # Torch's object does not show transports and channels, and not their order.
        given.append(options)
        return tensorpipe_options(**options)

    monkeypatch.setattr("tuner.recommended.loading.tensorpipe_options", noting)
    path = tmp_path / name
    found = recommendation(BY_ROLE, AGENT, THERE)
    path.write_text(as_toml(found) if name.endswith("toml") else as_json(found))
    agent = tuner.load_rpc_options(path, role="agent")
    assert isinstance(agent, rpc.TensorPipeRpcBackendOptions)
    assert (agent.num_worker_threads, agent.rpc_timeout) == (2, 9.5)
    torch.set_num_threads(2)
    observer = tuner.load_rpc_options(str(path), role="observer")
    assert (observer.num_worker_threads, observer.rpc_timeout) == (8, 60.0)
    of_all = {"transports": ["uv", "shm"], "channels": ["basic", "cma"]}
    assert given == [
        {"num_worker_threads": 2, "rpc_timeout": 9.5, **of_all},
        {"num_worker_threads": 8, **of_all},
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
    tmp_path: Path, here: Callable[..., None], applied: Applied, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = written(tmp_path, threads(4))
    here(python="3.14.0", memory_gb=1.0, kernel="7.0", numa_nodes=2)
    tuner.load_rpc_options(path)  # a warning would be an error
    here(torch="2.14.0", cpu_count=64, cpu_model="Z80")
    told = "torch: 2.13.0, 2.14.0; CPU model: Abacus 9000, Z80; logical CPUs: 2, 64"
    assert warned(path) == (
        f"was measured elsewhere (there, here): {told}. Its configuration may not be the best "
        f"here; to measure it again: rpc-tuner search --check {path}"
    )
    # Where ranks are bound, the topology matters too.
    here(numa_nodes=2, threads_per_core=2)
    told = warned(written(tmp_path, BOUND), rank=0, world_size=2)
    assert "(there, here): NUMA nodes: 1, 2; threads per core: 1, 2. Its" in told
    # A process that is bound sees its share alone.
    here(cpu_count=1, numa_nodes=2, threads_per_core=2)
    monkeypatch.setattr("tuner.recommended.loading.is_bound", lambda: True)
    tuner.load_rpc_options(tmp_path / "recommended.json", rank=0, world_size=2)


def test_other_intra_op_threads_are_warned_of_with_what_helps(tmp_path: Path) -> None:
    torch.set_num_threads(3)
    path = written(tmp_path, BY_ROLE, AGENT)
    assert warned(path, ThreadsWarning, role="agent") == (
        "was measured with 1 intra-op thread in such a process, and this one has 3: call "
        "torch.set_num_threads(1) first"
    )
    # What the configuration names is set.
    tuner.load_rpc_options(path, role="observer")
    assert torch.get_num_threads() == 2


def test_a_rank_is_bound_and_gets_the_switch_interval(
    tmp_path: Path, applied: Applied, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, unbound = written(tmp_path, BOUND), {"switch_interval": 0.001}
    both = {**unbound, "cpu_binding": "equal"}
    tuner.load_rpc_options(path, rank=1, world_size=2)
    with pytest.raises(UsageError, match="there is no rank 2 in a world of 2 ranks"):
        tuner.load_rpc_options(path, rank=2, world_size=2)
    assert warned(path, rank=1) == (
        "has cpu_binding=equal. This process is not bound, since its rank is not known: give "
        "rank= and world_size= to load_rpc_options, as to init_rpc"
    )
    for variable, text in TORCHRUN.items():
        monkeypatch.setenv(variable, text)
    tuner.load_rpc_options(path)
    assert applied == [(both, 1, 2), (unbound, 0, 1), (both, 1, 4)]


def test_a_process_that_cannot_be_bound_is_warned_of(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(SET, Mock(side_effect=PermissionError(1, "Operation not permitted")))
    told = warned(written(tmp_path, BOUND), rank=0, world_size=2)
    assert "CPU affinity (Operation not permitted)" in told


def test_a_switch_interval_needs_a_gil_and_the_role(
    tmp_path: Path, applied: Applied, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = written(tmp_path, Config.from_json({"server": {"switch_interval": 0.0002}}))
    assert warned(path) == (
        "has switch_interval by role, and none is set in this process: give role=, one of "
        "'caller', 'server'"
    )
    tuner.load_rpc_options(path, role="server")
    monkeypatch.setattr("tuner.recommended.loading.has_gil", lambda: False)
    assert "no effect on an interpreter without a GIL" in warned(path, role="server")
    assert applied == [({}, 0, 1), *[({"switch_interval": 0.0002}, 0, 1)] * 2]


@pytest.mark.parametrize(
    ("place", "value", "reason"),
    [
        ("config", None, "config is missing"),
        ("config", {"agnet": {"num_worker_threads": 8}}, "config: unknown role 'agnet'"),
        ("environment.own", {"*": {"threads": 8}}, "environment.own: unknown knob 'threads'"),
        ("environment", 7, "environment must be an object, got 7"),
        ("environment.cpu_count", None, "environment.cpu_count is missing"),
        ("environment.intra_op_threads", {"caller": 1},
         "environment.intra_op_threads lacks 'server'"),
        ("environment.intra_op_threads", {"caller": 1, "server": 0},
         "intra_op_threads must be at least 1, got 0"),
        ("environment.intra_op_threads", {"caller": True, "server": 1},
         "environment.intra_op_threads.caller must be a whole number, got True"),
        ("environment.program", {"role_patterns": [["a"]]},
         "environment.program.role_patterns must hold pairs, got ['a']"),
        ("ranks", [], "ranks must be a list of processes, got []"),
        ("ranks", [{"name": "worker0"}], "ranks.0 must name its role"),
    ],
)  # fmt: skip
def test_a_damaged_file_is_refused(tmp_path: Path, place: str, value: object, reason: str) -> None:
    path = written(tmp_path, threads(4))
    document = json.loads(path.read_text())
    *outer, key = place.split(".")
    reduce(getitem, outer, document)[key] = value
    path.write_text(json.dumps(document))
    with pytest.raises(UsageError) as caught:
        tuner.load_rpc_options(path, role="caller")
    assert str(caught.value).startswith(f"{path} is damaged: {reason}")


def test_bound_ranks_that_had_fewer_intra_op_threads_than_their_program_gives_have_these(
    tmp_path: Path, applied: Applied
) -> None:
    path = written(tmp_path, for_all(cpu_binding="equal"))
    document = json.loads(path.read_text())
    document["environment"]["own"] = {"*": {"intra_op_threads": 4}}
    path.write_text(json.dumps(document))
    tuner.load_rpc_options(path, rank=0, world_size=2)
    assert applied == [({"intra_op_threads": 1, "cpu_binding": "equal"}, 0, 2)]
