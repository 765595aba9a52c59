"""The lines to paste."""

from typing import Any

import pytest

from tests.plan.specs import for_all, threads, workload_spec
from tests.recommended.documents import OF_EVERY_KNOB
from tuner.plan.config import Config
from tuner.recommended.python_source import BIND_CPUS
from tuner.recommended.snippet import init_rpc_lines

BY_ROLE = Config.from_json(
    {
        "*": {"num_worker_threads": 8},
        "agent": {"num_worker_threads": 2},
        "logger": {"intra_op_threads": 4},
    }
)


def test_the_lines_give_every_knob() -> None:
    lines = init_rpc_lines(OF_EVERY_KNOB, workload_spec())
    assert lines.replace(BIND_CPUS, "BIND_CPUS\n").splitlines() == [
        "# At the top of the file:",
        "import os",
        "import sys",
        "from contextlib import suppress",
        "from itertools import groupby",
        "from pathlib import Path",
        "",
        "import torch",
        "import torch.distributed.rpc as rpc",
        "",
        "BIND_CPUS",
        "",
        "",
        "# In each process, in place of its init_rpc:",
        "# cpu_binding is for ranks that have the machine to themselves.",
        "bind_cpus(rank, world_size)",
        "sys.setswitchinterval(0.001)  # seconds",
        "torch.set_num_threads(2)  # as measured",
        "options = rpc.TensorPipeRpcBackendOptions(num_worker_threads=8, "
        '_transports=["shm", "uv"], _channels=["cma", "basic"], rpc_timeout=5.5, '
        'devices=["cuda:0", "cuda:1"], '
        'device_maps={"worker1": {"cuda:0": "cuda:1", "cuda:1": "cuda:0"}})',
        "rpc.init_rpc(name, rank=rank, world_size=world_size, rpc_backend_options=options)",
    ]


def test_a_default_is_left_to_pytorch() -> None:
    lines = init_rpc_lines(for_all(transports=None), workload_spec(intra_op_threads=3))
    assert "options = rpc.TensorPipeRpcBackendOptions()\n" in lines
    assert "torch.set_num_threads(3)" in lines


def test_configs_that_differ_name_each_role() -> None:
    spec = workload_spec("agent", "observer", "observer", "logger")
    assert init_rpc_lines(BY_ROLE, spec).splitlines()[3:-1] == [
        'torch.set_num_threads({"agent": 1, "observer": 1, "logger": 4}[role])  # as measured',
        "options = {",
        '    "agent": rpc.TensorPipeRpcBackendOptions(num_worker_threads=2),',
        '    "observer": rpc.TensorPipeRpcBackendOptions(num_worker_threads=8),',
        '    "logger": rpc.TensorPipeRpcBackendOptions(num_worker_threads=8),',
        "}[role]",
    ]


def test_without_binding_the_lines_are_as_without_the_knob() -> None:
    plain = init_rpc_lines(threads(4), workload_spec())
    usual = for_all(num_worker_threads=4, cpu_binding="none", switch_interval="5ms")
    assert init_rpc_lines(usual, workload_spec()) == plain
    assert plain.startswith("import torch\nimport torch.distributed.rpc as rpc\n\ntorch.set")


def test_a_switch_interval_of_one_role_names_each() -> None:
    config = Config.from_json({"server": {"switch_interval": 0.0002}})
    lines = init_rpc_lines(config, workload_spec()).splitlines()
    assert lines[:5] == [
        "import sys", "", "import torch", "import torch.distributed.rpc as rpc", "",
    ]  # fmt: skip
    assert lines[5] == 'sys.setswitchinterval({"caller": 0.005, "server": 0.0002}[role])  # seconds'


def test_configs_by_role_that_agree_need_no_role() -> None:
    config = Config.from_json(
        {"caller": {"num_worker_threads": 4}, "server": {"num_worker_threads": 4}}
    )
    lines = init_rpc_lines(config, workload_spec())
    assert "[role]" not in lines
    assert lines == init_rpc_lines(threads(4), workload_spec())


@pytest.mark.parametrize(
    ("config", "roles"),
    [
        (OF_EVERY_KNOB, ("caller", "server")),
        (BY_ROLE, ("agent", "observer", "logger")),
        (Config.from_json({'the "boss"': {"num_worker_threads": 2}}), ('the "boss"', "server")),
    ],
)
def test_the_lines_are_python(config: Config, roles: tuple[str, ...]) -> None:
    code = compile(init_rpc_lines(config, workload_spec(*roles)), "lines", "exec")
    assert {"torch", "rpc", "options"} <= set(code.co_names)


def test_the_options_are_what_torch_takes() -> None:
    import torch.distributed.rpc as rpc

    config = for_all(num_worker_threads=6, rpc_timeout=5, transports="uv")
    lines = init_rpc_lines(config, workload_spec()).splitlines()
    (expression,) = [line.removeprefix("options = ") for line in lines if "options = " in line]
    known: dict[str, Any] = {"rpc": rpc}
    options = eval(expression, known)  # noqa: S307 - these are the lines that a person pastes
    assert isinstance(options, rpc.TensorPipeRpcBackendOptions)
    assert options.num_worker_threads == 6
    assert options.rpc_timeout == 5.0
