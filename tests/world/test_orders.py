"""Orders of worlds, whatever the launcher."""

from pathlib import Path

import pytest

from tests.fakes import UDF, order
from tuner.world.launcher import TraceOrder
from tuner.world.rank.task import rank_tasks


def test_paths_of_an_order_hold_in_every_working_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert TraceOrder(path=Path("traces/a.json"), operators=True).path == tmp_path / "traces/a.json"
    folder = order(UDF, failure_folder=Path("failures/a")).failure_folder
    assert folder == tmp_path / "failures" / "a"


def test_ranks_start_in_the_working_folder_of_the_launcher(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert {task.folder for task in rank_tasks(order(UDF), scratch=tmp_path)} == {tmp_path}
