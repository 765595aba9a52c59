"""The search command on real worlds, as a person runs it."""

import json
import re
import signal
from pathlib import Path
from typing import Any

import optuna
import pytest

import tuner
from testing.cheap_studies import cheaply
from tests.commands.running import Done, in_new_process, in_this_process, started
from tests.world.command.recorded import python
from tuner import search
from tuner.trace.files.reader import read_trace
from workloads.registry import SHIPPED

pytestmark = pytest.mark.world

SEARCH = (
    "--workload", "udf", "--space", "num_worker_threads=1,2", "--baseline", "num_worker_threads=5",
    "--min-time", "0.05s", "--max-blocks", "3", "--budget", "20m", "--out", "here",
)  # fmt: skip
QUICK = (
    "--workload", "udf", "--space", "num_worker_threads=2", "--min-time", "0.05s",
    "--budget", "20m", "--max-blocks", "4",
)  # fmt: skip


@pytest.fixture(scope="module")
def real_search(tmp_path_factory: pytest.TempPathFactory) -> tuple[Done, Path]:
    """A search in a new process, and the study's folder."""
    here = tmp_path_factory.mktemp("searched")
    done = in_new_process(*SEARCH, cwd=here)
    assert done.returncode == 0, done.stderr
    return done, here / "here"


@pytest.fixture(scope="module")
def answered(real_search: tuple[Done, Path]) -> tuple[dict[str, Any], Path]:
    """The JSON document of a search, which measures no more, and the study's folder."""
    _, folder = real_search
    with cheaply(publishes=True, reads_traces=True):
        done = in_this_process(*SEARCH, "--resume", "--json", cwd=folder.parent)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout), folder


def trials_of(document: dict[str, Any]) -> dict[int, dict[str, Any]]:
    """The trials of the document, by their worker threads."""
    return {trial["config"]["*"]["num_worker_threads"]: trial for trial in document["trials"]}


def test_a_search_answers_with_the_document_of_the_contract(
    answered: tuple[dict[str, Any], Path],
) -> None:
    document, _ = answered
    assert document["study"] == "udf"
    assert document["baseline"] == {"*": {"num_worker_threads": 5}}
    assert document["verdict"] in ("better", "tie", "keep-baseline", "undecided")
    assert document["blocks"] == 3
    trials = trials_of(document)
    assert set(trials) == {1, 2, 5}
    for trial in trials.values():
        assert trial["value"] > 0
        assert 0 < trial["cpu_cores"] < 64
        assert trial["rpc_cpu_total_ms"] > 0
        assert 1 <= trial["parallelism_mean"] <= trial["parallelism_max"] <= 4
        assert trial["tracing_overhead"] > 0
    # Where the machine stood still meanwhile, a trace holds too few calls to tell.
    assert any("worker1" in trial["diagnosis"] for trial in trials.values())
    assert trials[1]["parallelism_max"] == 1
    # The baseline is measured twice in a block, and compared with itself.
    assert trials[5]["samples"] == 6
    assert document["why"]["baseline"] == trials[5]["diagnosis"]


def test_a_search_leaves_a_trace_of_each_configuration(
    answered: tuple[dict[str, Any], Path],
) -> None:
    document, folder = answered
    for number, trial in trials_of(document).items():
        trace = read_trace(folder / "traces" / f"num_worker_threads={number}.json")
        assert (trace.losses, trace.tracing_overhead) == ((), trial["tracing_overhead"])
        assert trace.ranks[1].num_worker_threads == number
    recommended = json.loads((folder / "recommended.json").read_text())
    assert recommended["environment"]["options"] == {
        "calls": 4, "size": 100, "rounds": 10, "device": "cpu",
    }  # fmt: skip
    assert (folder / "figures" / "step_time.png").read_bytes().startswith(b"\x89PNG")


def test_the_shipped_workloads_are_listed(tmp_path: Path) -> None:
    done = in_this_process("--list-workloads", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert all(f"\n{name} " in f"\n{done.stdout}" for name in SHIPPED)
    assert "cannot run here" not in done.stdout


def test_a_search_tells_a_person_what_to_do(real_search: tuple[Done, Path]) -> None:
    done, _ = real_search
    assert re.match("(Use|Keep|A tie|Not decided)", done.stdout)
    assert len(done.stdout.splitlines()) <= 24
    assert done.stdout.endswith("\n\nPage: here/report.html. More: rpc-tuner show here --all\n")
    for said in ("calibrating", "racing · block 1 · 3 of 3 configurations left"):
        assert said in done.stderr
    # torch's own log lines stay with the ranks
    assert not re.search(r"Warning|\[W", done.stderr)


def test_ctrl_c_keeps_what_was_measured_and_resume_goes_on(tmp_path: Path) -> None:
    running = started(*QUICK, cwd=tmp_path)
    assert running.stderr is not None
    for line in running.stderr:
        if "block 2" in line:
            break
    running.send_signal(signal.SIGINT)
    rest = running.communicate(timeout=120)[1]
    assert running.returncode == 130
    assert rest.endswith("continues it: rpc-tuner search --resume --study udf\n")
    folder = tmp_path / "studies" / "udf"
    assert (folder / "trials.csv").exists()
    assert not (folder / "recommended.json").exists()
    before = _blocks_measured(folder)

    with cheaply(publishes=True, reads_traces=True):
        resumed = in_this_process("--resume", "--study", "udf", "--json", cwd=tmp_path)
    assert resumed.returncode == 0, resumed.stderr
    assert json.loads(resumed.stdout)["blocks"] == 4
    after = _blocks_measured(folder)
    assert all(after[trial].items() >= blocks.items() for trial, blocks in before.items())


def _blocks_measured(folder: Path) -> dict[int, dict[int, float]]:
    """The value of each block, by trial."""
    study = optuna.load_study(study_name="udf", storage=f"sqlite:///{folder}/study.db")
    return {trial.number: trial.intermediate_values for trial in study.trials}


@pytest.mark.thorough
def test_as_many_threads_are_recommended_as_calls_wait(tmp_path: Path) -> None:
    """Eight naps of 10 ms at a time, beside a baseline of one thread."""
    folder, program = tmp_path / "study", python("spawn_env.py", "2")
    flags = ["--space", "observer.num_worker_threads=2,8,32", "--max-blocks", "6",
             "--baseline", "observer.num_worker_threads=1", "--out", str(folder)]  # fmt: skip
    assert search.main([*flags, "--", *program, "10"]) == 0
    result = tuner.load_study(folder)
    assert result.verdict == "better"
    assert result.best is not None
    assert result.best.for_role("observer")["num_worker_threads"] in (8, 32)
    # 8 naps one after another, or all at once; a call takes more than its nap.
    assert result.speedup is not None
    assert 3 < result.speedup.estimate < 9
    assert result.trials["parallelism_max"].max() == 8
    assert set(result.trials["outcome"]) <= {"completed", "eliminated", "not-measured"}
    recommended = json.loads((folder / "recommended.json").read_text())
    assert recommended["environment"]["program"]["commands"] == [[*program, "10"]]
