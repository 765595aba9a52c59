"""What is counted and reported does not depend on what was imported before the hook was set."""

import os
import subprocess
from contextlib import closing
from pathlib import Path

import pytest

from testing.programs import PYTHON
from tuner.plan.config import Config
from tuner.world.command.order import HOOK, HookOrder, RecordingOrder
from tuner.world.command.program_channel import ProgramChannel

ROOT = Path(__file__).parents[3]
CALLS = 5
PROGRAM = f"""
import os, sys
import torch.distributed.rpc as rpc
from torch.distributed.rpc import TensorPipeRpcBackendOptions, init_rpc, rpc_sync, shutdown
import tuner.trace.record.program_recorder
sys.path.append({str(HOOK)!r})
import rpc_tuner_hook
rpc_tuner_hook.install(sys.argv[1])
options = TensorPipeRpcBackendOptions(init_method=f"file://{{os.getcwd()}}/store")
init_rpc("alone", rank=0, world_size=1, rpc_backend_options=options)
for number in range({CALLS}):
    rpc_sync("alone", os.path.basename, args=(f"a/{{number}}",))
rpc.rpc_async("alone", max, args=(1, 2)).wait()
shutdown()
"""


@pytest.mark.world
@pytest.mark.parametrize("recording", [None, RecordingOrder()], ids=["plain", "recorded"])
def test_what_took_the_functions_before_is_hooked_too(
    recording: RecordingOrder | None, tmp_path: Path
) -> None:
    """As a library that a warm start imports beforehand has taken them."""
    order = HookOrder(config=Config.of({}), reports=tmp_path, recording=recording).to_json()
    with closing(ProgramChannel(tmp_path)) as channel:
        done = subprocess.run(
            [*PYTHON, "-c", PROGRAM, order], cwd=tmp_path, capture_output=True, text=True,
            env={**os.environ, "PYTHONPATH": str(ROOT)}, timeout=120, check=False,
        )  # fmt: skip
        report = channel.report()
    assert (done.returncode, done.stderr) == (0, "")
    assert report.problems == ()
    (rank,) = report.ranks
    assert rank.calls == CALLS + 1
    assert rank.shutdown_ns is not None
    assert rank.ended_ns is not None


def test_the_tool_itself_is_not_what_a_program_has_installed(tmp_path: Path) -> None:
    """Where pip has put it beside the libraries, no server of warm starts may import it."""
    site = tmp_path / "site-packages"
    for name in ("tuner", "tuners"):
        (site / name).mkdir(parents=True)
        (site / name / "__init__.py").touch()
    (site / "tuner" / "roles.py").touch()
    code = (
        f"import sys; sys.path[:0] = [{str(site)!r}, {str(HOOK)!r}]\n"
        "import decimal, tuner.roles, tuners, rpc_tuner_hook\n"
        "print(*rpc_tuner_hook.installed_modules())"
    )
    found = subprocess.check_output([*PYTHON, "-c", code], text=True).split()
    assert {"decimal", "tuners"} <= {*found}
    assert not {"tuner", "tuner.roles", "rpc_tuner_hook"} & {*found}
