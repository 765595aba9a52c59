"""The dashboard command, from its flags to its exit code; tests/browser looks at its pages."""

import re
import shutil
import signal
import socket
import urllib.error
import urllib.request
from contextlib import chdir, closing
from pathlib import Path
from unittest.mock import Mock

import psutil
import pytest

from testing.cheap_studies import cheaply, migrations_are_read_once
from testing.serving import dashboard
from tests.commands.running import searched as one_study
from tuner.dashboard import main
from tuner.study.storage.browsing import HOST, USUAL_PORT, serving

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


def get(url: str, **headers: str) -> bytes:
    request = urllib.request.Request(url, headers=headers)
    with urllib.request.urlopen(request, timeout=10) as answer:
        return bytes(answer.read())


def test_it_answers_this_machine_only_and_stops_cleanly(folder: Path) -> None:
    one = str(folder / "studies" / "one")
    with dashboard(one, what="The study one", ending=signal.SIGTERM) as url:
        host, _, page = url.partition("/dashboard/")
        port = int(host.rpartition(":")[2])
        assert page == "studies/1"
        assert b"Optuna Dashboard" in get(url)
        studies = f"{host}/api/studies"
        assert get(studies, Host=f"localhost:{port}")
        assert get(studies, Origin=host)
        origins = ("http://evil.example", "null", "http://127.0.0.1:1", "https://localhost")
        for headers in ({"Host": "evil.example:80"}, *({"Origin": origin} for origin in origins)):
            with pytest.raises(urllib.error.HTTPError, match="403"):
                get(studies, **headers)
        for address in (each for known in psutil.net_if_addrs().values() for each in known):
            if address.family == socket.AF_INET and address.address != HOST:
                with pytest.raises(ConnectionRefusedError):
                    socket.create_connection((address.address, port), timeout=5)
        kept_open = socket.create_connection((HOST, port))  # as browsers do
    kept_open.close()
    socket.create_server((HOST, port)).close()


@pytest.mark.usefixtures("folder")
def test_a_port_that_is_taken_is_refused_if_it_was_named(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert USUAL_PORT == 8080
    with closing(socket.create_server((HOST, 0))) as listening:
        port = listening.getsockname()[1]
        assert main(["one", "--port", str(port)]) == 2
        assert capsys.readouterr().err == (
            f"rpc-tuner: cannot listen on port {port}: Address already in use\n"
        )
        monkeypatch.setattr("tuner.study.storage.browsing.USUAL_PORT", port)
        with serving(lambda request, start_response: [], None) as url:
            assert url not in (f"http://{HOST}:{port}", f"http://{HOST}:0")


def test_all_studies_are_shown_and_what_cannot_be_read_is_told(
    folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    (folder / "studies" / "damaged").mkdir()
    (folder / "studies" / "damaged" / "study.db").write_text("this is no database")
    monkeypatch.setattr("tuner.dashboard.Interruption.check", Mock(side_effect=KeyboardInterrupt))
    assert main([]) == 0
    out, err = capsys.readouterr()
    assert re.match(r"The study of the folder studies: http://127.0.0.1:\d+/dashboard \(", out)
    assert err.startswith("note: left out: cannot open the storage sqlite:///")
    assert err.count("\n") == 1
