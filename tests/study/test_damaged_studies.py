"""A damaged or half-made study: each command's message names the one that goes on."""

import shutil
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

import tuner
from tests.cheap_studies import cheaply
from tests.fakes import FakeLauncher
from tuner.errors import UsageError
from tuner.present.study_result import StudyResult
from tuner.study.folder import MANIFEST

pytestmark = pytest.mark.slow


def search(out: Path, **changes: Any) -> StudyResult:
    launcher = FakeLauncher()
    keys = {"space": {"num_worker_threads": [2]}, "max_blocks": 2, "out": str(out), **changes}
    with cheaply():
        return tuner.tune("udf", launcher=launcher, clock=launcher.clock, **keys)


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("made")
    search(folder)
    return folder


@pytest.fixture
def study(made: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(made, tmp_path / "study"))


def change(study: Path, statement: str) -> None:
    with closing(sqlite3.connect(study / "study.db")) as database, database:
        database.execute(statement)


def scribble(study: Path) -> None:
    (study / "study.db").write_bytes(b"scribble" * 1000)


def empty(study: Path) -> None:
    (study / "study.db").write_bytes(b"")


def lose_trials(study: Path) -> None:
    change(study, "DELETE FROM trials")


def spoil_plan(study: Path) -> None:
    change(study, "UPDATE study_user_attributes SET value_json = '{' WHERE key = 'plan'")


def spoil_states(study: Path) -> None:
    change(study, "UPDATE trials SET state = 'SOUP'")


def spoil_records(study: Path) -> None:
    change(study, "UPDATE trial_system_attributes SET value_json = '[1' WHERE key LIKE '%record%'")


DAMAGE: list[Callable[[Path], None]] = [
    scribble, empty, lose_trials, spoil_plan, spoil_states, spoil_records,
]  # fmt: skip


@pytest.mark.parametrize("damage", DAMAGE)
def test_a_damaged_database_is_told_and_replaced(
    study: Path, damage: Callable[[Path], None]
) -> None:
    (study / "mine.txt").write_text("mine")
    damage(study)
    with pytest.raises(UsageError) as caught:
        search(study)
    assert "--overwrite deletes" in str(caught.value)
    assert "\n" not in str(caught.value)
    with pytest.raises(UsageError) as caught:
        search(study, resume=True)
    assert "--overwrite deletes" in str(caught.value) or damage is empty
    with pytest.raises(UsageError):
        tuner.load_study(study)
    assert search(study, overwrite=True).blocks == 2
    assert tuner.load_study(study).blocks == 2
    assert (study / "mine.txt").read_text() == "mine"


@pytest.mark.parametrize("damage", [None, scribble])
@pytest.mark.parametrize("content", [b"", b"\xff\x00scribble\n", b"rpc-tuner study, format 1"])
def test_a_damaged_manifest_is_replaced(
    study: Path, content: bytes, damage: Callable[[Path], None] | None
) -> None:
    (study / MANIFEST).write_bytes(content)
    if damage is not None:
        damage(study)
    assert search(study, overwrite=True).blocks == 2
    assert (study / MANIFEST).read_text().splitlines()[1] == "udf"


def test_a_manifest_that_is_no_file_is_refused(study: Path) -> None:
    (study / MANIFEST).unlink()
    (study / MANIFEST).mkdir()
    with pytest.raises(UsageError, match=r"cannot read .*study\.manifest: Is a directory"):
        search(study, overwrite=True)


def test_a_damaged_storage_of_several_studies_is_not_removed(tmp_path: Path) -> None:
    storage = f"sqlite:///{tmp_path}/study.db"
    scribble(tmp_path)
    with pytest.raises(UsageError, match=r"cannot open the storage .*: file is not a database$"):
        search(tmp_path / "one", storage=storage, overwrite=True)
    assert (tmp_path / "study.db").read_bytes().startswith(b"scribble")
    assert not (tmp_path / "one").exists()


HALVES = ["DELETE FROM study_user_attributes WHERE key = 'format'",
          "DELETE FROM study_user_attributes WHERE key IN ('format', 'environment')"]  # fmt: skip


@pytest.mark.parametrize("how", [{"resume": True}, {"overwrite": True}])
@pytest.mark.parametrize("half", HALVES)
def test_a_half_made_study_is_begun_anew(study: Path, half: str, how: dict[str, Any]) -> None:
    change(study, half)
    with pytest.raises(UsageError) as caught:
        search(study)
    assert str(caught.value) == (
        f"the study udf in {study} was not created completely and holds nothing: --resume or "
        "--overwrite begins it anew"
    )
    assert search(study, **how).blocks == 2


def test_a_study_of_another_program_is_not_begun_anew_by_resume(study: Path) -> None:
    change(study, "DELETE FROM study_user_attributes WHERE key IN ('format', 'plan')")
    with pytest.raises(UsageError, match="--resume continues it"):
        search(study)
    with pytest.raises(UsageError, match="or by another program; --overwrite deletes it"):
        search(study, resume=True)
