"""What the processes of a program send arrives, whatever they do; ranks are asked, and answer."""

import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from tests.world.command.reported import BEGAN_NS, PIDS
from tests.world.launcher_contract import awaited
from tuner import daemon_threads
from tuner.errors import LauncherError
from tuner.world.command import program_channel
from tuner.world.command.hook import rpc_tuner_hook
from tuner.world.command.hook.rpc_tuner_hook import Reports
from tuner.world.command.order import CHANNEL
from tuner.world.command.program_channel import ProgramChannel
from tuner.world.rank.thread_states import Prober

OURS = Path("/proc/self/ns/pid").stat().st_ino


@pytest.fixture
def channel(tmp_path: Path) -> Iterator[ProgramChannel]:
    # A socket's address would not hold it.
    (folder := tmp_path / ("long" * 50)).mkdir()
    with closing(ProgramChannel(folder)) as channel:
        yield channel


def reports_to(channel: ProgramChannel) -> Reports:
    return Reports(f"{channel.folder}/{CHANNEL}")


def say(channel: ProgramChannel, *lines: bytes) -> None:
    connection = reports_to(channel).connect()
    connection.sendall(b"".join(lines))
    connection.close()


def started(channel: ProgramChannel, pid: int, namespace: int = OURS) -> None:
    """Have a process report its start."""
    facts = b'{"kind": "started", "pid": %d, "time_ns": %d, "pid_namespace": %d}\n'
    say(channel, facts % (pid, BEGAN_NS, namespace))


def test_all_that_a_process_and_its_fork_send_is_kept_in_order(channel: ProgramChannel) -> None:
    """Also what is larger than a socket holds, and what was sent before a kill."""
    reports = reports_to(channel)
    reports.send("started")
    if (pid := os.fork()) == 0:
        for number in range(300):
            reports.send("raised", error=str(number))
        reports.send("imported", modules=["m" * 99] * 9000, environment={})
        os.kill(os.getpid(), signal.SIGKILL)
    os.waitpid(pid, 0)
    reports.send("window-end")
    ours, theirs = channel.messages()
    assert [each["kind"] for each in ours] == ["started", "window-end"]
    assert {each["pid"] for each in theirs} == {pid}
    assert [each["error"] for each in theirs[:-1]] == [str(number) for number in range(300)]
    assert len(theirs[-1]["modules"]) == 9000
    assert [each["pid_namespace"] for each in (ours[0], theirs[0])] == [OURS, OURS]


@pytest.mark.parametrize(
    "line",
    [
        b"[" * 10**6,
        b'{"kind": "init_rpc"',
        b'{"kind": ["init_rpc"]}',
        b'{"kind": "hook-failed", "pid": 1, "time_ns": 1, "error": 7}',
        b'{"kind": "answer", "pid": 1e999, "time_ns": 1}',
        b'{"kind": "gone", "pid": 1, "time_ns": 1, "code": 0}',
        b'{"kind": "window-end", "pid": 1, "time_ns": ' + b"9" * 5000 + b"}",
        b"\xff\xfe\0",
    ],
)
def test_what_is_no_message_is_left_out(channel: ProgramChannel, line: bytes) -> None:
    started(channel, PIDS[0])
    say(channel, line)
    say(channel, line, b"\n")
    started(channel, PIDS[1])
    assert [each["pid"] for process in channel.messages() for each in process] == [*PIDS]


def test_so_much_is_kept_of_one_process_and_how_it_ended(
    channel: ProgramChannel, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(program_channel, "_MOST_BYTES", 300)
    for _ in range(9):
        started(channel, PIDS[0])
    started(channel, PIDS[1])
    say(
        channel,
        b'{"kind": "exit", "pid": %d, "time_ns": 1, "error": "", "traceback": ""}\n' % PIDS[0],
    )
    first, second = channel.messages()
    assert 1 < len(first) < 6
    assert (first[-1]["kind"], len(second)) == ("exit", 1)


def test_what_came_while_the_tool_was_stopped_is_in_order(channel: ProgramChannel) -> None:
    """More than epoll gives at once; what has no room waits until the tool goes on."""
    reports, count = reports_to(channel), 4500

    def send() -> None:
        for number in range(count):
            reports.send("raised", error=str(number))

    sending = threading.Thread(target=send)
    with channel._receiving:
        sending.start()
        sending.join(0.5)
    sending.join()
    (found,) = channel.messages()
    assert [each["error"] for each in found] == [str(number) for number in range(count)]


def test_a_program_does_not_wait_for_a_tool_that_is_stopped_or_has_ended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    brief = bytes(8) + (50_000).to_bytes(8, sys.byteorder)
    monkeypatch.setattr(rpc_tuner_hook, "_MOST_WAIT", brief)
    reports = Reports(str(tmp_path / CHANNEL))
    reports.send("started")
    with socket.socket(socket.AF_UNIX) as stopped:
        stopped.bind(str(tmp_path / CHANNEL))
        stopped.listen(0)
        for _ in range(3):
            reports.send("raised", error="x" * 10**6)
    reports.send("window-end")


def test_a_tool_that_ends_ends_no_program_that_has_the_usual_signals() -> None:
    program = (
        "import signal, socket\n"
        "from tuner.world.command.hook.rpc_tuner_hook import Reports\n"
        "from tuner.world.socket_channel import SocketChannel\n"
        "signal.signal(signal.SIGPIPE, signal.SIG_DFL)\n"
        "ours, theirs = socket.socketpair()\n"
        "theirs.close()\n"
        "reports = Reports('')\n"
        "reports.connect = lambda: ours\n"
        "reports.send('started')\n"
        "again, theirs = socket.socketpair()\n"
        "theirs.close()\n"
        "try:\n"
        "    SocketChannel(again).send({})\n"
        "except BrokenPipeError:\n"
        "    print('goes on')\n"
    )
    done = subprocess.run([sys.executable, "-c", program], check=True, stdout=subprocess.PIPE)
    assert done.stdout == b"goes on\n"


def test_ranks_answer_what_they_are_asked_from_then_on(channel: ProgramChannel) -> None:
    reports, standing = reports_to(channel), {"calls": 3, "cpu_s": 0.5, "threads": 2,
                                              "peak_rss_mb": 1.0}  # fmt: skip
    channel.ask()
    prober = Prober(channel.folder, reports.connect, lambda: standing, reports.send)
    prober.begin("agent", 0)
    (thread,) = [each for each in daemon_threads._running if each.name == "rpc-tuner probe"]
    assert awaited(lambda: bool(channel._listening))
    number = channel.ask("stacks")
    channel.pass_on(channel.question)  # as a host of a cluster gets it again and again
    answer = channel.answers(number, [os.getpid()], within_s=20.0)[os.getpid()]
    assert (answer["name"], answer["rank"], answer["calls"]) == ("agent", 0, 3)
    assert "test_ranks_answer" in (channel.folder / f"agent-{os.getpid()}.stacks").read_text()
    assert channel.answers(number + 1, [os.getpid()], within_s=0.2) == {}
    assert [state["number"] for state in channel.report().states] == [number]
    daemon_threads._running[thread].set()  # as the process ends
    thread.join(20)
    assert not thread.is_alive()


def test_a_rank_that_reads_no_question_holds_up_nothing(channel: ProgramChannel) -> None:
    """It is stopped, or its socket was left to a fork of it."""
    with closing(reports_to(channel).connect()) as connection:
        connection.sendall(b'{"kind": "listening", "pid": 1, "time_ns": 1}\n')
        assert awaited(lambda: bool(channel._listening))
        for _ in range(10_000):
            channel.ask()
    started(channel, PIDS[0])
    assert len(channel.messages()) == 1


def test_a_folder_that_has_no_sockets_is_named(tmp_path: Path) -> None:
    with pytest.raises(LauncherError, match="set TMPDIR"):
        ProgramChannel(tmp_path / "nowhere")


@pytest.mark.world
@pytest.mark.thorough
def test_processes_that_are_gone_are_noted_once(channel: ProgramChannel) -> None:
    """One that its parent has not asked about has an exit code that can be read."""
    ended, killed, waited_for, _lives = all_ = [
        subprocess.Popen([sys.executable, "-c", "import sys; sys.stdin.read(); sys.exit(3)"],
                         stdin=subprocess.PIPE)
        for _ in range(4)
    ]  # fmt: skip
    for process in all_:
        started(channel, process.pid)
    channel.note_gone()
    assert not codes_in(channel)
    killed.kill()
    waited_for.communicate()
    assert ended.stdin is not None
    ended.stdin.close()
    while len(codes_in(channel)) < 3:
        channel.note_gone()
    assert codes_in(channel) == {ended.pid: [3], killed.pid: [-9], waited_for.pid: [None]}
    channel.note_gone()
    assert sum(map(len, codes_in(channel).values())) == 3
    for process in all_:
        process.communicate()


def codes_in(channel: ProgramChannel) -> dict[int, list[Any]]:
    """The exit codes of the processes that are gone."""
    codes: dict[int, list[Any]] = {}
    for message in (each for process in channel.messages() for each in process):
        if message["kind"] == "gone":
            codes.setdefault(message["pid"], []).append(message["code"])
    return codes


@pytest.mark.parametrize(("namespace", "is_gone"), [(OURS, True), (7, False)])
def test_a_process_of_another_namespace_is_not_known_to_be_gone(
    channel: ProgramChannel, namespace: int, is_gone: bool
) -> None:
    """Its id there is that of another process here, or of none; so is one of another host."""
    started(channel, PIDS[0], namespace)
    channel.take([{"kind": "started", "pid": PIDS[1], "time_ns": BEGAN_NS}])
    channel.note_gone()
    assert [*codes_in(channel)] == ([PIDS[0]] if is_gone else [])
