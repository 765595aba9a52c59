"""What a rank answers of its threads."""

import os
from pathlib import Path

from tuner.world.rank.program_probe import _busy_s


def test_cpu_time_that_cannot_be_read_is_none(tmp_path: Path) -> None:
    task = tmp_path / "7"
    task.mkdir()
    (task / "comm").write_text("python\n")
    (task / "schedstat").write_text("2000000000 5 7\n")
    assert _busy_s(tmp_path) == 2.0
    (task / "comm").write_text("TP_LOOP\n")
    assert _busy_s(tmp_path) == 0.0
    (task / "comm").write_text("python\n")
    (task / "schedstat").unlink()
    assert _busy_s(tmp_path) is None
    (task / "schedstat").write_text("")  # a kernel that keeps no such times
    assert _busy_s(tmp_path) is None


def test_that_of_this_process_can_be_read() -> None:
    assert 0 < (_busy_s() or 0) <= 2 * os.times().elapsed
