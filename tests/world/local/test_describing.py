"""What a launcher says of a workload, and of a module that goes wrong."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.fakes import order
from tests.world.local.launching import launcher
from tuner.errors import UsageError
from tuner.plan import measuring
from tuner.plan.draft import draft_plan
from tuner.world.local.local_launcher import LocalLauncher
from tuner.world.measurement import Measurement

__all__ = ["launcher"]

pytestmark = [pytest.mark.world, pytest.mark.thorough]

TROUBLES = Path(__file__).with_name("troubles.py")


@pytest.mark.parametrize(
    ("workload", "problem"),
    [
        ("Absent", "has no class Absent"),
        ("NoSteps", "does not define step"),
        ("TwiceTheSameName", "the rank name 'worker0' is used 2 times"),
        ("Untyped", "Untyped.calls has no type; write `calls: int = 4`"),
        ("NobodyThere", "ranks() is empty; rank 0 must be there to drive"),
        ("call_back", "has no class call_back"),
    ],
)
def test_mistakes_in_a_workload_are_reported(
    launcher: LocalLauncher, workload: str, problem: str
) -> None:
    with pytest.raises(UsageError) as raised:
        launcher.describe(f"{TROUBLES}:{workload}", {})
    assert problem in str(raised.value)


DESCRIBE = """
import sys
from tuner.world.local.local_launcher import LocalLauncher
with LocalLauncher() as launcher:
    print(*launcher.describe(sys.argv[1], {}).roles)
"""


def test_what_a_module_prints_on_import_stays_off_stdout(tmp_path: Path) -> None:
    module = tmp_path / "chatty.py"
    module.write_text("print('hello')\nfrom tests.world.local.troubles import Pair\n")
    done = subprocess.run(
        [sys.executable, "-c", DESCRIBE, f"{module}:Pair"],
        env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[3])},
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.stdout == "caller server\n"
    assert "hello" in done.stderr


def test_files_are_named_from_the_folder_that_the_program_is_in_now(
    launcher: LocalLauncher, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("here.py").write_text("from tests.world.local.troubles import Pair\n")
    spec = launcher.describe("here.py:Pair", {})
    assert isinstance(launcher.run(order(spec)), Measurement)


@pytest.mark.parametrize(
    ("code", "told"),
    [
        ("import os\nos._exit(7)",
         "the process that imports it ended without an answer (exit code 7)"),
        ("import time\ntime.sleep(600)",
         "importing and describing it took longer than 0.5 s and was ended"),
    ],
)  # fmt: skip
def test_an_import_that_gives_no_answer_within_the_budget_is_reported(
    launcher: LocalLauncher, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: str, told: str
) -> None:
    module = tmp_path / "module.py"
    module.write_text(code)
    monkeypatch.setattr(measuring, "LEAST_START_S", 0.1)
    budget = "0.5s" if "sleep" in code else "120s"
    with pytest.raises(UsageError) as raised:
        launcher.subject_of(draft_plan({"workload": f"{module}:Anything", "budget": budget}))
    assert str(raised.value) == f"workload {module}:Anything: {told}; what it printed stands above"
