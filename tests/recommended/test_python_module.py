"""The Python export stands alone."""

import runpy
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from testing.specs import threads, workload_spec
from tests.recommended.documents import EACH, recommendation
from tuner.plan.config import Config
from tuner.plan.workload_spec import WorkloadSpec
from tuner.recommended.model import Recommendation
from tuner.recommended.python_module import as_python

RUFF = shutil.which("ruff", path=str(Path(sys.executable).parent))
STRANGE = WorkloadSpec(
    reference='my "file".py:It\'s\nimport nothing',
    summary="A workload whose names are no names.",
    options={"text": 'a"""\\\n\x00b', "path": "C:\\new"},
    ranks=workload_spec('the "boss"', "it's").ranks,
    intra_op_threads=3,
)
MANY = workload_spec("agent", *["observer"] * 11)

ALL = [
    *EACH,
    recommendation(threads(2), MANY),
    recommendation(Config.from_json({"it's": {"num_worker_threads": 2}}), STRANGE),
]


@pytest.mark.parametrize("each", ALL)
def test_the_module_has_the_options_of_every_role(each: Recommendation) -> None:
    # What it defines where another module imports it.
    module: dict[str, Any] = {"__name__": "rpc_config"}
    exec(compile(as_python(each, "A sentence."), "rpc_config.py", "exec"), module)  # noqa: S102 - the export under test
    assert set(module["OPTIONS"]) == set(each.roles)
    for role, options in module["OPTIONS"].items():
        values = each.values_of(role)
        assert options.num_worker_threads == values.get("num_worker_threads", 16)
        assert options.rpc_timeout == values.get("rpc_timeout", 60.0)
        assert (*map(str, options.devices),) == (values.get("devices") or ())
        assert module["INTRA_OP_THREADS"][role] == values["intra_op_threads"]
    assert module["RANKS"] == [(rank.name, rank.role) for rank in each.ranks]


@pytest.mark.parametrize("each", ALL)
@pytest.mark.parametrize(
    "check", [("format", "--diff"), ("check", "--select", "E4,E7,E9,F,I,N,UP")]
)
def test_the_module_is_as_ruff_would_write_it(each: Recommendation, check: tuple[str, ...]) -> None:
    assert RUFF is not None
    module, command = as_python(each, "Use it. " * 30), [RUFF, *check, "--isolated", "-"]
    done = subprocess.run(command, input=module, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


def test_without_a_rank_it_says_how_to_run_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "rpc_config.py"
    path.write_text(as_python(recommendation(threads(4)), "A sentence."))
    monkeypatch.delenv("RANK", raising=False)
    monkeypatch.setattr(sys, "argv", [str(path)])
    with pytest.raises(SystemExit) as ended:
        runpy.run_path(str(path), run_name="__main__")
    assert ended.value.code == (
        f"to see that it runs: torchrun --standalone --nproc-per-node 2 {path}"
    )
