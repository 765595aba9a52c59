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

from testing import made
from testing.postgresql import PASSWORD, USER, Server
from tests.searching.tuning import Listening
from tests.study.storage.test_browsing import ask
from tuner import dashboard, export, report, show
from tuner import list as list_command
from tuner.study.storage.address import StudyAddress, place_of
from tuner.study.storage.browsing import study_site
from tuner.study.storage.study_lock import study_lock

pytestmark = pytest.mark.slow


def assert_no_password(text: str) -> None:
    for secret in (PASSWORD, quote(PASSWORD, safe=""), "secret"):
        assert secret not in text


@pytest.fixture
def url(server: Server) -> str:
    return server.url


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


@pytest.mark.publishes
def test_the_commands_read_it_and_nothing_holds_its_password(
    url: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    # No figure tells of a storage, and all of them take most of the time.
    monkeypatch.setattr("tuner.present.figures.study_figures", lambda answer, traces: [])
    out, heard = tmp_path / "udf", Listening()
    made.search(out, storage=url, name="udf", observer=heard)
    where = ["udf", "--storage", url, "--out", str(out)]
    assert report.main([*where, "--output", str(out / "page.html")]) == 0
    assert export.main([*where, "--output", str(out / "udf.toml"), "--format", "toml"]) == 0
    assert 'study = "udf"' in (out / "udf.toml").read_text()
    assert list_command.main(["--storage", url]) == 0
    assert show.main(where) == 0
    site = study_site(place_of("udf", storage=url, out=out))
    assert ask(site, site.page).status == 200
    names = [each["study_name"] for each in ask(site, "/api/studies").json()["study_summaries"]]
    assert "udf" in names
    found = [*capsys.readouterr(), *heard.told, *texts_in(out, url)]
    assert len(found) > 50
    for text in found:
        assert_no_password(text)


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
