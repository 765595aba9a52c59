"""The connection from a rank to the launcher."""

import multiprocessing
import os
import signal
import threading

import orjson
import pytest

from tuner.world.rank import launcher_channel, thread_states


def test_a_probe_that_raises_leaves_the_rank_with_its_watch(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    killed: list[tuple[int, int]] = []
    gone = threading.Event()

    def kill_group(group: int, number: int) -> None:
        killed.append((group, number))
        gone.set()

    def fail() -> dict[str, object]:
        raise KeyError("no such gauge")

    monkeypatch.setattr(thread_states, "rpc_state", fail)
    monkeypatch.setattr(os, "killpg", kill_group)
    launcher, rank = multiprocessing.Pipe()
    parent = launcher_channel.LauncherChannel(rank)
    launcher.send_bytes(orjson.dumps({"kind": "probe"}))
    launcher.send_bytes(orjson.dumps({"kind": "go", "pids": [1, 2]}))
    launcher.close()
    assert gone.wait(5)
    assert killed == [(0, signal.SIGKILL)]
    assert parent.wait_for("go")["pids"] == [1, 2]
    assert "no such gauge" in capsys.readouterr().err
    rank.close()
