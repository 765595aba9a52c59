"""One search at a time has a study: nothing runs, and nothing is removed, before that is sure."""

import fcntl
import os
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from testing.fakes import FakeLauncher, threads_of
from testing.known import known
from testing.made import Telling, refusal, search, written
from tuner.api import SearchInterrupted
from tuner.errors import UsageError
from tuner.plan.config import Config
from tuner.present.study_files import write_study_report
from tuner.study.folder import MANIFEST, StudyFolder

pytestmark = pytest.mark.slow

FOREIGN = ("figures/holiday.png", "traces/mine.json", "artifacts/thesis.pdf", "report.html",
           "trials.csv", "failures/notes/read.me")  # fmt: skip


def contents(folder: Path) -> dict[Path, bytes]:
    """Every file below a folder but locks, which say who has them."""
    files = (path for path in folder.rglob("*") if path.is_file() and path.suffix != ".lock")
    return {path: path.read_bytes() for path in files}


@pytest.mark.parametrize("how", [{}, {"resume": True}, {"overwrite": True}])
def test_a_folder_that_is_being_searched_is_refused_before_anything_runs(
    study: Path, how: dict[str, Any]
) -> None:
    before = contents(study)
    with (study / "search.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        assert "another search is running in" in refusal(study, **how)
    assert contents(study) == before


@pytest.mark.parametrize("how", [{}, {"overwrite": True}])
def test_a_folder_of_other_files_is_refused(tmp_path: Path, how: dict[str, Any]) -> None:
    mine = written(tmp_path, *FOREIGN)
    assert refusal(tmp_path, **how) == (
        f"the folder {tmp_path} holds files that no study wrote (artifacts, failures, figures, 3 "
        "more): give --out a new or an empty folder"
    )
    assert contents(tmp_path) == dict.fromkeys(mine, b"mine")


@pytest.mark.parametrize("how", [{"overwrite": True}, {"resume": True}])
def test_files_that_no_study_made_outlive_it(study: Path, how: dict[str, Any]) -> None:
    mine = written(study, *(each for each in FOREIGN if each not in ("report.html", "trials.csv")))
    search(study, **how)
    assert [path.read_text() for path in mine] == ["mine"] * len(mine)


@pytest.mark.publishes
def test_every_file_of_a_study_is_in_its_manifest(tmp_path: Path) -> None:
    """Those of the report too, which `tuner.report` can write again."""

    def crash(config: Config, world: int) -> Any:
        return "crashed" if world == 2 and threads_of(config) != 16 else None

    write_study_report(search(tmp_path, Telling(fails=crash)))
    ours = set(contents(tmp_path))
    assert {path.parent.name for path in ours} >= {"traces", "figures", "artifacts", tmp_path.name}
    assert any(path.match("failures/*/worker1.stderr") for path in ours)
    folder = StudyFolder(tmp_path)
    while_it_runs = {folder.unsaved, folder.reserve}
    listed = {path for path in folder.manifest.files() if path.suffix != ".lock"}
    assert while_it_runs <= listed
    assert ours == listed - while_it_runs | {folder.manifest.path}


def test_a_study_without_a_manifest_gets_one_when_it_is_resumed(tmp_path: Path) -> None:
    with pytest.raises(SearchInterrupted):
        search(tmp_path, FakeLauncher(interrupt_after=5))
    (tmp_path / MANIFEST).unlink()
    assert "--overwrite deletes it first" in refusal(tmp_path)
    assert "holds the study udf; give two another" in refusal(tmp_path, name="two", overwrite=True)
    search(tmp_path, resume=True)
    files = {path.name for path in StudyFolder(tmp_path).manifest.files()}
    assert {"study.db", "recommended.json"} <= files


def test_an_earlier_study_stays_until_the_new_one_has_begun(study: Path) -> None:
    before = contents(study)
    with pytest.raises(KeyboardInterrupt):
        search(study, FakeLauncher(interrupt_after=0), overwrite=True)
    assert contents(study) == before


def test_a_search_that_measures_nothing_leaves_nothing(tmp_path: Path) -> None:
    with pytest.raises(KeyboardInterrupt):
        search(tmp_path / "a" / "b", FakeLauncher(interrupt_after=0))
    assert list(tmp_path.iterdir()) == []
    assert refusal("") == "out must name a folder, got ''"


def test_files_of_a_study_that_is_elsewhere_are_not_removed_unasked(
    study: Path, tmp_path: Path
) -> None:
    storage, before = f"sqlite:///{tmp_path}/shared.db", contents(study)
    assert refusal(study, storage=storage) == (
        f"the folder {study} holds the files of a study udf that is not in {storage}: --overwrite "
        "deletes them, another --out keeps them"
    )
    assert contents(study) == before
    search(study, storage=storage, overwrite=True)
    assert not (study / "study.db").exists()


def test_a_search_gives_launchers_absolute_paths(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    launcher = FakeLauncher()
    search("here", launcher)
    for order in [*launcher.orders, *launcher.traced]:
        assert known(order.failure_folder).is_absolute()
        assert order.trace is None or order.trace.path.is_absolute()
    assert (tmp_path / "here" / "traces").is_dir()


def slow(config: Config) -> float:
    time.sleep(0.02)
    return 2.0


@pytest.mark.parametrize("names", [("one", "one"), ("two", "three")])
def test_of_two_searches_started_together_one_has_the_study(
    tmp_path: Path, names: tuple[str, str]
) -> None:
    """Two in one folder; or two in folders of their own, on one storage."""
    is_shared = names[0] != names[1]
    storage = f"sqlite:///{tmp_path}/shared.db" if is_shared else None
    together = threading.Barrier(2)

    def race(name: str) -> tuple[int, str]:
        launcher = FakeLauncher(step_ms=slow)
        together.wait()
        try:
            search(tmp_path / name, launcher, max_blocks=6, storage=storage)
        except UsageError as error:
            return len(launcher.orders), str(error)
        return len(launcher.orders), ""

    with ThreadPoolExecutor(2) as pool:
        (refused, why), (searched, _) = sorted(pool.map(race, names))
    assert refused == 0 < searched
    where = (
        "of the study udf is running in the storage" if is_shared else "is running in the folder"
    )
    assert why.startswith(f"another search {where} ")
    assert f": process {os.getpid()} on " in why
    assert why.endswith("another --study: both run then, and disturb each other's times")
