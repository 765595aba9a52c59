"""What `tuner.init` writes runs as it is."""

import math
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

import tuner
from tests.cheap_studies import cheaply
from tests.commands.running import environment
from tests.fakes import FakeLauncher
from tests.programs.running import free_port
from tests.searching.tuning import scaling
from tuner import init


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.world
@pytest.mark.thorough
def test_the_workload_runs(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert init.main(["workload", "own.py"]) == 0
    reference = "own.py:MyWorkload"
    assert capsys.readouterr().out == (
        f"Wrote own.py. It runs as it is: rpc-tuner search --workload {reference}\n"
    )
    result = tuner.tune(
        reference, space={"num_worker_threads": [2]}, max_blocks=1, min_time="0.05s", budget="60s",
        options={"calls": 2, "size": 10},
    )  # fmt: skip
    assert set(result.trials["outcome"]) <= {"completed", "eliminated", "not-measured"}
    assert result.trials["failure"].isna().all()


@pytest.mark.world
@pytest.mark.thorough
def test_the_program_runs(here: Path) -> None:
    assert init.main(["program"]) == 0
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "my_program.py"],
        capture_output=True,
        text=True,
        env=environment(MASTER_PORT=free_port()),
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("results: 160\ntook ")


def test_the_plan_is_searched(here: Path) -> None:
    assert init.main(["plan"]) == 0
    keys = tomllib.loads(Path("my_plan.toml").read_text())
    launcher = FakeLauncher(step_ms=scaling)
    with cheaply():
        result = tuner.tune(plan="my_plan.toml", launcher=launcher, clock=launcher.clock)
    assert result.plan.name == keys["name"] == "my-study"
    assert len(result.trials) == math.prod(map(len, keys["space"].values()))
    assert Path("studies/my-study/recommended.json").exists()
