"""What `tuner.init` writes runs as it is."""

import math
import subprocess
import tomllib
from pathlib import Path

import pytest

import tuner
from testing.cheap_studies import cheaply
from testing.fakes import FakeLauncher
from testing.programs import PYTHON, free_port
from tests.commands.running import environment
from tests.searching.tuning import scaling
from tuner import init

pytestmark = pytest.mark.usefixtures("here")


@pytest.mark.world
@pytest.mark.thorough
def test_the_workload_runs(capsys: pytest.CaptureFixture[str]) -> None:
    assert init.main(["workload", "own.py"]) == 0
    reference = "own.py:MyWorkload"
    said = f"Wrote own.py. It runs as it is: rpc-tuner search --workload {reference}\n"
    assert capsys.readouterr().out == said
    trials = tuner.tune(
        reference, space={"num_worker_threads": [2]}, max_blocks=1, min_time="0.05s", budget="60s",
        options={"calls": 2, "size": 10},
    ).trials  # fmt: skip
    assert set(trials["outcome"]) <= {"completed", "eliminated", "not-measured"}
    assert trials["failure"].isna().all()


@pytest.mark.world
@pytest.mark.thorough
def test_the_program_runs() -> None:
    assert init.main(["program"]) == 0
    done = subprocess.run(
        [*PYTHON, "my_program.py"], capture_output=True, text=True, timeout=120,
        env=environment(MASTER_PORT=free_port()),
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("results: 160\ntook ")


def test_the_plan_is_searched() -> None:
    assert init.main(["plan"]) == 0
    keys = tomllib.loads(Path("my_plan.toml").read_text())
    launcher = FakeLauncher(step_ms=scaling)
    with cheaply():
        result = tuner.tune(plan="my_plan.toml", launcher=launcher, clock=launcher.clock)
    assert result.plan.name == keys["name"] == "my-study"
    assert len(result.trials) == math.prod(map(len, keys["space"].values()))
    assert Path("studies/my-study/recommended.json").exists()
