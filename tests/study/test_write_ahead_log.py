"""What waits beside the storage is whole, is read back as it was, and fits on a full disk."""

from contextlib import nullcontext
from pathlib import Path

import pytest

from testing import made
from testing.made import took, world
from tuner.errors import UsageError
from tuner.study.folder import StudyFolder
from tuner.study.records import Record
from tuner.study.write_ahead_log import WriteAheadLog


@pytest.fixture
def folder(tmp_path: Path) -> StudyFolder:
    return StudyFolder(tmp_path)


def record(block: int, steps: int = 3) -> Record:
    return world("race", 1, block, took(0.25).model_copy(update={"step_s": (0.25,) * steps}))


def failed(block: int) -> Record:
    return world("race", 2, block, made.failed())


@pytest.mark.parametrize("reserves", [True, False])
def test_what_is_kept_is_left_for_the_next_search(folder: StudyFolder, reserves: bool) -> None:
    log = WriteAheadLog(folder, "udf")
    with log.reserved() if reserves else nullcontext():
        assert not reserves or folder.reserve.stat().st_size == 1 << 20
        log.append(record(0))
        log.append(failed(1))
        assert not folder.reserve.exists()
    assert log.kept == f"Everything measured is kept, the last of it in {folder.unsaved}"
    assert folder.unsaved.stat().st_size < 1000
    assert WriteAheadLog(folder, "udf").read() == [record(0), failed(1)]
    assert [path.name for path in folder.root.iterdir()] == ["unsaved.jsonl"]


def test_a_shorter_one_is_not_mixed_with_a_longer_one_before(folder: StudyFolder) -> None:
    log = WriteAheadLog(folder, "udf")
    with log.reserved():
        log.append(record(0, steps=1000))
        log.clear()
        log.append(failed(1))
        # As a process that is killed now leaves it.
        assert WriteAheadLog(folder, "udf").read() == [failed(1)]
        log.clear()
        assert WriteAheadLog(folder, "udf").read() == []
        # One that is larger than its place is kept, too.
        log.append(record(0, steps=300_000))
    assert WriteAheadLog(folder, "udf").read() == [record(0, steps=300_000)]
    log.discard()
    assert list(folder.root.iterdir()) == []


def test_what_cannot_be_kept_is_told_and_tried_again(folder: StudyFolder) -> None:
    log = WriteAheadLog(StudyFolder(folder.root / "gone" / "study"), "udf")
    (folder.root / "gone").write_text("a file")
    log.append(record(0))
    assert log.kept == (
        f"What was measured last cannot be kept in {folder.root}/gone/study/unsaved.jsonl either "
        "(Not a directory). Everything before it is in the storage"
    )
    (folder.root / "gone").unlink()
    log.retry()
    assert log.read() == [record(0)]
    assert log.kept.startswith("Everything measured is kept, the last of it in ")


@pytest.mark.parametrize(
    "content",
    [b"", b"[]\n", b"{}\n{}\n",
     b'{"format":"rpc-tuner unsaved, format 1","study":"udf","worlds":"x"}\n',
     b'{"format":"rpc-tuner unsaved, format 1","study":"udf","worlds":1}\n{"trial":',
     b'{"format":"rpc-tuner unsaved, format 1","study":"udf","worlds":1}',
     b'{"format":"rpc-tuner unsaved, format 1","study":"another","worlds":0}\n',
     b'{"format":"rpc-tuner unsaved, format 2","study":"udf","worlds":0}\n'],
)  # fmt: skip
def test_what_cannot_be_read_is_refused_in_a_sentence(folder: StudyFolder, content: bytes) -> None:
    folder.unsaved.write_bytes(content)
    with pytest.raises(UsageError) as caught:
        WriteAheadLog(folder, "udf").read()
    said = str(caught.value)
    assert said.startswith(f"cannot read the measurements in {folder.unsaved}: ")
    assert said.endswith("; remove the file to go on without them")
    assert "\n" not in said
