"""A release tells the addresses of the repository that it is built in."""

import importlib.util
from types import ModuleType

import pytest

from tests.release.metadata import ROOT


@pytest.fixture
def setup_file(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """The module setup.py, in an environment where nobody says which repository it is."""
    for name in ("GITHUB_REPOSITORY", "GITHUB_SERVER_URL", "GITHUB_REF_NAME"):
        monkeypatch.delenv(name, raising=False)
    found = importlib.util.spec_from_file_location("project_setup", ROOT / "setup.py")
    assert found is not None
    assert found.loader is not None
    module = importlib.util.module_from_spec(found)
    found.loader.exec_module(module)
    return module


def test_a_build_of_a_clone_claims_no_address(setup_file: ModuleType) -> None:
    assert setup_file.repository() == ""
    assert setup_file.addresses("") == {}
    assert setup_file.description("[a](docs/a.md)", "") == "[a](docs/a.md)"


def test_a_build_of_the_workflow_has_those_of_its_repository(
    setup_file: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GITHUB_REPOSITORY", "someone/rpc-tuner")
    monkeypatch.setenv("GITHUB_REF_NAME", "v0.1.0")
    base = setup_file.repository()
    assert base == "https://github.com/someone/rpc-tuner"
    found = setup_file.addresses(base)
    assert found["Repository"] == base
    assert len(found) == 5
    assert all(each.startswith(base) for each in found.values())
    text = "![a](docs/images/a.png) [b](docs/b.md#c) [d](#e) [f](https://example.org/g)"
    assert setup_file.description(text, base) == (
        f"![a]({base}/raw/v0.1.0/docs/images/a.png) [b]({base}/blob/v0.1.0/docs/b.md#c) [d](#e) "
        "[f](https://example.org/g)"
    )


def test_no_link_of_the_readme_stays_relative(setup_file: ModuleType) -> None:
    text = setup_file.description((ROOT / "README.md").read_text(), "https://example.org/x")
    assert setup_file.RELATIVE.search(text) is None
