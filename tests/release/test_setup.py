"""A release tells the addresses of the repository that it is built in."""

import importlib.util
import re
from types import ModuleType

import pytest

from tests.release.metadata import ROOT


@pytest.fixture
def setup_file(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """The module setup.py, in an environment where nobody says which repository it is."""
    for name in ("RELEASED_FROM", "RELEASED_AS"):
        monkeypatch.delenv(name, raising=False)
    found = importlib.util.spec_from_file_location("project_setup", ROOT / "setup.py")
    assert found is not None
    assert found.loader is not None
    module = importlib.util.module_from_spec(found)
    found.loader.exec_module(module)
    return module


def test_a_build_of_a_clone_claims_no_address(setup_file: ModuleType) -> None:
    assert setup_file.REPOSITORY == ""
    assert setup_file.addresses("", "main") == {}
    assert setup_file.description("[a](docs/a.md)", "", "main") == "[a](docs/a.md)"


def test_a_release_has_those_of_its_repository(setup_file: ModuleType) -> None:
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


def test_the_workflow_of_a_release_says_where_it_is() -> None:
    workflow = (ROOT / ".github" / "workflows" / "release.yml").read_text()
    asked = re.findall(r'environ.get\("(\w+)"', (ROOT / "setup.py").read_text())
    assert len(asked) == 2
    for name in asked:
        assert re.search(rf"^ +{name}: \$\{{\{{ ", workflow, re.MULTILINE)


def test_no_link_of_the_readme_stays_relative(setup_file: ModuleType) -> None:
    assert setup_file.README == ROOT / "README.md"
    text = setup_file.description(setup_file.README.read_text(), "https://example.org/x", "main")
    assert text.count("](https://example.org/x/raw/main/docs/images/") == 1
    assert re.findall(r"\]\((?!https://|#)[^)]*\)|(?:src|href)=.", text) == []
