"""Damaged folders of studies: listed, shown, reported, or refused with the reason."""

import functools
import json
import shutil
import sqlite3
from collections.abc import Callable
from contextlib import closing, suppress
from pathlib import Path
from random import Random
from typing import Any

import pytest
from hypothesis import strategies as st

from tests.cheap_studies import cheaply
from tests.fakes import FakeLauncher
from tests.fuzz.fuzzing import fuzz, survives
from tests.fuzz.mutations import _mutated, as_json, mangled, mutated
from tests.present.screen import Screen
from tests.searching.tuning import scaling
from tuner.api import tune
from tuner.json_text import visible_json
from tuner.present.how_to_use import exported
from tuner.present.notes import study_note, trial_notes
from tuner.present.pages import report_html
from tuner.present.study_files import kept_answer, write_study_report
from tuner.present.study_list import studies_of_folder, studies_table
from tuner.present.summary import print_summary
from tuner.present.terminal import print_parts
from tuner.study.file_lock import holder_of
from tuner.study.finding import find_study
from tuner.study.folder import StudyFolder
from tuner.text import printable

pytestmark = pytest.mark.filterwarnings("ignore")  # Optuna's and SQLite's, about damage


TABLES = {
    "study_user_attributes": "value_json", "trial_user_attributes": "value_json",
    "trial_system_attributes": "value_json", "trial_intermediate_values": "intermediate_value",
    "trial_values": "value", "trials": "state", "studies": "study_name",
}  # fmt: skip


@pytest.fixture(scope="module")
def studies(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of one finished study, and of one that was killed."""
    folder = tmp_path_factory.mktemp("studies")
    with cheaply():
        launcher = FakeLauncher(step_ms=scaling)
        tune(
            "udf", launcher=launcher, clock=launcher.clock, name="made", budget="20s",
            max_blocks=6, space={"num_worker_threads": [1, 4]}, out=folder / "made",
        )  # fmt: skip
    return folder


def looked_at(folder: Path) -> None:
    """All that the commands do with a folder of studies, the kept answer of which may be stale."""
    screen = Screen(width=120)

    def listed() -> None:
        found = studies_of_folder(folder)
        visible_json(found.to_json())
        screen.console.print(studies_table(found.studies))

    def shown_as_kept() -> None:
        if kept := kept_answer(StudyFolder(folder / "made")):
            visible_json(kept.document)
            print_parts(kept.parts, screen.console)

    def shown() -> None:
        answer = find_study(str(folder / "made"))
        visible_json(answer.to_json())
        print_summary(answer, screen.console)
        assert study_note(answer)
        trial_notes(answer)
        page = report_html(answer, [])
        assert printable(page) == page
        for form in ("json", "toml", "python"):
            survives(functools.partial(exported, answer, form))

    survives(listed)
    survives(shown_as_kept)
    survives(shown)
    assert printable(screen.text) == screen.text


def damaged(studies: Path, work: Path, damage: Callable[[Path], None]) -> None:
    """A copy of the folder is damaged, and looked at."""
    shutil.rmtree(work, ignore_errors=True)
    shutil.copytree(studies, work)
    damage(work / "made")
    looked_at(work)


def test_values_in_the_database(studies: Path, tmp_path: Path) -> None:
    def check(random: Random) -> None:
        def damage(folder: Path) -> None:
            with closing(sqlite3.connect(folder / "study.db")) as database, database:
                for _ in range(random.randint(1, 3)):
                    _damage_row(random, database, TABLES)

        damaged(studies, tmp_path / "copy", damage)

    fuzz(st.randoms(use_true_random=True), check, 25)


def test_reports(studies: Path, tmp_path: Path) -> None:
    """With all figures, which take a second."""
    work = tmp_path / "copy"

    def check(random: Random) -> None:
        shutil.rmtree(work, ignore_errors=True)
        shutil.copytree(studies, work)
        with closing(sqlite3.connect(work / "made" / "study.db")) as database, database:
            _damage_row(random, database, TABLES)
        survives(lambda: write_study_report(find_study(str(work / "made"))))

    fuzz(st.randoms(use_true_random=True), check, 6)


def _damage_row(random: Random, database: sqlite3.Connection, tables: dict[str, str]) -> None:
    table = random.choice([*tables, "study_user_attributes", "trial_system_attributes"])
    column = tables[table]
    rows = database.execute(f"select rowid, {column} from {table}").fetchall()
    if not rows:
        return
    row, value = random.choice(rows)
    if random.random() < 0.1:
        database.execute(f"delete from {table} where rowid = ?", (row,))
        return
    changed: Any = random.choice((None, "", "x", -1, 1e300, 2**62, "\x1b[2J", "[]", "null"))
    if column == "value_json" and random.random() < 0.85:
        # One that was changed before may be no JSON.
        with suppress(TypeError, ValueError):
            value = json.loads(value)
        changed = json.dumps(_mutated(random, value))
    try:
        database.execute(f"update {table} set {column} = ? where rowid = ?", (changed, row))
    except sqlite3.IntegrityError:
        return


def test_bytes_of_the_database(studies: Path, tmp_path: Path) -> None:
    content = (studies / "made" / "study.db").read_bytes()

    def check(changed: bytes) -> None:
        damaged(studies, tmp_path / "copy", lambda f: _write(f / "study.db", changed))

    fuzz(mangled([content], (b"\0" * 100, b"\xff" * 8)), check, 25)


def _write(path: Path, content: bytes) -> None:
    path.write_bytes(content)


def test_kept_answers(studies: Path, tmp_path: Path) -> None:
    kept = (studies / "made" / "answer.json").read_bytes()
    document = json.loads(kept)

    def check(changed: bytes) -> None:
        damaged(studies, tmp_path / "copy", lambda f: _write(f / "answer.json", changed))

    texts = st.builds(as_json, mutated([document])) | mangled([kept], (b"null", b"1", b"[]"))
    fuzz(texts, check, 12)


def test_manifests_and_locks(studies: Path, tmp_path: Path) -> None:
    folder = StudyFolder(tmp_path / "made")
    shutil.copytree(studies / "made", folder.root)
    texts = [folder.manifest.path.read_bytes(), b"12 host 2026-01-01T00:00:00+00:00\n"]

    def check(changed: bytes) -> None:
        folder.manifest.path.write_bytes(changed)
        survives(folder.manifest.study)
        listed = survives(folder.manifest.files) or []
        assert all(path.resolve().is_relative_to(folder.root.resolve()) for path in listed)
        folder.lock.write_bytes(changed)
        assert holder_of(folder.lock) is None

    fuzz(mangled(texts, (b"../", b"/etc/passwd\n", b"\0", b"a/../../b\n", b"\n")), check, 100)
