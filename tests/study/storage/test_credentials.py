"""The password of a storage is nowhere in what a search leaves, prints or hands on."""

import gzip
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote

import pytest
import sqlalchemy

import tuner
from tests.cheap_studies import cheaply
from tests.commands.running import in_this_process
from tests.fakes import FakeLauncher, threads_of
from tests.study.storage.server import PASSWORD, Server, postgresql_server
from tuner import list as list_command
from tuner import show
from tuner.errors import UsageError
from tuner.study.storage.address import StudyAddress

pytestmark = pytest.mark.slow

SECRETS = (PASSWORD, quote(PASSWORD, safe=""), "secret")


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with postgresql_server() as started:
        yield started


def texts_in(folder: Path) -> Iterator[tuple[str, str]]:
    """Every file below a folder, unpacked."""
    for path in folder.rglob("*"):
        if path.is_file():
            content = path.read_bytes()
            if content.startswith(b"\x1f\x8b"):
                content = gzip.decompress(content)
            yield str(path), content.decode(errors="replace")


def texts_of(server: Server) -> Iterator[tuple[str, str]]:
    """Every row that the database holds."""
    engine = sqlalchemy.create_engine(server.url, poolclass=sqlalchemy.NullPool)
    with engine.connect() as connection:
        for table in sqlalchemy.inspect(engine).get_table_names():
            for row in connection.execute(sqlalchemy.text(f'SELECT * FROM "{table}"')):
                yield table, repr(tuple(row))


@pytest.mark.world
@pytest.mark.thorough
def test_a_search_leaves_no_password(
    server: Server, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    url = server.url
    done = in_this_process(
        "--workload", "udf", "--set", "size=20", "--set", "rounds=1", "--storage", url,
        "--space", "num_worker_threads=2", "--budget", "60s", "--max-blocks", "2",
        "--study", "mine", "--out", "mine",
        cwd=tmp_path,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert list_command.main(["--storage", url]) == 0
    assert show.main(["mine", "--storage", url, "--out", str(tmp_path / "mine")]) == 0
    printed = capfd.readouterr()
    found = [("stdout", done.stdout), ("stderr", done.stderr), ("shown", printed.out),
             ("noted", printed.err), *texts_in(tmp_path / "mine"), *texts_of(server)]  # fmt: skip
    assert len(found) > 50
    assert "mine" in printed.out
    for where, text in found:
        for secret in SECRETS:
            assert secret not in text, where


def test_a_recommendation_in_a_server_is_checked(server: Server, tmp_path: Path) -> None:
    launcher = FakeLauncher(step_ms=lambda config: 8.0 / threads_of(config))
    again = FakeLauncher(step_ms=launcher.step_ms)
    with cheaply():
        tuner.tune(
            "udf", launcher=launcher, clock=launcher.clock, space={"num_worker_threads": [2]},
            baseline={"num_worker_threads": 1}, max_blocks=6, storage=server.url, name="checked",
            out=str(tmp_path / "checked"),
        )  # fmt: skip
        found = tuner.check(
            "checked", storage=server.url, launcher=again, clock=again.clock, max_blocks=6
        )
    assert found.outcome == "holds"
    assert {threads_of(order.config) for order in again.orders} == {1, 2}


def test_an_error_of_a_wrong_password_does_not_show_it(server: Server) -> None:
    parsed = sqlalchemy.engine.make_url(server.url).set(password="wrong-hush")
    wrong = parsed.render_as_string(hide_password=False)
    in_query = parsed.set(password=None).update_query_dict({"password": "wrong-hush"})
    for url in (wrong, in_query.render_as_string(hide_password=False)):
        with pytest.raises(UsageError, match="password authentication failed") as caught:
            StudyAddress(url, "udf", in_own_folder=False).names()
        assert "hush" not in str(caught.value)
