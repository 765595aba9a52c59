"""The launcher's end never blocks, and a rank's end outlives no launcher."""

import os
import signal
import socket
from collections.abc import Iterator
from queue import SimpleQueue
from typing import Any

import pytest

from tuner.world.rank import rank_channel
from tuner.world.rank.rank_channel import LauncherEnd, RankEnd

Both = tuple[LauncherEnd, socket.socket]


@pytest.fixture
def both() -> Iterator[Both]:
    ours, theirs = socket.socketpair()
    channel = LauncherEnd(ours)
    yield channel, theirs
    channel.close()
    theirs.close()


def test_messages_come_whole_and_in_order_up_to_the_end_without_blocking(both: Both) -> None:
    channel, theirs = both
    assert channel.messages() == []
    whole = b"[" + b"1," * 49_000 + b"1]\n"
    theirs.sendall(b'{"kind": "phase"}\n' + whole[:50_000])
    assert channel.messages() == [{"kind": "phase"}]
    theirs.sendall(whole[50_000:])
    theirs.close()
    assert [*channel.messages(), *channel.messages()] == [[1] * 49_001]
    assert not channel.is_open


@pytest.mark.parametrize("garbage", [b"\xff" * 8 + b"\n", b"{}\n{\n", b"2\n" + b'"1234567890'])
def test_what_is_no_message_or_too_long_closes_the_channel(
    both: Both, monkeypatch: pytest.MonkeyPatch, garbage: bytes
) -> None:
    monkeypatch.setattr(rank_channel, "MOST_BYTES", 10)
    channel, theirs = both
    theirs.sendall(garbage)
    assert channel.messages() in ([], [{}], [2])
    assert not channel.is_open


def test_an_answer_is_awaited_for_so_long(both: Both) -> None:
    channel, theirs = both
    with pytest.raises(TimeoutError):
        channel.awaited(0.05)
    theirs.sendall(b"1\n")
    assert channel.awaited(60.0) == 1
    theirs.close()
    with pytest.raises(EOFError):
        channel.awaited(60.0)


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
