"""A study's files have their names, and nothing but what its manifest lists is ever removed."""

import os
from pathlib import Path
from unittest.mock import Mock

import pytest

from testing.made import changed, search, written
from testing.specs import for_all, threads
from tuner.errors import UsageError
from tuner.study.folder import MANIFEST, Manifest, StudyFolder, names_in


def test_each_failed_world_has_a_folder_of_its_own_and_is_told_where_that_is() -> None:
    folder = StudyFolder(Path("studies/udf"))
    names = [
        folder.failure(config, block, again=again, attempt=attempt).name
        for config in (threads(8), for_all(num_worker_threads=8, transports="shm"))
        for block, again in ((3, False), (4, False), (3, True), (-1, False))
        for attempt in (0, 1)
    ]
    assert len({*names}) == 16
    assert (names[5], names[7]) == (f"{names[0]}-again-2", "num_worker_threads=8-first-2")
    told = folder.failure_text("crashed", f"server failed first; see failures/{names[0]}")
    assert told == f"crashed: server failed first; see studies/udf/failures/{names[0]}"
    told = folder.failure_text("deadlocked", "server deadlocked: all 2 worker threads wait")
    assert told == "server deadlocked: all 2 worker threads wait"


def test_a_folder_that_cannot_be_written_is_told_and_another_stays(tmp_path: Path) -> None:
    StudyFolder(tmp_path / "a" / "b").check_writable()
    assert list(tmp_path.iterdir()) == []
    (tmp_path / "studies").write_text("")
    for name, why in (("studies/a/b", "Not a directory"), ("n" * 300, "File name too long")):
        root = tmp_path / name
        with pytest.raises(UsageError) as caught:
            StudyFolder(root).check_writable()
        assert str(caught.value) == f"cannot write the study folder {root}: {why}"


@pytest.mark.parametrize("mode", [None, 0o750])
def test_a_new_folder_and_all_in_it_are_for_their_owner(tmp_path: Path, mode: int | None) -> None:
    root, before = tmp_path / "study", os.umask(0)
    try:
        if mode is not None:
            root.mkdir(mode)
        search(root)
    finally:
        os.umask(before)
    limit = mode or 0o700
    assert root.stat().st_mode & 0o777 == limit
    files = [each for each in root.rglob("*") if each.is_file()]
    assert {"study.db", "recommended.json"} <= {file.name for file in files}
    assert not [str(file) for file in files if file.stat().st_mode & 0o077 & ~limit]


OUTSIDE = ("../mine", "/etc/mine", "..", "", ".", "a/../../mine")


@pytest.fixture
def manifest(tmp_path: Path) -> Manifest:
    made = Manifest(tmp_path / "study")
    made.begin("udf", [tmp_path / "study" / "search.lock"])
    return made


def test_it_holds_the_name_and_the_files(manifest: Manifest) -> None:
    trace = manifest.root / "traces" / "num_worker_threads=2.json"
    manifest.add(trace)
    manifest.add(trace, manifest.root / "trials.csv")
    assert manifest.study() == "udf"
    names = ["search.lock", "traces/num_worker_threads=2.json", "trials.csv"]
    assert manifest.files() == [manifest.root / name for name in names]
    lines = manifest.path.read_text().splitlines()
    assert lines == ["rpc-tuner study, format 1", "udf", *names]


def test_what_is_no_manifest_names_no_study_and_one_of_a_newer_version_is_refused(
    manifest: Manifest, tmp_path: Path
) -> None:
    for root in (tmp_path, tmp_path / "absent"):
        bare = Manifest(root)
        bare.add(root / "trials.csv")
        assert (bare.study(), bare.files(), bare.path.exists()) == (None, [], False)
    for content in ("", "udf\n", "rpc-tuner study, format 1\n", "\0\0\n\n"):
        manifest.path.write_text(content)
        assert (manifest.study(), manifest.files()) == (None, [])
    manifest.path.write_text("rpc-tuner study, format 2\nudf\n")
    with pytest.raises(UsageError, match=r"written by a newer rpc-tuner .*upgrade rpc-tuner"):
        manifest.study()


def test_a_line_that_was_cut_off_or_leads_outside_is_ignored_for_good(manifest: Manifest) -> None:
    (mine,) = written(manifest.root, "fig")
    with manifest.path.open("a") as file:
        file.writelines(f"{line}\n" for line in OUTSIDE)
        file.write("fig")  # of figures/step_time.png
    assert manifest.files() == [manifest.root / "search.lock"]
    manifest.add(manifest.root / "trials.csv")
    assert manifest.files() == [manifest.root / "search.lock", manifest.root / "trials.csv"]
    manifest.remove_files()
    assert mine.exists()


def test_only_its_files_are_removed_and_the_folders_that_are_empty_then(manifest: Manifest) -> None:
    ours = ["search.lock", "study.db", "traces/a.json", "failures/a/one.stderr", "figures/a.png"]
    manifest.add(*written(manifest.root, *ours), manifest.root / "gone" / "long.ago")
    manifest.add(manifest.root / "artifacts")  # where a folder is now
    mine = ["artifacts/mine", "figures/mine.png", "notes.txt"]
    written(manifest.root, *mine)
    manifest.remove_files(but=[manifest.root / "search.lock"])
    left = {each.relative_to(manifest.root).as_posix() for each in manifest.root.rglob("*")}
    assert left == {*mine, "artifacts", "figures", "search.lock", MANIFEST}
    assert manifest.study() == "udf"


def test_a_file_that_cannot_be_removed_is_told(
    manifest: Manifest, monkeypatch: pytest.MonkeyPatch
) -> None:
    (lock,) = written(manifest.root, "search.lock")
    refuse = Mock(side_effect=PermissionError(1, "Operation not permitted"))
    monkeypatch.setattr(Path, "unlink", refuse)
    with pytest.raises(UsageError, match=f"^cannot remove {lock}: Operation not permitted$"):
        manifest.remove_files()


def test_a_new_or_an_empty_folder_is_marked(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    for name in ("absent", "empty"):
        Manifest(tmp_path / name).begin_if_empty("udf")
        assert Manifest(tmp_path / name).study() == "udf"
    Manifest(tmp_path).begin_if_empty("udf")
    assert Manifest(tmp_path).study() is None


@pytest.mark.parametrize(
    ("value", "found"),
    [("'0'", ["0", "a"]), ("CAST(x'61ff' AS TEXT)", None), ("NULL", None), ("x'61'", None)],
)
def test_names_are_read_in_order_and_one_that_is_no_text_is_for_optuna(
    value: str, found: list[str] | None, tmp_path: Path
) -> None:
    path = tmp_path / "study.db"
    insert = f"INSERT INTO studies VALUES ('a'), ({value})"
    changed(path, "CREATE TABLE studies (study_name)", insert)
    assert names_in(path) == found
    path.write_bytes(path.read_bytes().replace(b"CREATE TABLE", b"CREATE TABL\xff"))
    assert names_in(path) is None
    path.unlink()
    assert names_in(path) is None
