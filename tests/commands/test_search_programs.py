"""Programs that nobody edits, searched for real: what is planted in them is found."""

import json
import re
from pathlib import Path

import pytest

import tuner
from tests.world.command.recorded import python
from tuner import run, search

pytestmark = [pytest.mark.world, pytest.mark.thorough]


def test_as_many_threads_are_recommended_as_calls_wait(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """Eight naps of 10 ms at a time, beside a baseline of one thread."""
    folder, program = tmp_path / "study", python("spawn_env.py", "2")
    flags = ["--space", "observer.num_worker_threads=2,8,32", "--max-blocks", "6",
             "--baseline", "observer.num_worker_threads=1", "--out", str(folder)]  # fmt: skip
    assert search.main([*flags, "--", *program, "10"]) == 0
    result = tuner.load_study(folder)
    assert result.verdict == "better"
    assert result.best is not None
    threads = result.best.for_role("observer")["num_worker_threads"]
    assert threads in (8, 32)
    assert result.speedup is not None
    # 8 naps one after another, or all at once; a call takes more than its nap.
    assert 3 < result.speedup.estimate < 9
    assert result.trials["parallelism_max"].max() == 8
    assert set(result.trials["outcome"]) <= {"completed", "eliminated", "not-measured"}
    recommended = json.loads((folder / "recommended.json").read_text())
    assert recommended["environment"]["program"]["commands"] == [[*program, "10"]]
    assert recommended["environment"]["workload"] is None
    assert recommended["objective"] == "rpc_active_s"
    assert recommended["baseline"] == {"observer": {"num_worker_threads": 1}}
    assert result.objective.name == "rpc_active_s"
    assert "rpc-tuner run" in (folder / "report.html").read_text()
    capfd.readouterr()
    assert run.main([str(folder / "recommended.json"), "--", *program, "1"]) == 0
    assert f"rpc-tuner: observer1 has num_worker_threads={threads}" in capfd.readouterr().err


def test_a_deadlock_is_proved_and_its_stacks_are_kept(tmp_path: Path) -> None:
    result = tuner.tune(
        program=python("nested.py", "29512", "8", "4"),
        space={"relay": {"num_worker_threads": [1]}},
        max_blocks=2,
        out=tmp_path / "study",
    )
    found = {
        config.for_role("relay")["num_worker_threads"]: (outcome, failure)
        for config, outcome, failure in result.trials[["config", "outcome", "failure"]].values
    }
    outcome, failure = found[1]
    assert (outcome, found[8][0] == "deadlocked") == ("deadlocked", False)
    assert "relay1 deadlocked: its only worker thread waits for the answer to a call" in failure
    (kept,) = (tmp_path / "study" / "failures").iterdir()
    stacks = "".join(file.read_text() for file in kept.glob("relay1*.stacks"))
    assert re.search(r"nested\.py.*in relay", stacks)
    assert "calling" in (kept / "output").read_text()
