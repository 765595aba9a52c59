"""The dashboard command, from its flags to its exit code; tests/browser looks at its pages."""

import re
import shutil
import signal
import socket
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import ExitStack, chdir, closing
from pathlib import Path

import psutil
import pytest

from tests.cheap_studies import cheaply, migrations_are_read_once
from tests.commands.running import ROOT
from tests.commands.running import searched as one_study
from tuner import dashboard
from tuner.present.loopback_server import HOST, USUAL_PORT, serving

__all__ = ["migrations_are_read_once"]  # a fixture for the studies here


@pytest.fixture(scope="module")
def searched(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the study `one` in `studies`."""
    folder = tmp_path_factory.mktemp("searched")
    with cheaply(), chdir(folder):
        one_study("one", max_blocks=2)
    return folder


@pytest.fixture
def folder(searched: Path, here: Path) -> Path:
    """A copy of it, in which the command is started."""
    shutil.copytree(searched, here, dirs_exist_ok=True)
    return here


class Running:
    """The command in a process of its own, once it has said where its page is."""

    def __init__(self, process: "subprocess.Popen[str]") -> None:
        self.process = process
        assert process.stdout is not None
        self.line = process.stdout.readline()
        found = re.search(r"(http://[^/]+):(\d+)(/\S*)", self.line)
        assert found, process.communicate(timeout=10)
        self.host, self.port, self.page = found[1], int(found[2]), found[3]

    def get(self, path: str, **headers: str) -> bytes:
        request = urllib.request.Request(f"{self.host}:{self.port}{path}", headers=headers)
        with urllib.request.urlopen(request, timeout=10) as answer:
            return bytes(answer.read())

    def stop(self, number: signal.Signals) -> tuple[int, str]:
        """The exit code, and what was written after the first line."""
        self.process.send_signal(number)
        out, err = self.process.communicate(timeout=10)
        return self.process.returncode, out + err


@pytest.fixture
def start(folder: Path) -> Iterator[Callable[..., Running]]:
    with ExitStack() as stack:

        def begin(*arguments: str) -> Running:
            process = subprocess.Popen(
                [sys.executable, "-m", "tuner.dashboard", *arguments],
                stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=folder,
                env={"PYTHONPATH": str(ROOT), "PATH": ""},
            )  # fmt: skip
            stack.enter_context(process)
            stack.callback(process.kill)
            return Running(process)

        yield begin


def test_it_says_where_the_page_is_answers_this_machine_only_and_stops_cleanly(
    start: Callable[..., Running],
) -> None:
    running = start("one")
    assert running.line.startswith("The study one: http://127.0.0.1:")
    assert running.line.endswith("/dashboard/studies/1 (Ctrl-C stops it)\n")
    assert b"Optuna Dashboard" in running.get(running.page)
    assert running.port == USUAL_PORT or running.port > 1024
    assert running.get("/api/studies", Host=f"localhost:{running.port}")
    assert running.get("/api/studies", Origin=f"http://127.0.0.1:{running.port}")
    origins = ("http://evil.example", "null", "http://127.0.0.1:1", "https://localhost")
    for headers in ({"Host": "evil.example:80"}, *({"Origin": each} for each in origins)):
        with pytest.raises(urllib.error.HTTPError, match="403"):
            running.get("/api/studies", **headers)
    for address in (each for known in psutil.net_if_addrs().values() for each in known):
        if address.family == socket.AF_INET and address.address != HOST:
            with pytest.raises(ConnectionRefusedError):
                socket.create_connection((address.address, running.port), timeout=5)
    with closing(socket.create_connection((HOST, running.port))):  # kept open, as browsers do
        assert running.stop(signal.SIGTERM) == (0, "")
    socket.create_server((HOST, running.port)).close()


@pytest.mark.usefixtures("folder")
def test_a_port_that_is_taken_is_refused_if_it_was_named(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert USUAL_PORT == 8080
    with closing(socket.create_server((HOST, 0))) as listening:
        port = listening.getsockname()[1]
        assert dashboard.main(["one", "--port", str(port)]) == 2
        assert capsys.readouterr().err == (
            f"rpc-tuner: cannot listen on port {port}: Address already in use\n"
        )
        monkeypatch.setattr("tuner.present.loopback_server.USUAL_PORT", port)
        with serving(lambda request, start_response: [], None) as url:
            assert url not in (f"http://{HOST}:{port}", f"http://{HOST}:0")


def test_all_studies_are_shown_and_what_cannot_be_read_is_told(
    start: Callable[..., Running], folder: Path
) -> None:
    (folder / "studies" / "damaged").mkdir()
    (folder / "studies" / "damaged" / "study.db").write_text("this is no database")
    running = start("--port", "0")
    assert running.line.startswith("The study of the folder studies: http://127.0.0.1:")
    assert running.page == "/dashboard"
    assert running.get("/api/studies").count(b'"study_name"') == 1
    code, rest = running.stop(signal.SIGINT)
    assert (code, rest.count("\n")) == (0, 1)
    assert rest.startswith("note: left out: cannot open the storage sqlite:///")


def test_a_study_that_is_not_there_is_told_and_nothing_is_written(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before = sorted(folder.rglob("*"))
    for arguments, message in (
        (["oen"], "there is no study 'oen'; did you mean one?"),
        (["one", "--out", "nowhere"], "there is no study in the folder nowhere"),
        (["one", "--storage", "sqlite:///no/such/x.db"], "cannot open the storage"),
    ):
        assert dashboard.main([*arguments, "--port", "0"]) == 2
        out, err = capsys.readouterr()
        assert err.startswith(f"rpc-tuner: {message}")
        assert out == ""
    assert sorted(folder.rglob("*")) == before
