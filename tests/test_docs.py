"""The README and the docs say what there is."""

import re
from pathlib import Path

import pytest

import tuner.__main__
from tuner.plan.knobs import KNOBS
from tuner.search import app
from workloads.registry import SHIPPED

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", ROOT / "CHANGELOG.md", *sorted((ROOT / "docs").rglob("*.md"))]
README = (ROOT / "README.md").read_text()


def flags() -> list[str]:
    import typer

    command = typer.main.get_command(app)
    return [name for parameter in command.params for name in parameter.opts if name != "--help"]


@pytest.mark.parametrize("flag", flags())
def test_every_flag_is_in_the_readme(flag: str) -> None:
    assert f"`{flag}" in README


@pytest.mark.parametrize("name", [*KNOBS, *SHIPPED])
def test_every_knob_and_workload_is_in_the_readme(name: str) -> None:
    assert f"`{name}`" in README


@pytest.mark.parametrize("name", tuner.__main__.COMMANDS)
def test_every_command_is_in_the_readme(name: str) -> None:
    assert f"python -m tuner.{name}" in README
    assert f"rpc-tuner {name}" in README


def test_every_shipped_workload_has_a_plan() -> None:
    assert {path.stem for path in (ROOT / "studies").glob("*.toml")} == set(SHIPPED)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_somewhere(page: Path) -> None:
    for target in re.findall(r"\]\(([^)#]+)[^)]*\)", page.read_text()):
        if not target.startswith("https://"):
            assert (page.parent / target).exists(), target


def test_the_readme_shows_real_output() -> None:
    assert "@@" not in README
    assert "worlds," in README
