"""What the hook does with a variable that rpc-tuner did not write."""

import json
import os
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest

from tuner.plan.config import Config
from tuner.world.command.order import HOOK, ORDER_VARIABLE, HookOrder
from tuner.world.command.program_channel import ProgramChannel

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


def test_what_pytorch_deprecates_in_its_own_code_is_reported_and_not_printed(
    tmp_path: Path,
) -> None:
    folder = tmp_path / "torch" / "distributed"
    folder.mkdir(parents=True)
    (folder / "old.py").write_text(
        "import warnings\nwarnings.warn('this use is deprecated')\nwarnings.warn('take care')"
    )
    code = f"import sys, warnings; sys.path.append({str(folder)!r}); import old\n"
    code += "warnings.warn('mine is deprecated')"
    for says, told in ((False, ["UserWarning: this use is deprecated"]), (True, [])):
        reports = tmp_path / f"reports-{says}"
        reports.mkdir()
        order = HookOrder(config=Config.of({}), reports=reports, say=says)
        with closing(ProgramChannel(reports)) as channel:
            done = subprocess.run(
                [sys.executable, "-c", code], env=order.environment(os.environ),
                capture_output=True, text=True, check=True,
            )  # fmt: skip
            assert [*channel.report().warned] == told
        assert "UserWarning: take care" in done.stderr
        assert "UserWarning: mine is deprecated" in done.stderr
        # Who runs a program with a configuration sees all that it prints.
        assert ("this use is deprecated" in done.stderr) == says
