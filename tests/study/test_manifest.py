"""The manifest names the files that a study wrote, and nothing else is ever removed."""

from pathlib import Path

import pytest

from tuner.errors import UsageError
from tuner.study.manifest import NAME, Manifest


@pytest.fixture
def manifest(tmp_path: Path) -> Manifest:
    made = Manifest(tmp_path / "study")
    made.begin("udf", [tmp_path / "study" / "search.lock"])
    return made


def written(manifest: Manifest, *names: str) -> list[Path]:
    """Files, each in its folder."""
    paths = [manifest.root / name for name in names]
    for path in paths:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(path.name)
    return paths


def left(manifest: Manifest) -> list[str]:
    return sorted(
        path.relative_to(manifest.root).as_posix()
        for path in manifest.root.rglob("*")
        if path.name != NAME
    )


def test_it_holds_the_name_and_the_files(manifest: Manifest) -> None:
    trace = manifest.root / "traces" / "num_worker_threads=2.json"
    manifest.add(trace)
    manifest.add(trace, manifest.root / "trials.csv")
    assert manifest.study() == "udf"
    names = ["search.lock", "traces/num_worker_threads=2.json", "trials.csv"]
    assert manifest.files() == [manifest.root / name for name in names]
    lines = manifest.path.read_text().splitlines()
    assert lines == ["rpc-tuner study, format 1", "udf", *names]


def test_a_folder_without_one_is_no_study_and_gets_none(tmp_path: Path) -> None:
    for root in (tmp_path, tmp_path / "absent"):
        bare = Manifest(root)
        bare.add(root / "trials.csv")
        assert (bare.study(), bare.files(), bare.path.exists()) == (None, [], False)


@pytest.mark.parametrize("content", ["", "udf\n", "rpc-tuner study, format 1\n", "\0\0\n\n"])
def test_what_is_no_manifest_names_no_study(tmp_path: Path, content: str) -> None:
    (tmp_path / NAME).write_text(content)
    assert Manifest(tmp_path).study() is None
    assert Manifest(tmp_path).files() == []


def test_one_of_a_newer_version_is_refused(manifest: Manifest) -> None:
    manifest.path.write_text("rpc-tuner study, format 2\nudf\n")
    with pytest.raises(UsageError, match=r"written by a newer rpc-tuner .*upgrade rpc-tuner"):
        manifest.study()


def test_a_line_that_was_written_in_part_is_ignored_for_good(manifest: Manifest) -> None:
    (mine,) = written(manifest, "fig")
    with manifest.path.open("a") as file:
        file.write("fig")  # of figures/step_time.png
    assert manifest.files() == [manifest.root / "search.lock"]
    manifest.add(manifest.root / "trials.csv")
    assert manifest.files() == [manifest.root / "search.lock", manifest.root / "trials.csv"]
    manifest.remove_files()
    assert mine.exists()


def test_only_its_files_are_removed_and_the_folders_that_are_empty_then(
    manifest: Manifest,
) -> None:
    ours = ["search.lock", "study.db", "traces/a.json", "failures/a/one.stderr", "figures/a.png"]
    manifest.add(*written(manifest, *ours), manifest.root / "gone" / "long.ago")
    written(manifest, "figures/mine.png", "notes.txt")
    manifest.remove_files(but=[manifest.root / "search.lock"])
    assert left(manifest) == ["figures", "figures/mine.png", "notes.txt", "search.lock"]
    assert manifest.study() == "udf"


@pytest.mark.parametrize("line", ["../mine", "/etc/mine", "..", "", ".", "a/../../mine"])
def test_nothing_outside_the_folder_is_ever_named(manifest: Manifest, line: str) -> None:
    with manifest.path.open("a") as file:
        file.write(f"{line}\n")
    assert manifest.files() == [manifest.root / "search.lock"]


def test_a_folder_in_place_of_a_file_stays(manifest: Manifest) -> None:
    manifest.add(manifest.root / "traces")
    written(manifest, "traces/mine.json")
    manifest.remove_files()
    assert left(manifest) == ["traces", "traces/mine.json"]


def test_a_file_that_cannot_be_removed_is_told(
    manifest: Manifest, monkeypatch: pytest.MonkeyPatch
) -> None:
    (lock,) = written(manifest, "search.lock")

    def unlink(path: Path, missing_ok: bool = False) -> None:
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(Path, "unlink", unlink)
    with pytest.raises(UsageError) as caught:
        manifest.remove_files()
    assert str(caught.value) == f"cannot remove {lock}: Operation not permitted"


@pytest.mark.parametrize("name", ["absent", "empty"])
def test_a_new_or_an_empty_folder_is_marked(tmp_path: Path, name: str) -> None:
    (tmp_path / "empty").mkdir()
    Manifest(tmp_path / name).begin_if_empty("udf")
    assert Manifest(tmp_path / name).study() == "udf"
    Manifest(tmp_path).begin_if_empty("udf")
    assert Manifest(tmp_path).study() is None
