"""What the hook does with a variable that rpc-tuner did not write."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tuner.plan.config import Config
from tuner.world.command.order import HOOK, ORDER_VARIABLE, HookOrder

WHOLE = json.loads(HookOrder(config=Config.of({}), reports=Path("nowhere")).to_json())


def run_with(order: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PYTHONPATH": str(HOOK), ORDER_VARIABLE: order}
    return subprocess.run(
        [sys.executable, "-c", "print('ran')"], env=environment, capture_output=True, text=True
    )


@pytest.mark.parametrize(
    ("order", "problem"),
    [
        ("", "Expecting value"),
        ("[]", "the order is no object"),
        ("[" * 100_000, "recursion"),
        ("{}", "has no valid package and reports and options"),
        (json.dumps({**WHOLE, "reports": 5}), "has no valid reports"),
        (json.dumps({**WHOLE, "recording": "\x1b[2J"}), "has no valid recording"),
        ('"\x1b[2J"', "Invalid control character"),
        ('"\\u001b[2J"', r"\\u001b[2J"),
    ],
)
def test_the_program_runs_whatever_the_variable_holds(order: str, problem: str) -> None:
    done = run_with(order)
    assert (done.returncode, done.stdout) == (0, "ran\n")
    assert done.stderr.startswith("rpc-tuner: the hook does not work here: ")
    assert problem in done.stderr
    assert done.stderr.count("\n") == 1
    assert "\x1b" not in done.stderr


def test_what_rpc_tuner_writes_is_taken(tmp_path: Path) -> None:
    order = HookOrder(config=Config.of({}), reports=tmp_path).to_json()
    done = run_with(order)
    assert (done.returncode, done.stdout, done.stderr) == (0, "ran\n", "")
    (report,) = tmp_path.iterdir()
    assert json.loads(report.read_text())["event"] == "started"
