import os
from pathlib import Path

import pytest

from tuner.files import written_atomically


def test_writes_the_file_and_leaves_nothing_beside_it(tmp_path: Path) -> None:
    path = tmp_path / "result.json"
    with written_atomically(path) as partial:
        partial.write_text("new")
    assert path.read_text() == "new"
    assert list(tmp_path.iterdir()) == [path]


def test_makes_the_folders_on_the_way(tmp_path: Path) -> None:
    path = tmp_path / "studies" / "udf" / "result.json"
    with written_atomically(path) as partial:
        partial.write_text("new")
    assert path.read_text() == "new"


def test_the_old_content_stands_until_the_block_ends(tmp_path: Path) -> None:
    path = tmp_path / "result.json"
    path.write_text("old")
    with written_atomically(path) as partial:
        partial.write_text("new")
        assert path.read_text() == "old"
    assert path.read_text() == "new"


def write_half_then_fail(path: Path) -> None:
    with written_atomically(path) as partial:
        partial.write_text("half")
        raise RuntimeError("disk on fire")


def test_a_failed_block_keeps_the_old_file_and_removes_the_scratch(tmp_path: Path) -> None:
    path = tmp_path / "result.json"
    path.write_text("old")
    with pytest.raises(RuntimeError, match="disk on fire"):
        write_half_then_fail(path)
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]


def test_a_failed_block_makes_no_file(tmp_path: Path) -> None:
    with pytest.raises(RuntimeError, match="disk on fire"):
        write_half_then_fail(tmp_path / "result.json")
    assert list(tmp_path.iterdir()) == []


def test_the_scratch_is_hidden_beside_the_file_and_keeps_its_suffix(tmp_path: Path) -> None:
    with written_atomically(tmp_path / "step_time.svg") as partial:
        assert partial.parent == tmp_path
        assert partial.suffix == ".svg"
        assert partial.name.startswith(".")


def test_the_file_is_as_readable_as_the_umask_allows(tmp_path: Path) -> None:
    path = tmp_path / "result.json"
    before = os.umask(0o027)
    try:
        with written_atomically(path) as partial:
            partial.write_text("new")
    finally:
        os.umask(before)
    assert path.stat().st_mode & 0o777 == 0o640
