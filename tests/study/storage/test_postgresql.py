"""A study in a real PostgreSQL server, at the URL that the documents give."""

import gzip
import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
import sqlalchemy
from sqlalchemy.engine import make_url

from tests.commands.running import in_this_process
from tests.study import made
from tests.study.storage.server import PASSWORD, USER, Server
from tests.study.storage.test_browsing import ask
from tuner import dashboard, export, report, show
from tuner import list as list_command
from tuner.study.finding import place_of
from tuner.study.storage.address import StudyAddress
from tuner.study.storage.browsing import study_site
from tuner.study.storage.study_lock import study_lock

pytestmark = pytest.mark.slow


def assert_no_password(text: str) -> None:
    for secret in (PASSWORD, quote(PASSWORD, safe=""), "secret"):
        assert secret not in text


@pytest.fixture
def url(server: Server) -> str:
    return server.url


def test_the_commands_read_it(
    url: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    # No figure tells of a storage, and all of them take most of the time.
    monkeypatch.setattr("tuner.present.figures.study_figures", lambda answer, traces: [])
    out, page = tmp_path / "udf", tmp_path / "page.html"
    made.search(out, storage=url, name="udf")
    where = ["udf", "--storage", url, "--out", str(out)]
    assert report.main([*where, "--output", str(page)]) == 0
    assert export.main([*where, "--output", str(tmp_path / "udf.toml"), "--format", "toml"]) == 0
    assert 'study = "udf"' in (tmp_path / "udf.toml").read_text()
    shown = capsys.readouterr()
    for text in (page.read_text(), shown.out, shown.err):
        assert_no_password(text)
    site = study_site(place_of("udf", storage=url, out=out))
    assert ask(site, site.page).status == 200
    names = [each["study_name"] for each in ask(site, "/api/studies").json()["study_summaries"]]
    assert "udf" in names


def test_bad_urls_are_one_sentence_without_the_password(
    url: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    shown = f"postgresql://{USER}:***@127.0.0.1:"
    for main in (report.main, export.main, dashboard.main):
        assert main(["absent", "--storage", url]) == 2
        said = capsys.readouterr()
        assert said.err.startswith(f"rpc-tuner: there is no study 'absent' in {shown}")
        assert said.err.count("\n") == 1
    right = make_url(url)
    wrong = f"{PASSWORD}!"
    for bad, why in (
        (right.set(database="nowhere"), "does not exist"),
        (right.set(password=wrong), "password authentication failed"),
        (right.set(password=None).update_query_dict({"password": wrong}), "authentication failed"),
    ):
        storage = bad.render_as_string(hide_password=False)
        told = made.refusal(tmp_path / "never", storage=storage)
        assert re.match(f"cannot open the storage .*{why}", told)
        assert_no_password(told)
        assert not (tmp_path / "never").exists()


def test_one_search_has_a_study_and_another_hears_which(url: str, tmp_path: Path) -> None:
    hows: list[dict[str, Any]] = [{}, {"resume": True}, {"overwrite": True}]
    with study_lock(StudyAddress(url, "held", in_own_folder=False)):
        for how in hows:
            said = made.refusal(tmp_path / "mine", storage=url, name="held", **how)
            assert re.fullmatch(
                r"another search of the study held is running in the storage postgresql://\S+: "
                rf"process {os.getpid()} on \S+, since \d{{4}}-\d\d-\d\d \d\d:\d\d:\d\d; .*",
                said,
            )
            assert_no_password(said)
        assert not (tmp_path / "mine").exists()
        # Another study of the storage is nobody's concern.
        assert made.search(tmp_path / "other", storage=url, name="other").blocks == 2
    for overwrite in (False, True):
        found = made.search(tmp_path / "mine", storage=url, name="held", overwrite=overwrite)
        assert found.blocks == 2


def texts_in(folder: Path, url: str) -> Iterator[str]:
    """Every file below a folder, unpacked, and every row that the database holds."""
    for path in filter(Path.is_file, folder.rglob("*")):
        content = path.read_bytes()
        if content.startswith(b"\x1f\x8b"):
            content = gzip.decompress(content)
        yield content.decode(errors="replace")
    engine = sqlalchemy.create_engine(url, poolclass=sqlalchemy.NullPool)
    with engine.connect() as connection:
        for table in sqlalchemy.inspect(engine).get_table_names():
            for row in connection.execute(sqlalchemy.text(f'SELECT * FROM "{table}"')):
                yield repr(tuple(row))


@pytest.mark.world
@pytest.mark.thorough
def test_a_search_leaves_no_password(
    url: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
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
    assert "mine" in printed.out
    found = [done.stdout, done.stderr, *printed, *texts_in(tmp_path / "mine", url)]
    assert len(found) > 50
    for text in found:
        assert_no_password(text)
