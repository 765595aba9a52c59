"""A recommendation that `check` measures again: what holds, what no longer does."""

import json
import re
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from testing.cheap_studies import *  # noqa: F403 - fixtures, for every test of this file
from testing.fakes import FakeLauncher, threads_of
from tests.fake_program import COMMAND, FakeProgramLauncher
from tests.searching.tuning import failing, scaling
from tuner import search
from tuner.api import check, tune
from tuner.errors import UsageError
from tuner.plan.config import Config
from tuner.plan.launching import Launching
from tuner.present.check_result import CheckResult, check_lines
from tuner.present.study_result import StudyResult
from tuner.world.measurement import FailureKind


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.chdir(tmp_path)
    # SQLite takes most of such a study's time.
    MemoryStorages(monkeypatch)  # noqa: F405
    yield
    assert not list(tmp_path.glob("*-check"))


def searched(launcher: FakeLauncher | None = None, **changes: Any) -> Path:
    """A study in `studies/udf` of 1 to 4 threads, quick enough to be repeated by each test."""
    launcher = launcher or FakeLauncher(step_ms=scaling, sigma=0.01)
    keys = {"space": {"num_worker_threads": [1, 2, 4]}, "max_blocks": 30, "budget": "30s",
            "baseline": {"num_worker_threads": 1}, **changes}  # fmt: skip
    return tune("udf", launcher=launcher, clock=launcher.clock, **keys).folder


def today(study: str | Path = "udf", how: Mapping[str, Any] = {}, **world: Any) -> CheckResult:
    launcher = FakeLauncher(**{"sigma": 0.01, "step_ms": scaling, **world})
    return check(study, launcher=launcher, clock=launcher.clock, **{"max_blocks": 40, **how})


SLOWER = {"step_ms": lambda config: 1.0 + threads_of(config)}
"""With more threads."""
EQUAL = {"step_ms": lambda config: 2.0}
CPUS = {"cpu_cores": lambda config: float(threads_of(config))}


def once(kind: FailureKind, threads: int | None = None) -> Callable[[Config, int], Any]:
    """The third world fails of this number of threads, or of each."""
    return lambda config, world: (
        kind if world == 2 and threads in (None, threads_of(config)) else None
    )


CASES: tuple[tuple[dict[str, Any], dict[str, Any], str, int, str], ...] = (
    # How it was searched, how worlds are today; the outcome, the exit code, and what is said.
    ({}, {}, "holds", 0,
     r"The recommendation holds: num_worker_threads=4 is [34]\..* times as fast as the baseline "
     r"num_worker_threads=1 \("),
    ({}, EQUAL, "no-longer-holds", 4,
     r"The recommendation no longer holds: num_worker_threads=4 is .*\. It was .* times then\. "
     r"Search again\.$"),
    ({}, {"step_ms": lambda config: 2.2 if threads_of(config) == 1 else 2.1, "sigma": 0.5},
     "undecided", 0, "Not decided whether the recommendation still holds: "),
    ({}, {"fails": failing("deadlocked", 4)}, "cannot-run", 3,
     "The recommendation num_worker_threads=4 cannot run here: deadlocked: worker1 failed first$"),
    ({}, {"fails": once("wrong-answer", 4)}, "cannot-run", 3,
     "The recommendation num_worker_threads=4 failed in 1 of 3 worlds here: wrong-answer: worker1 "
     "failed first$"),
    ({}, {"fails": once("crashed")}, "holds", 0, ""),
    ({}, {"fails": failing("crashed", 1)}, "holds", 0,
     ".*num_worker_threads=4 runs, and the baseline num_worker_threads=1 cannot"),
    (SLOWER, SLOWER, "holds", 0,
     ".*its strongest rival num_worker_threads=2 is "),
    (SLOWER, {}, "no-longer-holds", 4, ""),
    (SLOWER, {**SLOWER, "fails": failing("crashed", 2)}, "holds", 0,
     r".*its strongest rival num_worker_threads=2 cannot run here \(crashed\)"),
    ({**EQUAL, "sigma": 0.4}, {}, "no-longer-holds", 4,
     "The search was undecided, and today shows that what it kept is "),
    ({"require": "cpu_cores<=5"}, CPUS, "holds", 0, ""),
    ({"require": "cpu_cores<=5"}, {"cpu_cores": lambda config: 2.0 * threads_of(config)},
     "no-longer-holds", 4,
     r"The recommendation no longer holds: num_worker_threads=4 breaks a limit here \(cpu_cores 8 "
     r"> 5, by 60 %\)\. Search again\.$"),
    # A baseline that breaks a limit is no rival.
    ({**SLOWER, **CPUS, "require": "cpu_cores>=2", "space": {"num_worker_threads": [1, 2]}},
     {**SLOWER, **CPUS}, "holds", 0, r".*=1 breaks a limit here \(cpu_cores 1 < 2"),
)  # fmt: skip


@pytest.mark.parametrize(("study", "world", "outcome", "code", "said"), CASES)
def test_it_says_whether_a_recommendation_holds(
    study: dict[str, Any], world: dict[str, Any], outcome: str, code: int, said: str
) -> None:
    then = {"step_ms": scaling, "sigma": 0.01, **study}
    asked = {name: then.pop(name) for name in ("require", "space") if name in then}
    searched(FakeLauncher(**then), **asked)
    result = today(**world)
    assert (result.outcome, result.exit_code) == (outcome, code)
    assert re.match(said, str(result))
    assert result.to_json()["holds"] == {"holds": True, "undecided": None}.get(outcome, False)
    assert result.keeps_baseline == ("step_ms" in study and "require" not in study)


@pytest.mark.parametrize(
    ("threads", "outcome", "code"), [(4, "no-longer-holds", 4), (1, "holds", 0)]
)
def test_what_fails_more_often_than_the_other_is_not_kept(
    threads: int, outcome: str, code: int
) -> None:
    def fails(config: Config, world: int) -> FailureKind | None:
        return "crashed" if threads_of(config) == threads and world % 4 else None

    searched()
    result = today(step_ms=lambda config: 2.0 / threads_of(config) ** 0.01, sigma=0.3, fails=fails)
    assert (result.outcome, result.exit_code) == (outcome, code)
    row = next(row for row in result.answer.rows if threads_of(row.config) == threads)
    said = f"num_worker_threads={threads} failed in {row.worlds_failed} of {row.worlds_run} worlds"
    assert f"{said} here, more often than the other" in str(result)


def test_it_leaves_the_study_alone_and_keeps_its_files_where_asked(tmp_path: Path) -> None:
    folder = searched()
    before = {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    for _ in range(2):
        today(how={"max_blocks": 8, "out": tmp_path / "ci"})
    assert {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()} == before
    assert (tmp_path / "ci" / "trials.csv").exists()


def test_a_folder_without_its_database_is_known_by_its_recommendation() -> None:
    folder = searched()
    for study in ("udf", folder, folder / "recommended.json"):
        assert today(study).outcome == "holds"
    (folder / "study.db").unlink()
    assert today(folder).outcome == "holds"


def test_a_study_in_another_storage_is_checked_there() -> None:
    url = f"sqlite:///{Path('shared.db').absolute()}"
    searched(storage=url, name="one")
    assert today("one", {"storage": url}).outcome == "holds"


def test_what_cannot_be_checked_is_told() -> None:
    searched()
    all_fail = FakeLauncher(fails=failing("crashed", 1, 2, 4))
    searched(all_fail, name="alone", baseline={"num_worker_threads": 16})
    for study, how, message in (
        ("elsewhere", {}, "there is no study 'elsewhere'"),
        ("gone.json", {}, "cannot read gone.json"),
        ("alone", {}, "there is nothing to compare with the baseline"),
        ("udf", {"interface": "eth1"}, "interface is for the launcher ray"),
    ):
        with pytest.raises(UsageError, match=message):
            today(study, how)


def from_elsewhere(folder: Path, **environment: object) -> Path:
    """The recommendation of that folder, as if it came from another machine."""
    document = json.loads((folder / "recommended.json").read_text())
    document["environment"].update(environment)
    path = folder.parent / "elsewhere.json"
    path.write_text(json.dumps(document))
    return path


def test_another_machine_a_busy_one_and_failures_of_others_are_told() -> None:
    file = from_elsewhere(searched(), cpu_model="Abacus 9000")
    result = today(file, others_cpus=lambda number: 1.0, fails=once("crashed"))
    lines = "\n".join(check_lines(result))
    for told in ("CPU model: Abacus 9000, ", "\nThe machine was busy: ", "fails in 2 of "):
        assert told in lines


def test_the_command_prints_a_sentence_or_a_document(
    monkeypatch: pytest.MonkeyPatch, capsysbinary: pytest.CaptureFixture[bytes]
) -> None:
    searched()
    asked: list[dict[str, Any]] = []

    def measured(study: str, **given: Any) -> CheckResult:
        asked.append({"study": study, **given})
        return today(step_ms=EQUAL["step_ms"])

    monkeypatch.setattr("tuner.api.check", measured)
    assert search.main(["--check", "udf", "--budget", "5s", "--epsilon", "2%"]) == 4
    said = capsysbinary.readouterr().out
    assert said.startswith(b"The recommendation no longer holds: num_worker_threads=4")
    assert (asked[0]["study"], asked[0]["budget"], asked[0]["epsilon"]) == ("udf", "5s", "2%")
    assert set(asked[0]) == {"study", "observer", "show", "budget", "epsilon"}
    where = ["--no-isolation", "--ray-address", "head:6379", "--interface", "eth1"]
    assert search.main(["--check", "udf", "--json", *where]) == 4
    assert asked[1]["isolation"] is False
    assert (asked[1]["ray_address"], asked[1]["interface"]) == ("head:6379", "eth1")
    document = json.loads(capsysbinary.readouterr().out)
    assert (document["outcome"], document["holds"]) == ("no-longer-holds", False)
    assert document["config"] == {"*": {"num_worker_threads": 4}}
    assert document["speedup"]["ci_low"] < 1 < document["speedup"]["ci_high"]
    assert document["recommended"]["speedup"]["estimate"] > 3


@pytest.mark.parametrize("isolated", [True, False])
def test_worlds_are_isolated_as_in_the_study_or_as_a_person_says(isolated: bool) -> None:
    folder = searched(isolation=isolated)
    for how, expected in (({}, isolated), ({"isolation": not isolated}, not isolated)):
        again = today(folder, {"max_blocks": 8, **how})
        assert again.answer.plan.launching == Launching(isolation=expected)


def by_threads(config: Config) -> float:
    return 4.0 if config.for_role("observer").get("num_worker_threads") == 8 else 8.0


def program_searched(program: list[str], **keys: Any) -> StudyResult:
    launcher = FakeProgramLauncher(active_s=by_threads)
    return tune(
        program=program, launcher=launcher, clock=launcher.clock, max_blocks=12,
        space={"observer": {"num_worker_threads": [1, 8]}}, **keys,
    )  # fmt: skip


def test_a_program_is_run_as_the_study_ran_it() -> None:
    result = program_searched(COMMAND, roles={"observer": "observer[0-9]+"}, expect="done")
    launcher = FakeProgramLauncher(active_s=by_threads)
    again = check(
        result.folder / "recommended.json", launcher=launcher, clock=launcher.clock, max_blocks=12
    )
    assert again.outcome == "holds"
    assert again.answer.plan.subject == result.plan.subject
    assert again.answer.objective == result.objective
    assert {row.label for row in again.answer.rows} == {
        str(result.baseline), "observer.num_worker_threads=8",
    }  # fmt: skip


@pytest.mark.world
@pytest.mark.thorough
def test_a_program_that_fails_as_it_is_cannot_run(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = program_searched([sys.executable, "main.py"]).folder
    (tmp_path / "main.py").write_text("raise ValueError('no data')")
    capsys.readouterr()
    assert search.main(["--check", str(folder)]) == 3
    told = capsys.readouterr().err
    assert "the recommendation observer.num_worker_threads=8 cannot run here: the program" in told
    assert "ValueError: no data" in told


def faster_bound(config: Config) -> float:
    return 1.0 if config.for_role("caller")["cpu_binding"] == "equal" else 2.0


def test_another_topology_is_told_where_ranks_are_bound() -> None:
    bound = searched(FakeLauncher(step_ms=faster_bound, sigma=0.01), name="bound",
                     space={"cpu_binding": ["none", "equal"]},
                     baseline={"cpu_binding": "none"})  # fmt: skip
    found = today(from_elsewhere(bound, numa_nodes=99), step_ms=faster_bound)
    assert [difference.partition(":")[0] for difference in found.differences] == ["NUMA nodes"]
    assert today(from_elsewhere(searched(), numa_nodes=99)).differences == []
