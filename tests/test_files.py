import os
from pathlib import Path

import pytest

from tuner import files
from tuner.files import OWNERS, make_folder, read_bounded, written_atomically


def test_writes_the_file_and_leaves_nothing_beside_it(tmp_path: Path) -> None:
    path = tmp_path / "result.json"
    with written_atomically(path) as partial:
        partial.write_text("new")
    assert path.read_text() == "new"
    assert list(tmp_path.iterdir()) == [path]


def test_a_file_is_read_up_to_a_limit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files, "MOST_BYTES", 1 << 20)
    path = tmp_path / "plan.toml"
    path.write_bytes(b"x" * (1 << 20))
    assert len(read_bounded(path)) == 1 << 20
    path.write_bytes(b"x" * ((1 << 20) + 1))
    with pytest.raises(OSError, match="it has more than 1 MB"):
        read_bounded(path)


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
    tmp_path.chmod(0o755)
    path = tmp_path / "result.json"
    before = os.umask(0o027)
    try:
        with written_atomically(path) as partial:
            partial.write_text("new")
    finally:
        os.umask(before)
    assert path.stat().st_mode & 0o777 == 0o640


@pytest.mark.parametrize("umask", [0o000, 0o022, 0o077])
def test_a_private_folder_has_private_files_whatever_the_umask(umask: int, tmp_path: Path) -> None:
    before = os.umask(umask)
    try:
        make_folder(tmp_path / "studies" / "mine", OWNERS)
        path = tmp_path / "studies" / "mine" / "traces" / "one.json"
        with written_atomically(path) as partial:
            partial.write_text("new")
    finally:
        os.umask(before)
    modes = [each.stat().st_mode & 0o777 for each in (path.parent.parent, path.parent, path)]
    assert modes == [0o700, 0o700, 0o600]
    assert (tmp_path / "studies").stat().st_mode & 0o777 == 0o777 & ~umask & tmp_path.stat().st_mode


def test_a_folder_for_a_group_has_files_for_the_group(tmp_path: Path) -> None:
    folder = tmp_path / "ours"
    folder.mkdir()
    folder.chmod(0o750)
    make_folder(folder, OWNERS)
    with written_atomically(folder / "traces" / "one.json") as partial:
        partial.write_text("new")
    assert folder.stat().st_mode & 0o777 == 0o750
    assert (folder / "traces").stat().st_mode & 0o777 == 0o750
    assert (folder / "traces" / "one.json").stat().st_mode & 0o777 == 0o640
