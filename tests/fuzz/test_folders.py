"""Damaged folders of studies: listed, shown, reported, or refused with the reason."""

import functools
import json
import shutil
import sqlite3
from contextlib import closing, suppress
from pathlib import Path
from random import Random
from typing import Any

import pytest
from hypothesis import strategies as st

from testing.cheap_studies import cheaply
from testing.fakes import FakeLauncher
from testing.made import search
from tests.fuzz.fuzzing import RANDOMS, as_json, changed, fuzz, mangled, mutated, survives
from tests.present.screen import Screen
from tests.searching.tuning import scaling
from tuner.json_text import visible_json
from tuner.present.how_to_use import exported
from tuner.present.notes import study_note, trial_notes
from tuner.present.pages import report_html
from tuner.present.study_files import kept_answer, write_study_report
from tuner.present.study_list import studies_of_folder, studies_table
from tuner.present.summary import print_summary
from tuner.study.file_lock import holder_of
from tuner.study.folder import StudyFolder
from tuner.study.stored import find_study
from tuner.text import printable

# Optuna and SQLite warn about damage.
pytestmark = [pytest.mark.thorough, pytest.mark.filterwarnings("ignore")]

TABLES = {
    "study_user_attributes": "value_json", "trial_user_attributes": "value_json",
    "trial_system_attributes": "value_json", "trial_intermediate_values": "intermediate_value",
    "trial_values": "value", "trials": "state", "studies": "study_name",
}  # fmt: skip


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a finished study."""
    folder = tmp_path_factory.mktemp("studies") / "made"
    with cheaply():
        keys = {"name": "made", "budget": "20s", "space": {"num_worker_threads": [1, 4]}}
        search(folder, FakeLauncher(step_ms=scaling), max_blocks=6, **keys)
    return folder


def looked_at(folder: Path) -> None:
    """All that the commands do with a study's folder, the kept answer of which may be stale."""
    screen = Screen(width=120)

    def listed() -> None:
        found = studies_of_folder(folder.parent)
        visible_json(found.to_json())
        screen.console.print(studies_table(found.studies))

    def shown_as_kept() -> None:
        if kept := kept_answer(StudyFolder(folder)):
            visible_json(kept.document)
            assert kept.summary is not None
            kept.summary.print(screen.console, kept.folder)
            kept.summary.print(screen.console, kept.folder, whole=True)

    def shown() -> None:
        answer = find_study(str(folder))
        visible_json(answer.to_json())
        print_summary(answer, screen.console)
        assert study_note(answer)
        trial_notes(answer)
        page = report_html(answer, [])
        assert printable(page) == page
        for form in ("json", "toml", "python"):
            survives(functools.partial(exported, answer, form))

    for each in (listed, shown_as_kept, shown):
        survives(each)
    assert printable(screen.text) == screen.text


def copied(made: Path, work: Path) -> Path:
    shutil.rmtree(work, ignore_errors=True)
    return Path(shutil.copytree(made, work / "made"))


def test_values_in_the_database(made: Path, tmp_path: Path) -> None:
    def check(random: Random) -> None:
        folder = copied(made, tmp_path / "copy")
        with closing(sqlite3.connect(folder / "study.db")) as database, database:
            for _ in range(random.randint(1, 3)):
                _damage_row(random, database)
        looked_at(folder)
        # With all figures, which take a second.
        if random.random() < 0.25:
            survives(lambda: write_study_report(find_study(str(folder))))

    fuzz(RANDOMS, check, 25)


def _damage_row(random: Random, database: sqlite3.Connection) -> None:
    table = random.choice([*TABLES, "study_user_attributes", "trial_system_attributes"])
    column = TABLES[table]
    rows = database.execute(f"select rowid, {column} from {table}").fetchall()
    row, value = random.choice(rows or [(0, "")])
    if random.random() < 0.1:
        database.execute(f"delete from {table} where rowid = ?", (row,))
        return
    new: Any = random.choice((None, "", "x", -1, 1e300, 2**62, "\x1b[2J", "[]", "null"))
    if column == "value_json" and random.random() < 0.85:
        # One that was changed before may be no JSON.
        with suppress(TypeError, ValueError):
            value = json.loads(value)
        new = json.dumps(changed(random, value))
    with suppress(sqlite3.IntegrityError):
        database.execute(f"update {table} set {column} = ? where rowid = ?", (new, row))


@pytest.mark.parametrize(
    ("name", "tokens", "number"),
    [("study.db", (b"\0" * 100, b"\xff" * 8), 25), ("answer.json", (b"null", b"1", b"[]"), 12)],
)
def test_bytes_of_a_file(
    name: str, tokens: tuple[bytes, ...], number: int, made: Path, tmp_path: Path
) -> None:
    content = (made / name).read_bytes()
    texts = mangled([content], tokens)
    if name.endswith(".json"):
        texts |= st.builds(as_json, mutated([json.loads(content)]))

    def check(text: bytes) -> None:
        folder = copied(made, tmp_path / "copy")
        (folder / name).write_bytes(text)
        looked_at(folder)

    fuzz(texts, check, number)


def test_manifests_and_locks(made: Path, tmp_path: Path) -> None:
    folder = StudyFolder(copied(made, tmp_path))
    texts = [folder.manifest.path.read_bytes(), b"12 host 2026-01-01T00:00:00+00:00\n"]

    def check(text: bytes) -> None:
        folder.manifest.path.write_bytes(text)
        survives(folder.manifest.study)
        listed = survives(folder.manifest.files) or []
        assert all(path.resolve().is_relative_to(folder.root.resolve()) for path in listed)
        folder.lock.write_bytes(text)
        assert holder_of(folder.lock) is None

    fuzz(mangled(texts, (b"../", b"/etc/passwd\n", b"\0", b"a/../../b\n", b"\n")), check, 100)
