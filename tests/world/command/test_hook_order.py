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


def test_libraries_get_one_number_of_intra_op_threads_as_they_are_loaded() -> None:
    def variables(given: dict[str, str], **by_role: object) -> dict[str, str]:
        config = Config.from_json({"*": {"num_worker_threads": 4}, **by_role})
        order = HookOrder(config=config, reports=Path("nowhere"))
        return {k: v for k, v in order.environment(given).items() if k.endswith("_NUM_THREADS")}

    one, two = {"intra_op_threads": 1}, {"intra_op_threads": 2}
    assert variables({}) == {}
    assert variables({}, **{"*": one}) == {"OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}
    # The role of a process is known in init_rpc only.
    assert variables({}, **{"*": one}, agent=two) == variables({}, agent=two) == {}
    # What the program's owner has set stays.
    owned = {"OMP_NUM_THREADS": "4"}
    assert variables(owned, **{"*": one}) == {**owned, "MKL_NUM_THREADS": "1"}


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
