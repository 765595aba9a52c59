"""The documentation site as a person sees it: wide and narrow, light and dark, by keyboard."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from docs_site.pages import ROOT
from testing.serving import served
from tests.browser.checks import assert_readable, unreachable_links
from tests.docs_site.building import build

pytestmark = [pytest.mark.browser, pytest.mark.thorough]

DOCS = ROOT / "docs"
PAGES = sorted(
    {"", "api/", "knobs-and-objectives/", "contributing/", "changelog/", "security-policy/"}
    | {f"{path.relative_to(DOCS).with_suffix('')}/" for path in DOCS.rglob("*.md")}
)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    folder: Path = tmp_path_factory.mktemp("site")
    build(folder)
    with served(folder) as address:
        yield address


@pytest.mark.parametrize("name", PAGES)
def test_nothing_is_wrong_with_a_page(page: Page, site: str, name: str) -> None:
    page.goto(f"{site}/{name}", wait_until="networkidle")
    assert page.locator("article h1").count() == 1
    assert_readable(page)


@pytest.mark.parametrize("name", ["", "concepts/", "your-own-program/", "commands/", "api/"])
def test_everything_can_be_reached_by_the_keyboard(page: Page, site: str, name: str) -> None:
    page.goto(f"{site}/{name}", wait_until="networkidle")
    assert unreachable_links(page) == []


def test_a_search_finds_the_section(page: Page, site: str) -> None:
    page.goto(f"{site}/", wait_until="networkidle")
    page.keyboard.press("/")
    page.keyboard.type("deadlocked")
    found = page.locator(".md-search-result__link", has_text="Troubleshooting").first
    expect(found).to_be_visible()
    found.click()
    expect(page).to_have_url(re.compile("/troubleshooting/"))
