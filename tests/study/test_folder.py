import os
from pathlib import Path

import pytest

from tests.cheap_studies import cheaply
from tests.fakes import FakeLauncher
from tests.plan.specs import for_all, threads
from tuner.api import tune
from tuner.errors import UsageError
from tuner.study.folder import StudyFolder


def test_the_files_have_the_names_of_the_contract() -> None:
    folder = StudyFolder(Path("studies/udf"))
    assert folder.database == Path("studies/udf/study.db")
    assert folder.trials_csv == Path("studies/udf/trials.csv")
    assert folder.recommended == Path("studies/udf/recommended.json")
    assert folder.failures == Path("studies/udf/failures")
    assert folder.report == Path("studies/udf/report.html")


def test_a_failure_is_told_with_its_kind_once_and_with_a_path_that_can_be_opened() -> None:
    folder = StudyFolder(Path("studies/udf"))
    told = folder.failure_text("crashed", "server failed first; see failures/defaults-block0000")
    assert told == "crashed: server failed first; see studies/udf/failures/defaults-block0000"
    told = folder.failure_text("deadlocked", "server deadlocked: all 2 worker threads wait")
    assert told == "server deadlocked: all 2 worker threads wait"


def test_each_failed_world_has_a_folder_of_its_own() -> None:
    folder = StudyFolder(Path("udf"))
    first = folder.failure(threads(8), block=3)
    assert first == Path("udf/failures/num_worker_threads=8-block0003")
    others = [
        folder.failure(threads(8), block=4),
        folder.failure(threads(8), block=-1),
        folder.failure(threads(8), block=-1, attempt=1),
        folder.failure(threads(8), block=3, attempt=1),
        folder.failure(threads(8), block=3, again=True),
        folder.failure(threads(8), block=3, again=True, attempt=1),
        folder.failure(for_all(num_worker_threads=8, transports="shm"), block=3),
    ]
    assert len({first, *others}) == 8
    assert others[5].name == "num_worker_threads=8-block0003-again-2"
    assert others[2].name == "num_worker_threads=8-first-2"


def test_a_writable_folder_is_left_as_it_was(tmp_path: Path) -> None:
    StudyFolder(tmp_path / "a" / "b").check_writable()
    StudyFolder(tmp_path).check_writable()
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("below", ["", "a", "a/b"])
def test_a_file_in_the_way_is_told(tmp_path: Path, below: str) -> None:
    blocker = tmp_path / "studies"
    blocker.write_text("")
    root = blocker / below
    with pytest.raises(UsageError) as caught:
        StudyFolder(root).check_writable()
    assert str(caught.value) == f"cannot write the study folder {root}: Not a directory"


def test_a_name_too_long_for_the_file_system_is_told(tmp_path: Path) -> None:
    root = tmp_path / ("n" * 300)
    with pytest.raises(UsageError) as caught:
        StudyFolder(root).check_writable()
    assert str(caught.value) == f"cannot write the study folder {root}: File name too long"


def test_a_read_only_file_system_is_told() -> None:
    # Permissions do not stop root, but nobody makes files in /proc.
    with pytest.raises(UsageError, match="cannot write the study folder /proc/studies: "):
        StudyFolder(Path("/proc/studies")).check_writable()


def test_a_new_folder_and_all_in_it_are_for_their_owner(tmp_path: Path) -> None:
    """Whatever the umask; a folder that was there keeps its mode, and its files follow it."""
    before = os.umask(0)
    try:
        for name, mode in (("new", None), ("shared", 0o750)):
            root = tmp_path / name
            if mode is not None:
                root.mkdir()
                root.chmod(mode)
            launcher = FakeLauncher()
            with cheaply():
                tune(
                    "udf", launcher=launcher, clock=launcher.clock, name=name, budget="10s",
                    max_blocks=2, space={"num_worker_threads": [1, 4]}, out=root,
                )  # fmt: skip
            limit = mode or 0o700
            assert root.stat().st_mode & 0o777 == limit
            files = [each for each in root.rglob("*") if each.is_file()]
            assert {"study.db", "recommended.json"} <= {each.name for each in files}
            open_to = {str(each): oct(each.stat().st_mode & 0o077 & ~limit) for each in files}
            assert not [path for path, extra in open_to.items() if extra != "0o0"]
    finally:
        os.umask(before)
