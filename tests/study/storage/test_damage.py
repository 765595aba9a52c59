"""A damaged or half-made study: each command's message names the one that goes on."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from testing.made import changed, refusal, search
from tuner.api import load_study
from tuner.errors import UsageError
from tuner.study.folder import MANIFEST

pytestmark = pytest.mark.slow

Damage = Callable[[Path], object]


def after(statement: str) -> Damage:
    return lambda study: changed(study / "study.db", statement)


def scribble(study: Path) -> None:
    (study / "study.db").write_bytes(b"scribble" * 1000)


def empty(study: Path) -> None:
    (study / "study.db").write_bytes(b"")


@pytest.mark.parametrize(
    "damage",
    [
        scribble,
        empty,
        after("DELETE FROM trials"),
        after("UPDATE study_user_attributes SET value_json = '{' WHERE key = 'plan'"),
        after("UPDATE trials SET state = 'SOUP'"),
    ],
)
def test_a_damaged_database_is_told_and_replaced(study: Path, damage: Damage) -> None:
    (study / "mine.txt").write_text("mine")
    damage(study)
    for resume in (False, True):
        said = refusal(study, resume=resume)
        assert "--overwrite deletes" in said or (damage is empty and resume)
        assert "\n" not in said
    with pytest.raises(UsageError):
        load_study(study)
    assert search(study, overwrite=True).blocks == 2
    assert load_study(study).blocks == 2
    assert (study / "mine.txt").read_text() == "mine"


@pytest.mark.parametrize("damage", [None, scribble])
@pytest.mark.parametrize("content", [b"\xff\x00scribble\n", b"rpc-tuner study, format 1"])
def test_a_damaged_manifest_is_replaced(study: Path, content: bytes, damage: Damage | None) -> None:
    (study / MANIFEST).write_bytes(content)
    if damage is not None:
        damage(study)
    assert search(study, overwrite=True).blocks == 2
    assert (study / MANIFEST).read_text().splitlines()[1] == "udf"


def test_a_manifest_that_is_no_file_is_refused(study: Path) -> None:
    (study / MANIFEST).unlink()
    (study / MANIFEST).mkdir()
    said = refusal(study, overwrite=True)
    assert said == f"cannot read {study}/study.manifest: Is a directory"


def test_a_damaged_storage_of_several_studies_is_not_removed(tmp_path: Path) -> None:
    storage = f"sqlite:///{tmp_path}/study.db"
    scribble(tmp_path)
    said = refusal(tmp_path / "one", storage=storage, overwrite=True)
    assert said == f"cannot open the storage {storage}: file is not a database"
    assert (tmp_path / "study.db").read_bytes().startswith(b"scribble")
    assert not (tmp_path / "one").exists()


@pytest.mark.parametrize("how", [{"resume": True}, {"overwrite": True}])
@pytest.mark.parametrize("lost", ["'format'", "'format', 'environment'"])
def test_a_half_made_study_is_begun_anew(study: Path, lost: str, how: dict[str, Any]) -> None:
    changed(study / "study.db", f"DELETE FROM study_user_attributes WHERE key IN ({lost})")
    assert refusal(study) == (
        f"the study udf in {study} was not created completely and holds nothing: --resume or "
        "--overwrite begins it anew"
    )
    assert search(study, **how).blocks == 2


def test_a_study_of_another_program_is_not_begun_anew_by_resume(study: Path) -> None:
    lost = "DELETE FROM study_user_attributes WHERE key IN ('format', 'plan')"
    changed(study / "study.db", lost)
    assert "--resume continues it" in refusal(study)
    assert "or by another program; --overwrite deletes it" in refusal(study, resume=True)
