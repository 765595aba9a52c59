"""The site builds strictly, has every page, and fails where a page is wrong."""

import json
import re
from pathlib import Path

import pytest

import tuner
from docs_site.reference import GIVEN, PUBLIC
from tests.docs_site.building import build
from tuner.recommended.model import json_schema

pytestmark = pytest.mark.thorough


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("site")
    build(folder)
    return folder


def test_every_public_name_is_on_its_page(site: Path) -> None:
    page = (site / "api" / "index.html").read_text()
    names = [name for names in PUBLIC.values() for name in names]
    assert sorted(names) == sorted(tuner.__all__)
    for name in (*(path.rpartition(".")[2] for path in GIVEN), *names):
        assert re.search(rf'<h3 id="[\w.]+\.{name}"', page), name


def test_the_schema_of_a_recommendation_is_there(site: Path) -> None:
    assert json.loads((site / "recommended.schema.json").read_text()) == json_schema()


def test_arguments_results_and_errors_are_told(site: Path) -> None:
    page = (site / "api" / "index.html").read_text()
    section = page.partition('id="tuner.tune"')[2].partition("<h3")[0]
    assert all(f">{title}:<" in section for title in ("Parameters", "Returns", "Raises"))
    assert ">workload<" in section
