"""The names of studies, as SQLite alone tells them, whatever the file holds."""

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from tuner.study.storage.glance import names_at_a_glance


def database(folder: Path, *values: str) -> Path:
    """A file with these studies, as SQL writes their names."""
    path = folder / "study.db"
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("CREATE TABLE studies (study_name)")
        for value in values:
            connection.execute(f"INSERT INTO studies VALUES ({value})")
    return path


def test_names_are_told_in_order(tmp_path: Path) -> None:
    assert names_at_a_glance(database(tmp_path, "'b'", "'a'")) == ["a", "b"]


@pytest.mark.parametrize("value", ["CAST(x'61ff' AS TEXT)", "NULL", "7", "x'61'"])
def test_a_name_that_is_no_text_is_for_optuna_to_judge(value: str, tmp_path: Path) -> None:
    assert names_at_a_glance(database(tmp_path, "'a'", value)) is None


def test_what_is_no_database_is_for_optuna_to_judge(tmp_path: Path) -> None:
    path = tmp_path / "study.db"
    assert names_at_a_glance(path) is None
    path.write_bytes(b"no database")
    assert names_at_a_glance(path) is None


def test_a_schema_that_is_no_text_is_for_optuna_to_judge(tmp_path: Path) -> None:
    path = database(tmp_path, "'a'")
    path.write_bytes(path.read_bytes().replace(b"CREATE TABLE", b"CREATE TABL\xff"))
    assert names_at_a_glance(path) is None
