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


def run_with(order: str) -> tuple[str, str]:
    environment = {**os.environ, "PYTHONPATH": str(HOOK), ORDER_VARIABLE: order}
    done = subprocess.run([sys.executable, "-c", "print('ran')"], env=environment,
                          capture_output=True, text=True, check=True)  # fmt: skip
    return done.stdout, done.stderr


@pytest.mark.parametrize(
    ("order", "problem"),
    [
        ("", "Expecting value"),
        ("[]", "the order is no object"),
        ("[" * 100_000, "recursion"),
        ("{}", "has no valid package and reports and channel"),
        (json.dumps({**WHOLE, "reports": 5}), "has no valid reports"),
        (json.dumps({**WHOLE, "live": [0.1]}), "has no valid live"),
        (json.dumps({**WHOLE, "recording": "\x1b[2J"}), "has no valid recording"),
        ('"\x1b[2J"', "Invalid control character"),
        ('"\\u001b[2J"', r"\\u001b[2J"),
    ],
)
def test_the_program_runs_whatever_the_variable_holds(order: str, problem: str) -> None:
    out, err = run_with(order)
    assert out == "ran\n"
    assert err.startswith("rpc-tuner: the hook does not work here: ")
    assert problem in err
    assert (err.count("\n"), err.count("\x1b")) == (1, 0)
