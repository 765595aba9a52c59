"""A PostgreSQL server of the tests' own, on the loopback, in a folder of its own."""

import os
import pwd
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import sqlalchemy

PASSWORD = "no/secret@all:"
USER = "tester"
STARTS_WITHIN_S = 30.0


def binary(name: str) -> Path:
    """A program of Debian's package, which is not on the PATH, or of another installation."""
    found = sorted(Path("/usr/lib/postgresql").glob(f"*/bin/{name}"))
    on_path = shutil.which(name)
    assert found or on_path, f"there is no {name}: `make postgresql` installs it"
    return found[-1] if found else Path(str(on_path))


def _as_somebody() -> dict[str, Any]:
    """PostgreSQL refuses to run as root."""
    if os.getuid() != 0:
        return {}
    known = {each.pw_name for each in pwd.getpwall()}
    somebody = pwd.getpwnam("postgres" if "postgres" in known else "nobody")
    return {"user": somebody.pw_uid, "group": somebody.pw_gid, "extra_groups": []}


class Server:
    """A server that can be stopped, killed and started again, at the same address."""

    def __init__(self, folder: Path, who: dict[str, Any]) -> None:
        self._folder = folder
        self._who = who
        self._process: subprocess.Popen[bytes] | None = None
        with socket.create_server(("127.0.0.1", 0)) as free:
            self.port = free.getsockname()[1]
        url = sqlalchemy.URL.create(
            "postgresql", USER, PASSWORD, "127.0.0.1", self.port, database="postgres"
        )
        self.url = url.render_as_string(hide_password=False)

    def start(self) -> None:
        """Start it, and wait until it answers."""
        log = self._folder / "log"
        with log.open("ab") as file:
            self._process = subprocess.Popen(
                [binary("postgres"), "-D", self._folder / "data", "-h", "127.0.0.1",
                 "-p", str(self.port), "-c", "unix_socket_directories=", "-c", "fsync=off",
                 "-c", "shared_buffers=16MB"],
                stdin=subprocess.DEVNULL, stdout=file, stderr=file, cwd=self._folder, **self._who,
            )  # fmt: skip
        engine = sqlalchemy.create_engine(self.url, poolclass=sqlalchemy.NullPool)
        until = time.monotonic() + STARTS_WITHIN_S
        while True:
            try:
                engine.connect().close()
                return
            except sqlalchemy.exc.OperationalError:
                assert self._process.poll() is None, log.read_text()
                assert time.monotonic() < until, log.read_text()
                time.sleep(0.02)

    def ensure(self) -> None:
        """Start it, unless it runs."""
        if self._process is None:
            self.start()

    def stop(self, number: signal.Signals = signal.SIGINT) -> None:
        """End it: by its fast shutdown, which waits for no client, or SIGQUIT: as a crash does."""
        if self._process is None:
            return
        self._process.send_signal(number)
        try:
            self._process.wait(10)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._process = None


@contextmanager
def postgresql_server() -> Iterator[Server]:
    """A server that ends, and is removed, with the block; its password is awkward."""
    # Not pytest's own folder: nobody but its owner may enter that one.
    folder = Path(tempfile.mkdtemp(prefix="rpc-tuner-postgresql-"))
    who = _as_somebody()
    try:
        (folder / "password").write_text(PASSWORD)
        if who:
            for path in (folder, folder / "password"):
                os.chown(path, who["user"], who["group"])
        subprocess.run(
            [binary("initdb"), "--pgdata", folder / "data", "--username", USER, "--no-sync",
             "--no-locale", "--encoding=UTF8", "--auth=scram-sha-256",
             f"--pwfile={folder / 'password'}"],
            check=True, capture_output=True, cwd=folder, **who,
        )  # fmt: skip
        server = Server(folder, who)
        try:
            server.start()
            yield server
        finally:
            server.stop()
    finally:
        shutil.rmtree(folder)
