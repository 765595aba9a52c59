"""One search at a time has a study: nothing runs, and nothing is removed, before that is sure."""

import fcntl
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

import tuner
from tests.cheap_studies import cheaply
from tests.fakes import FakeLauncher, threads_of
from tests.study.storage.test_publishing import Telling
from tuner.api import SearchInterrupted
from tuner.errors import UsageError
from tuner.plan.config import Config
from tuner.present.study_files import write_study_report
from tuner.present.study_result import StudyResult
from tuner.study.folder import MANIFEST, StudyFolder

pytestmark = pytest.mark.slow

FOREIGN = ("figures/holiday.png", "traces/mine.json", "artifacts/thesis.pdf", "report.html",
           "trials.csv", "failures/notes/read.me")  # fmt: skip


def search(out: Path | str, launcher: FakeLauncher | None = None, **changes: Any) -> StudyResult:
    launcher = launcher or FakeLauncher()
    keys = {"space": {"num_worker_threads": [2]}, "max_blocks": 2, "out": str(out), **changes}
    return tuner.tune("udf", launcher=launcher, clock=launcher.clock, **keys)


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a finished study, to be copied."""
    folder = tmp_path_factory.mktemp("made")
    with cheaply():
        search(folder)
    return folder


@pytest.fixture
def study(made: Path, tmp_path: Path) -> Path:
    """A copy of it."""
    return Path(shutil.copytree(made, tmp_path / "study"))


def refusal(out: Path | str, launcher: FakeLauncher | None = None, **changes: Any) -> str:
    """Why a search is refused; it must run nothing."""
    launcher = launcher or FakeLauncher()
    with pytest.raises(UsageError) as caught:
        search(out, launcher, **changes)
    assert launcher.orders == []
    return str(caught.value)


def contents(folder: Path) -> dict[Path, bytes]:
    """Every file below a folder but locks, which say who has them."""
    return {
        path: path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file() and path.suffix != ".lock"
    }


@contextmanager
def searching(folder: Path) -> Iterator[None]:
    """A process of another person's, which holds the folder."""
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "search.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


@pytest.mark.parametrize("how", [{}, {"resume": True}, {"overwrite": True}])
def test_a_folder_that_is_being_searched_is_refused_before_anything_runs(
    study: Path, how: dict[str, Any]
) -> None:
    before = contents(study)
    with searching(study):
        assert "another search is running in" in refusal(study, **how)
    assert contents(study) == before


@pytest.mark.parametrize("how", [{}, {"overwrite": True}])
def test_a_folder_of_other_files_is_refused(tmp_path: Path, how: dict[str, Any]) -> None:
    for name in FOREIGN:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("mine")
    before = contents(tmp_path)
    assert refusal(tmp_path, **how) == (
        f"the folder {tmp_path} holds files that no study wrote (artifacts, failures, figures, 3 "
        "more): give --out a new or an empty folder"
    )
    assert contents(tmp_path) == before


@pytest.mark.parametrize("how", [{"overwrite": True}, {"resume": True}])
def test_files_that_no_study_made_outlive_it(study: Path, how: dict[str, Any]) -> None:
    mine = [study / name for name in FOREIGN if name not in ("report.html", "trials.csv")]
    for path in mine:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("mine")
    search(study, **how)
    assert [path.read_text() for path in mine] == ["mine"] * len(mine)


def test_every_file_of_a_study_is_in_its_manifest(tmp_path: Path) -> None:
    """Those of the report too, which `tuner.report` can write again."""

    def crash(config: Config, world: int) -> Any:
        return "crashed" if world == 2 and threads_of(config) != 16 else None

    write_study_report(search(tmp_path, Telling(fails=crash)))
    ours = set(contents(tmp_path))
    assert {path.parent.name for path in ours} >= {"traces", "figures", tmp_path.name}
    assert any(path.match("failures/*/worker1.stderr") for path in ours)
    folder = StudyFolder(tmp_path)
    while_it_runs = {folder.unsaved, folder.reserve}
    listed = {path for path in folder.manifest.files() if path.suffix != ".lock"}
    assert while_it_runs <= listed
    assert ours == listed - while_it_runs | {folder.manifest.path}


def test_a_study_without_a_manifest_gets_one_when_it_is_resumed(tmp_path: Path) -> None:
    with pytest.raises(SearchInterrupted):
        search(tmp_path, FakeLauncher(interrupt_after=5))
    before = contents(tmp_path)
    (tmp_path / MANIFEST).unlink()
    search(tmp_path, resume=True)
    assert set(before) <= {*StudyFolder(tmp_path).manifest.files(), tmp_path / MANIFEST}


def test_an_earlier_study_stays_until_the_new_one_has_begun(study: Path) -> None:
    before = contents(study)
    with pytest.raises(UsageError, match="is too short"):
        search(study, overwrite=True, budget="1s")
    with pytest.raises(KeyboardInterrupt):
        search(study, FakeLauncher(interrupt_after=0), overwrite=True)
    assert contents(study) == before


def test_a_search_that_measures_nothing_leaves_nothing(tmp_path: Path) -> None:
    with pytest.raises(KeyboardInterrupt):
        search(tmp_path / "a" / "b", FakeLauncher(interrupt_after=0))
    assert list(tmp_path.iterdir()) == []


def test_an_empty_name_of_a_folder_is_refused() -> None:
    assert refusal("") == "out must name a folder, got ''"


def test_files_of_a_study_that_is_elsewhere_are_not_removed_unasked(
    study: Path, tmp_path: Path
) -> None:
    storage = f"sqlite:///{tmp_path}/shared.db"
    before = contents(study)
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
        assert order.failure_folder is not None
        assert order.failure_folder.is_absolute()
        assert order.trace is None or order.trace.path.is_absolute()
    assert (tmp_path / "here" / "traces").is_dir()


RACE = """
import os, sys, time
from pathlib import Path
from tests.cheap_studies import cheaply, without_waiting_for_the_disk
from tests.fakes import FakeLauncher
import tuner, tuner.api

class Slow(FakeLauncher):
    def run(self, order):
        time.sleep(0.02)
        return super().run(order)

def race(out, storage, begin):
    time.sleep(max(0, begin - time.monotonic()))
    launcher = Slow()
    try:
        answer = tuner.tune(
            "udf", launcher=launcher, clock=launcher.clock, space={"num_worker_threads": [2]},
            max_blocks=6, out=out, storage=storage,
        )
    except tuner.errors.UsageError as error:
        return f"refused {len(launcher.orders)} {os.getpid()} {error}"
    return f"searched {answer.blocks} {os.getpid()}"

folder = sys.argv[1]
shared = f"sqlite:///{folder}/shared.db"
with cheaply(), without_waiting_for_the_disk():
    for first, second in [(("one", None), ("one", None)), (("two", shared), ("three", shared))]:
        begin = time.monotonic() + 0.1
        for out, storage in (first, second):
            if os.fork() == 0:
                print(race(f"{folder}/{out}", storage, begin), flush=True)
                os._exit(0)
        os.wait(), os.wait()
"""


def test_of_two_commands_started_together_one_has_the_study(tmp_path: Path) -> None:
    """Two in one folder; and two in folders of their own, on one storage."""
    done = subprocess.run(
        [sys.executable, "-c", RACE, str(tmp_path)],
        capture_output=True, text=True, check=True, cwd=Path(__file__).parents[3], timeout=60,
    )  # fmt: skip
    said = done.stdout.splitlines()
    for refused, searched, where in (
        (*sorted(said[:2]), f"another search is running in the folder {tmp_path}/one"),
        (*sorted(said[2:]), "another search of the study udf is running in the storage sqlite:///"),
    ):
        outcome, blocks, winner = searched.split()
        assert (outcome, blocks) == ("searched", "4")
        assert re.match(rf"refused 0 \d+ {re.escape(where)}", refused)
        assert f": process {winner} on " in refused
        assert refused.endswith("another --study: both run then, and disturb each other's times")
