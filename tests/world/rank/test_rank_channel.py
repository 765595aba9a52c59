"""A rank's end outlives no launcher."""

import os
import signal
import socket
from queue import SimpleQueue
from typing import Any

import pytest

from tuner.world.rank.rank_channel import RankEnd


def test_a_probe_that_raises_leaves_the_rank_with_its_watch(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    killed = SimpleQueue[tuple[int, ...]]()
    monkeypatch.setattr(os, "killpg", lambda *given: killed.put(given))
    launcher, rank = socket.socketpair()
    parent = RankEnd(rank, lambda: dict[str, Any]()["no such gauge"])
    launcher.sendall(b'{"kind": "probe"}\n{"kind": "go", "pids": [1, 2]}\n')
    launcher.close()
    assert killed.get(timeout=5) == (0, signal.SIGKILL)
    assert parent.wait_for("go")["pids"] == [1, 2]
    assert "no such gauge" in capsys.readouterr().err
    rank.close()
