"""What a release says of itself, quickly; `make dist` builds one."""

import re

import pytest

import tuner
from tests.release.metadata import (
    ROOT,
    VERSION,
    changed_versions,
    faults_of_tag,
    project,
)

CHANGELOG = (ROOT / "CHANGELOG.md").read_text()


def test_the_version_is_in_one_place() -> None:
    assert VERSION.fullmatch(tuner.__version__)
    document = project()
    assert document["project"]["dynamic"] == ["version", "readme", "urls"]
    assert document["tool"]["setuptools"]["dynamic"]["version"] == {"attr": "tuner.__version__"}
    places = [*ROOT.glob("*.cff"), *ROOT.glob("*.toml"), *(ROOT / "tuner").rglob("*.py")]
    said = re.compile(rf"^\W*_*version_*\W+{re.escape(tuner.__version__)}\b", re.MULTILINE)
    assert [path for path in places if said.search(path.read_text())] == [
        ROOT / "tuner" / "__init__.py"
    ]


def test_the_changes_are_listed_by_version() -> None:
    versions = changed_versions(CHANGELOG)
    assert versions
    assert all(VERSION.fullmatch(version) for version in versions)
    assert tuner.__version__ in versions


@pytest.mark.parametrize(
    ("tag", "changelog", "faults"),
    [
        (f"v{tuner.__version__}", f"## {tuner.__version__} (2026-11-23)\n", 0),
        (f"v{tuner.__version__}", f"## {tuner.__version__} (unreleased)\n", 1),
        ("v99.0.0", f"## 99.0.0 (2026-11-23)\n\n## {tuner.__version__} (2026-11-23)\n", 1),
        ("99.0.0", "", 2),
    ],
)
def test_a_tag_is_a_release_of_what_is_here(tag: str, changelog: str, faults: int) -> None:
    assert len(faults_of_tag(tag, changelog)) == faults


def test_what_a_source_release_needs_is_in_it() -> None:
    listed = (ROOT / "MANIFEST.in").read_text()
    for name in ("CHANGELOG.md", "CITATION.cff", "SECURITY.md", "constraints.txt", "mkdocs.yml"):
        assert (ROOT / name).is_file()
        assert name in listed
    for folder in re.findall(r"^graft (.*)$", listed, re.MULTILINE):
        assert (ROOT / folder).is_dir()
