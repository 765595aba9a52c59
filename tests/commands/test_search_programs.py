"""Programs that nobody edits, searched for real: what is planted in them is found."""

import json
import sys
from pathlib import Path

import pytest

import tuner
from tests.programs.running import PROGRAMS
from tuner import run, search

pytestmark = [pytest.mark.world, pytest.mark.thorough]


@pytest.fixture(scope="module")
def naps(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a search: eight naps of 10 ms at a time, beside a baseline of one thread."""
    folder = tmp_path_factory.mktemp("naps") / "study"
    program = [sys.executable, str(PROGRAMS / "spawn_env.py"), "2", "10"]
    arguments = ["--space", "observer.num_worker_threads=2,8,32", "--max-blocks", "6",
                 "--baseline", "observer.num_worker_threads=1", "--out", str(folder)]  # fmt: skip
    assert search.main([*arguments, "--", *program]) == 0
    return folder


def test_as_many_threads_are_recommended_as_calls_wait(naps: Path) -> None:
    result = tuner.load_study(naps)
    assert result.verdict == "better"
    assert result.best is not None
    assert result.best.for_role("observer")["num_worker_threads"] in (8, 32)
    assert result.speedup is not None
    # 8 naps one after another, or all at once; a call takes more than its nap.
    assert 3 < result.speedup.estimate < 9
    trials = result.trials
    assert trials["parallelism_max"].max() == 8
    assert set(trials["outcome"]) <= {"completed", "eliminated", "not-measured"}


def test_its_files_say_what_was_measured_and_how_to_use_it(
    naps: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    recommended = json.loads((naps / "recommended.json").read_text())
    program = [sys.executable, str(PROGRAMS / "spawn_env.py"), "2", "10"]
    assert recommended["environment"]["program"]["commands"] == [program]
    assert recommended["environment"]["workload"] is None
    assert recommended["objective"] == "rpc_active_s"
    assert recommended["baseline"] == {"observer": {"num_worker_threads": 1}}
    page = (naps / "report.html").read_text()
    assert "python -m tuner.run" in page
    assert run.main([str(naps / "recommended.json"), "--", *program[:3], "1"]) == 0
    threads = recommended["config"]["observer"]["num_worker_threads"]
    assert f"rpc-tuner: observer1 has num_worker_threads={threads}" in capfd.readouterr().err


def test_a_deadlock_is_proved_and_its_stacks_are_kept(tmp_path: Path) -> None:
    result = tuner.tune(
        program=[sys.executable, str(PROGRAMS / "nested.py"), "29512", "8", "4"],
        space={"relay": {"num_worker_threads": [1]}},
        max_blocks=2,
        out=tmp_path / "study",
    )
    by_threads = {
        config.for_role("relay")["num_worker_threads"]: (outcome, failure)
        for config, outcome, failure in zip(
            result.trials["config"], result.trials["outcome"], result.trials["failure"], strict=True
        )
    }
    outcome, failure = by_threads[1]
    assert outcome == "deadlocked"
    assert "relay1 deadlocked: its only worker thread waits for the answer to a call" in failure
    assert by_threads[8][0] != "deadlocked"
    (kept,) = (tmp_path / "study" / "failures").iterdir()
    stacks = [file.read_text() for file in kept.glob("relay1*.stacks")]
    assert any("nested.py" in text and "in relay" in text for text in stacks)
    assert "calling" in (kept / "output").read_text()
