"""Processes of a program that are gone are noted, with their exit code where it can be read."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.world.command.reported import BEGAN_NS, report_of
from tuner.world.command.folder_channel import FolderChannel
from tuner.world.messages import read_messages


@pytest.mark.world
@pytest.mark.thorough
def test_processes_that_are_gone_are_noted_once(tmp_path: Path) -> None:
    """One that its parent has not asked about has an exit code that can be read."""
    ended, killed, waited_for, lives = (
        subprocess.Popen([sys.executable, "-c", "import sys; sys.stdin.read(); sys.exit(3)"],
                         stdin=subprocess.PIPE)
        for _ in range(4)
    )  # fmt: skip
    all_ = (ended, killed, waited_for, lives)
    for process in all_:
        (tmp_path / f"{process.pid}.jsonl").touch()
    watch = FolderChannel(tmp_path)
    watch.note_gone()
    assert not any(read_messages(tmp_path / f"{each.pid}.jsonl") for each in all_)
    killed.kill()
    waited_for.communicate()
    assert ended.stdin is not None
    ended.stdin.close()
    codes: dict[int, list[int | None]] = {}
    while len(codes) < 3:
        watch.note_gone()
        events = {each.pid: read_messages(tmp_path / f"{each.pid}.jsonl") for each in all_}
        codes = {pid: [event["code"] for event in found] for pid, found in events.items() if found}
    assert codes == {ended.pid: [3], killed.pid: [-9], waited_for.pid: [None]}
    for process in all_:
        process.communicate()


@pytest.mark.parametrize(("more", "is_gone"), [({}, True), ({"pid_namespace": 7}, False)])
def test_a_process_of_another_namespace_is_not_known_to_be_gone(
    tmp_path: Path, more: dict[str, int], is_gone: bool
) -> None:
    """Its id there is that of another process here, or of none."""
    pid, started = 4_000_001, {"kind": "started", "time_ns": BEGAN_NS}
    report_of(tmp_path, [{**started, "pid": pid, **more}])
    (tmp_path / "0.jsonl").rename(tmp_path / f"{pid}.jsonl")
    os.mkfifo(tmp_path / "4000002.jsonl")  # a program can put anything there
    FolderChannel(tmp_path).note_gone()
    found = [event["kind"] for event in read_messages(tmp_path / f"{pid}.jsonl")]
    assert found == ["started", *(["gone"] if is_gone else [])]
