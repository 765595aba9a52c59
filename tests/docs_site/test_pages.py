"""What the site makes of the pages of the repository, and of the code."""

import inspect
import re

import pytest

import tuner
from docs_site.pages import linked_files, with_site_links, with_site_lists
from docs_site.reference import GIVEN, registries_page
from tuner.plan.knobs import KNOBS
from tuner.plan.objectives import OBJECTIVES


@pytest.mark.parametrize(
    ("uri", "link", "there"),
    [
        ("index.md", "[x](docs/commands.md#limits)", "[x](commands.md#limits)"),
        ("index.md", "![x](docs/images/report.png)", "![x](images/report.png)"),
        ("index.md", "the [notebooks](notebooks) are", "the notebooks are"),
        ("index.md", "[x](#install)", "[x](#install)"),
        ("index.md", "[x](https://example.org/docs/)", "[x](https://example.org/docs/)"),
        ("commands.md", "[x](../README.md#workloads)", "[x](index.md#workloads)"),
        ("adr/0001-x.md", "[x](../../CONTRIBUTING.md)", "[x](../contributing.md)"),
        ("adr/0001-x.md", "[x](../concepts.md)", "[x](../concepts.md)"),
        ("commands.md", "[![x](images/report.png)](../LICENSE)",
         "[![x](images/report.png)](LICENSE)"),
        ("commands.md", "```\n[x](../README.md)\n```", "```\n[x](../README.md)\n```"),
    ],
)  # fmt: skip
def test_a_link_leads_to_where_its_file_is_in_the_site(uri: str, link: str, there: str) -> None:
    assert with_site_links(link, uri) == there


def test_files_that_are_no_pages_are_linked_where_they_are() -> None:
    found = linked_files()
    assert {"LICENSE", "studies/batch_updates.toml"} <= set(found)
    assert all(path.is_file() for path in found.values())


@pytest.mark.parametrize(
    ("github", "site"),
    [
        ("1. one\n   - inner\n     more\n2. two", "1. one\n    - inner\n     more\n2. two"),
        ("- one\n  - inner", "- one\n    - inner"),
        ("Said:\n- one\n- two", "Said:\n\n- one\n- two"),
        ("Said:\n1. one\n2. two", "Said:\n\n1. one\n2. two"),
        ("```\nsaid\n- one\n  - two\n```", "```\nsaid\n- one\n  - two\n```"),
        ("It took 3 s\n- 2 s", "It took 3 s\n\n- 2 s"),
    ],
)
def test_lists_are_what_github_makes_of_them(github: str, site: str) -> None:
    assert with_site_lists(github) == site


def test_what_a_public_function_gives_is_on_the_page() -> None:
    there = {path.rpartition(".")[2] for path in GIVEN}
    functions = [getattr(tuner, name) for name in tuner.__all__ if name.islower()]
    given = {
        name
        for function in functions
        for name in re.findall(r"\b[A-Z]\w+", str(inspect.signature(function).return_annotation))
    }
    assert given <= there | {"DataFrame", "TensorPipeRpcBackendOptions"}


def test_every_knob_and_objective_has_a_row_with_all_its_cells() -> None:
    rows = [line for line in registries_page().splitlines() if line.startswith("| `")]
    assert {line.split("`")[1] for line in rows} == {*KNOBS, *OBJECTIVES}
    assert {line.count(" | ") for line in rows} == {3, 4}
    assert not any("|  |" in line for line in rows)
