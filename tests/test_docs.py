"""The README and the docs say what there is."""

import re
from pathlib import Path
from typing import get_args

import pytest
import typer

import tuner
import tuner.commands
from testing.readme import FIRST_SEARCH, SHOWN
from testing.results import in_blocks, study_plan, study_result
from tuner.decide.verdict import VerdictKind
from tuner.plan.knobs import KNOBS
from tuner.present.tables import trials_of
from tuner.study.folder import StudyFolder
from tuner.world.measurement import FailureKind
from workloads.registry import SHIPPED

ROOT = Path(__file__).parents[1]
PAGES = [*sorted(ROOT.glob("*.md")), *sorted((ROOT / "docs").rglob("*.md"))]
README = (ROOT / "README.md").read_text()
ARCHITECTURE, COMMANDS, TROUBLESHOOTING = (
    (ROOT / "docs" / f"{name}.md").read_text()
    for name in ("architecture", "commands", "troubleshooting")
)
COMMAND_LINE = typer.main.get_group(tuner.commands.app)
RETIRED = re.compile(r"\bcores\b|\bat\s+once\b")
TWO_SCREENS = 60
"""Lines of text."""
MOST_WORDS = 27_000
"""What a person can read: all pages but the decisions, together."""


def test_every_flag_is_in_the_docs() -> None:
    for name in tuner.commands.SUMMARIES:
        section = COMMANDS.partition(f"\n## {name}\n")[2].partition("\n## ")[0]
        command = COMMAND_LINE.get_command(typer.Context(COMMAND_LINE), name)
        assert command is not None
        options = {option for param in command.params for option in param.opts} - {"--help"}
        flags = [option for option in options if option.startswith("--")]
        assert [flag for flag in flags if f"`{flag}" not in section] == []


SAID = {
    COMMANDS: [f"`{name}`" for name in KNOBS],
    README: [
        *(f"`{name}`" for name in (*SHIPPED, *get_args(VerdictKind))),
        *(f"{start}{name}" for name in tuner.commands.SUMMARIES
          for start in ("python -m tuner.", "rpc-tuner ")),
        *(f"tuner.{name}(" for name in tuner.__all__ if name.islower()),
    ],
    TROUBLESHOOTING: [
        f"\n**`{name}`.** " for name in tuner.__all__ if name.endswith("Warning")
    ],
}  # fmt: skip
"""What each page has to say."""


@pytest.mark.parametrize("page", SAID, ids=lambda page: page.split("\n")[0])
def test_every_knob_workload_verdict_command_function_and_warning_is_in_the_docs(page: str) -> None:
    assert [text for text in SAID[page] if text not in page] == []


def test_every_kind_of_failure_has_its_section() -> None:
    for kind in get_args(FailureKind):
        section = TROUBLESHOOTING.partition(f"\n### `{kind}`\n")[2].partition("\n### ")[0]
        assert len(section.split()) > 25, kind


def test_every_file_of_a_study_is_in_the_readme() -> None:
    it = StudyFolder(Path())
    for path in (
        it.database, it.trials_csv, it.recommended, it.answer, it.report, it.figures, it.artifacts,
        it.traces, it.failures, it.lock, it.manifest.path,
    ):  # fmt: skip
        assert re.search(rf"^\| `{re.escape(path.name)}/?` \|", README, re.MULTILINE), path


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


def test_the_pages_are_not_too_long_to_read() -> None:
    assert [page for page in PAGES if longest_part(page) > TWO_SCREENS] == []
    pages = [page for page in PAGES if page.parent.name != "adr"]
    assert sum(len(page.read_text().split()) for page in pages) <= MOST_WORDS
    assert len(README.split()) <= 1800


def named_paths(page: str) -> set[str]:
    """The folders and Python files that a page names, each with a slash or its suffix."""
    return set(re.findall(r"`([\w/]+(?:/|\.py))`", page))


def test_the_architecture_names_every_folder_and_what_is_there() -> None:
    modules = [path for top in ("tuner", "workloads") for path in (ROOT / top).rglob("*.py")]
    folders = {path.parent for path in modules if path.name != "__init__.py"}
    named = {name: (ROOT / name, ROOT / "tuner" / name) for name in named_paths(ARCHITECTURE)}
    assert folders <= {path for paths in named.values() for path in paths}
    assert [name for name, paths in named.items() if not any(map(Path.exists, paths))] == []


def test_the_first_search_shows_what_a_search_prints() -> None:
    """The answer, the headings of its table, what to paste, and how to see more."""
    found = SHOWN.search(FIRST_SEARCH.read_text())
    assert found
    first, *_, last = (line for line in found[2].splitlines() if line)
    assert re.match("(Use|Keep|A tie|Not decided)", first)
    assert last.endswith(" More: rpc-tuner show udf-400 --all")
    columns = trials_of(in_blocks(study_result(study_plan()))).columns
    shown = " ".join(found[2].split())
    assert all(each.short in shown for each in columns if each.short and each.of == "number")
    assert not re.search(RETIRED, shown)
