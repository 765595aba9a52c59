"""The README and the docs say what there is."""

import re
from pathlib import Path
from typing import get_args

import pytest
import typer

import tuner
import tuner.commands
from tests.present.results import in_blocks, study_plan, study_result
from tests.present.screen import Screen
from tests.readme import FIRST_SEARCH, SHOWN, WIDTH
from tuner.decide.rules import VerdictKind
from tuner.plan.knobs import KNOBS
from tuner.present.summary import trials_part
from tuner.present.tables import why_of
from tuner.present.terminal import print_parts
from tuner.study.folder import StudyFolder
from tuner.world.measurement import FailureKind
from workloads.registry import SHIPPED

ROOT = Path(__file__).parents[1]
PAGES = [
    ROOT / "README.md",
    ROOT / "CHANGELOG.md",
    ROOT / "CONTRIBUTING.md",
    ROOT / "SECURITY.md",
    *sorted((ROOT / "docs").rglob("*.md")),
]
README = (ROOT / "README.md").read_text()
ARCHITECTURE = (ROOT / "docs" / "architecture.md").read_text()
COMMANDS = (ROOT / "docs" / "commands.md").read_text()
COMMAND_LINE = typer.main.get_group(tuner.commands.app)
RETIRED = re.compile(r"\bcores\b|\bat\s+once\b")
TWO_SCREENS = 60
"""Lines of text."""
MOST_WORDS = 27_000
"""What a person can read: all pages but the decisions, together."""
TROUBLESHOOTING = (ROOT / "docs" / "troubleshooting.md").read_text()


def flags() -> list[tuple[str, str]]:
    found = []
    for name in tuner.commands.SUMMARIES:
        command = COMMAND_LINE.get_command(typer.Context(COMMAND_LINE), name)
        assert command is not None
        options = [option for each in command.params for option in each.opts]
        found += [(name, option) for option in options if option.startswith("--")]
    return [(name, option) for name, option in found if option != "--help"]


@pytest.mark.parametrize(("command", "flag"), flags())
def test_every_flag_is_in_the_docs(command: str, flag: str) -> None:
    section = COMMANDS.partition(f"\n## {command}\n")[2].partition("\n## ")[0]
    assert f"`{flag}" in section


@pytest.mark.parametrize("name", KNOBS)
def test_every_knob_is_in_the_docs(name: str) -> None:
    assert f"`{name}`" in COMMANDS


@pytest.mark.parametrize("name", [*SHIPPED, *get_args(VerdictKind)])
def test_every_workload_and_verdict_is_in_the_readme(name: str) -> None:
    assert f"`{name}`" in README


@pytest.mark.parametrize("name", tuner.commands.SUMMARIES)
def test_every_command_is_in_the_readme(name: str) -> None:
    assert f"python -m tuner.{name}" in README
    assert f"rpc-tuner {name}" in README


@pytest.mark.parametrize("name", [name for name in tuner.__all__ if name.islower()])
def test_every_function_is_in_the_readme(name: str) -> None:
    assert f"tuner.{name}(" in README


@pytest.mark.parametrize("name", [name for name in tuner.__all__ if name.endswith("Warning")])
def test_every_warning_is_explained(name: str) -> None:
    assert f"\n**`{name}`.** " in TROUBLESHOOTING


@pytest.mark.parametrize("kind", get_args(FailureKind))
def test_every_kind_of_failure_has_its_section(kind: str) -> None:
    section = TROUBLESHOOTING.partition(f"\n### `{kind}`\n")[2].partition("\n### ")[0]
    assert len(section.split()) > 25


def test_every_file_of_a_study_is_in_the_readme() -> None:
    folder = StudyFolder(Path())
    for path in (
        folder.database, folder.trials_csv, folder.recommended, folder.answer, folder.report,
        folder.figures, folder.artifacts, folder.traces, folder.failures, folder.lock,
        folder.manifest.path,
    ):  # fmt: skip
        assert re.search(rf"^\| `{re.escape(path.name)}/?` \|", README, re.MULTILINE), path


def test_every_shipped_workload_has_a_plan() -> None:
    plans, programs = ({path.stem for path in (ROOT / "studies").glob(f"*.{end}")}
                       for end in ("toml", "py"))  # fmt: skip
    assert plans - programs == set(SHIPPED)
    assert programs < plans


def anchors(page: Path) -> set[str]:
    """The anchors of a page's headings, as GitHub makes them."""
    headings = re.findall(r"^#+ (.*)$", page.read_text(), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def links(page: Path) -> list[str]:
    """The targets of a page's links and pictures, code left out."""
    text = re.sub(r"```.*?```", "", page.read_text(), flags=re.DOTALL)
    return re.findall(r"\]\(([^)\s]+)\)", text)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_somewhere(page: Path) -> None:
    for target in links(page):
        if target.startswith("https://"):
            continue
        name, _, anchor = target.partition("#")
        there = (page.parent / name).resolve() if name else page
        assert there.exists(), target
        assert there.is_relative_to(ROOT), target
        if anchor:
            assert anchor in anchors(there), target


def test_every_page_can_be_reached_from_the_readme() -> None:
    reached, ahead = set(), [ROOT / "README.md"]
    while ahead:
        page = ahead.pop()
        if page not in reached:
            reached.add(page)
            found = [(page.parent / t.partition("#")[0]).resolve() for t in links(page)]
            ahead += [path for path in found if path.suffix == ".md"]
    assert set(PAGES) <= reached


def longest_part(page: Path) -> int:
    """The most lines of text and rows from a heading to the next one; code is no text."""
    text = re.sub(r"^```.*?^```", "", page.read_text(), flags=re.DOTALL | re.MULTILINE)
    parts = re.split(r"^#+ ", text, flags=re.MULTILINE)
    return max(len([line for line in part.splitlines() if line.strip()]) for part in parts)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_no_part_of_a_page_is_longer_than_two_screens(page: Path) -> None:
    assert longest_part(page) <= TWO_SCREENS


def test_the_pages_are_not_too_long_to_read() -> None:
    pages = [page for page in PAGES if page.parent.name != "adr"]
    assert sum(len(page.read_text().split()) for page in pages) <= MOST_WORDS
    assert len(README.split()) <= 1800


@pytest.mark.parametrize("page", sorted((ROOT / "docs").rglob("*.md")), ids=lambda page: page.name)
def test_every_page_is_in_the_navigation_of_the_site(page: Path) -> None:
    """Another page is a line below `nav:` in mkdocs.yml."""
    navigation = (ROOT / "mkdocs.yml").read_text().partition("\nnav:\n")[2].partition("\n\n")[0]
    assert re.search(
        rf" {re.escape(page.relative_to(ROOT / 'docs').as_posix())}$", navigation, re.MULTILINE
    )


def named_paths(page: str) -> set[str]:
    """The folders and Python files that a page names, each with a slash or its suffix."""
    return set(re.findall(r"`([\w/]+(?:/|\.py))`", page))


def test_the_architecture_names_every_folder() -> None:
    modules = [path for top in ("tuner", "workloads") for path in (ROOT / top).rglob("*.py")]
    folders = {path.parent for path in modules if path.name != "__init__.py"}
    named = named_paths(ARCHITECTURE)
    assert folders <= {top / name for name in named for top in (ROOT, ROOT / "tuner")}


@pytest.mark.parametrize("name", sorted(named_paths(ARCHITECTURE)))
def test_what_the_architecture_names_is_there(name: str) -> None:
    assert (ROOT / "tuner" / name).exists() or (ROOT / name).exists()


def test_the_first_search_shows_what_a_search_prints() -> None:
    """Its headings, and the names of the facts below, wherever the lines are broken."""
    found = SHOWN.search(FIRST_SEARCH.read_text())
    assert found
    page = " ".join(found[2].split())
    answer, screen = in_blocks(study_result(study_plan())), Screen(width=WIDTH)
    print_parts([trials_part(answer)], screen.console)
    lines = [" ".join(line.split()) for line in screen.lines if line.strip()]
    for line in lines[: next(number for number, line in enumerate(lines) if "─" in line)]:
        assert line in page
    why = why_of(answer)
    assert why is not None
    assert all(word in page for name, *_ in why.rows for word in name.split())
    assert not re.search(RETIRED, page)
    assert re.search(r"\d+ worlds, \d+ of them in \d+ blocks, in \S+, on \d+ logical CPUs? ", page)
