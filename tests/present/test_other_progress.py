"""Progress in a notebook, in a log, and for several observers."""

import re
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests.present.test_progress import RACING
from tuner.errors import UsageError
from tuner.present.other_progress import progress_of_command, shown_in_notebook
from tuner.present.progress import snapshot_line
from tuner.searching.progress import Silent, report_stage


class Cell:
    """The output of a notebook's cell: what stands in it, in the course of time."""

    def __init__(self) -> None:
        self.shown: list[str] = []

    def display(self, data: dict[str, str], *, raw: bool, display_id: bool) -> "Cell":
        assert raw
        assert display_id
        self.shown.append(data["text/plain"])
        return self

    def update(self, data: dict[str, str], *, raw: bool) -> None:
        assert raw
        self.shown.append(data["text/plain"])


def in_ipython(monkeypatch: pytest.MonkeyPatch, shell: str) -> Cell:
    cell = Cell()
    running = type(shell, (), {})()
    fake: Any = SimpleNamespace(
        get_ipython=lambda: running, display=SimpleNamespace(display=cell.display)
    )
    monkeypatch.setitem(sys.modules, "IPython", fake)
    return cell


def test_a_notebook_shows_a_line_and_the_last_events(monkeypatch: pytest.MonkeyPatch) -> None:
    cell = in_ipython(monkeypatch, "ZMQInteractiveShell")
    with shown_in_notebook() as progress:
        report_stage(progress, "setting up")
        for number in range(7):
            progress.on_event(f"event {number}")
        progress.on_snapshot(RACING)
        last = cell.shown[-1].splitlines()
        assert last == [snapshot_line(RACING), *(f"  event {number}" for number in range(2, 7))]
    assert cell.shown[1] == "setting up"
    assert cell.shown[-1] == ""


def test_elsewhere_nothing_is_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    cell = in_ipython(monkeypatch, "TerminalInteractiveShell")
    with shown_in_notebook() as progress:
        assert isinstance(progress, Silent)
    assert cell.shown == []
    monkeypatch.delitem(sys.modules, "IPython")
    with shown_in_notebook() as progress:
        assert isinstance(progress, Silent)


@pytest.mark.parametrize("quiet", [False, True])
def test_a_log_gets_dated_lines_also_of_a_quiet_search(
    quiet: bool, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    log = tmp_path / "search.log"
    log.write_text("before\n")
    with progress_of_command(quiet=quiet, log=log) as progress:
        report_stage(progress, "setting up")
        progress.on_event("num_worker_threads=1: deadlocked")
        progress.on_snapshot(RACING)
    first, *lines = log.read_text().splitlines()
    assert first == "before"
    told = ["setting up", "num_worker_threads=1: deadlocked", snapshot_line(RACING)]
    assert [line.partition("  ")[2] for line in lines] == told
    assert all(re.match(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d  ", line) for line in lines)
    assert (capsys.readouterr().err == "") == quiet


def test_a_log_that_cannot_be_written_is_told(tmp_path: Path) -> None:
    with (
        pytest.raises(UsageError, match=r"cannot write --log .*: Is a directory"),
        progress_of_command(quiet=True, log=tmp_path),
    ):
        pass
