"""The pages of the report as a person sees them: wide and narrow, light and dark, by keyboard."""

from collections.abc import Callable
from functools import cache
from pathlib import Path

import pytest
from playwright.sync_api import Page, ViewportSize, expect

from testing.fakes import FakeLauncher
from testing.results import nothing_ran, study_plan, study_result
from testing.specs import threads
from tests.browser.checks import PHONE, assert_readable, empty_figures, unreachable_links
from tests.commands.running import searched as one_study
from tests.present.grids import big_study, two_knobs
from tests.searching.tuning import failing, scaling
from tuner.api import SearchInterrupted
from tuner.present.study_files import write_comparison, write_study_report

pytestmark = pytest.mark.browser


def searched(folder: Path, interrupt_after: int | None = None) -> Path:
    """The report of a study with traces, in which one configuration deadlocks."""
    launcher = FakeLauncher(
        step_ms=scaling, sigma=0.02, fails=failing("deadlocked", 2), interrupt_after=interrupt_after
    )
    space = {"num_worker_threads": [2, 4, 8]}
    one_study("udf", launcher, out=str(folder), budget="60s", max_blocks=6, space=space)
    return folder / "report.html"


def interrupted(folder: Path) -> Path:
    with pytest.raises(SearchInterrupted):
        searched(folder, interrupt_after=12)
    return folder / "report.html"


def compared(folder: Path) -> Path:
    answers = [study_result(study_plan(name=name), folder / name) for name in ("here", "there")]
    return write_comparison(answers, folder / "comparison.html")


KINDS: dict[str, Callable[[Path], Path]] = {
    "a search": searched,
    "an interrupted search": interrupted,
    "two knobs": lambda folder: write_study_report(two_knobs(folder)),
    "60 configurations, 40 blocks": lambda folder: write_study_report(big_study(folder)),
    "the baseline kept": lambda folder: write_study_report(
        study_result(folder=folder, best=threads(16), verdict="keep-baseline")
    ),
    "nothing that ran": lambda folder: write_study_report(nothing_ran(folder)),
    "a comparison": compared,
}
Pages = Callable[[str], str]
SIZES = ("clientWidth", "scrollWidth")


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> Pages:
    """The address of a page by its kind; each is drawn when it is first asked for."""
    return cache(lambda kind: KINDS[kind](tmp_path_factory.mktemp("page")).as_uri())


@pytest.mark.parametrize(
    "kind", ["a search", *(pytest.param(kind, marks=pytest.mark.thorough) for kind in [*KINDS][1:])]
)
def test_nothing_is_wrong_with_a_page(page: Page, pages: Pages, kind: str) -> None:
    page.goto(pages(kind))
    assert_readable(page)
    page.locator("details").evaluate_all("all => all.forEach(each => { each.open = true; })")
    assert_readable(page)
    assert empty_figures(page) == []
    assert unreachable_links(page) == []


@pytest.mark.thorough
def test_a_search_has_every_figure_that_it_has_data_for(page: Page, pages: Pages) -> None:
    page.goto(pages("a search"))
    names = page.locator("figure").evaluate_all("figures => figures.map(each => each.id)")
    assert names == [
        f"figure-{name}"
        for name in ("step_time", "blocks", "latency", "cpu", "call_time", "parallelism",
                     "forecast", "timeline_baseline", "timeline_best")
    ]  # fmt: skip


@pytest.mark.thorough
def test_figures_can_be_read_on_a_phone(page: Page, pages: Pages) -> None:
    page.set_viewport_size(PHONE)
    for kind in ("a search", "two knobs", "a comparison"):
        page.goto(pages(kind))
        heights = page.locator("figure svg text").evaluate_all(
            "texts => texts.map(each => each.getBoundingClientRect().height)"
        )
        assert min(heights) >= 9  # pixels of a phone's screen


def test_the_lines_to_paste_are_copied_by_a_click(page: Page, pages: Pages) -> None:
    page.goto(pages("a search"))
    button = page.locator("button[data-copies=lines-to-paste]")
    button.click()
    expect(button).to_have_text("Copied")
    selected = page.evaluate("getSelection().toString()")
    assert "rpc_backend_options=options" in selected


def column(page: Page, heading: str) -> list[str]:
    """The cells of a column of the table of all configurations, from the top down."""
    headings = page.locator("#configs thead th").all_inner_texts()
    place = next(at for at, each in enumerate(headings) if each.strip().startswith(heading))
    return page.locator(f"#configs tbody td:nth-child({place + 1})").all_inner_texts()


@pytest.mark.thorough
def test_a_table_is_sorted_by_its_headings(page: Page, pages: Pages) -> None:
    page.goto(pages("60 configurations, 40 blocks"))
    before = column(page, "worlds")
    heading = page.locator("#configs th", has_text="worlds")
    heading.get_by_role("button").focus()
    page.keyboard.press("Enter")
    expect(heading).to_have_attribute("aria-sort", "ascending")
    numbers = [int(text) for text in column(page, "worlds")]
    assert numbers == sorted(map(int, before))
    assert len(set(numbers)) > 1
    page.keyboard.press("Enter")
    expect(heading).to_have_attribute("aria-sort", "descending")
    assert [int(text) for text in column(page, "worlds")] == numbers[::-1]
    page.locator("#configs th", has_text="outcome").get_by_role("button").click()
    expect(page.locator("[aria-sort]")).to_have_count(1)


def test_details_are_folded_until_they_are_asked_for(page: Page, pages: Pages) -> None:
    page.goto(pages("a search"))
    expect(page.locator("#failures")).to_be_hidden()
    page.get_by_role("heading", name="Failures").click()
    expect(page.locator("#failures")).to_contain_text("deadlocked: worker1 failed first")
    expect(page.locator("#failures")).to_be_visible()


@pytest.mark.parametrize("size", [{"width": 1280, "height": 800}, PHONE])
def test_the_first_screen_has_the_answer_and_the_figure(
    page: Page, pages: Pages, size: ViewportSize
) -> None:
    page.set_viewport_size(size)
    page.goto(pages("a search"))
    for part in (".verdict", "#verdict figure svg"):
        box = page.locator(part).bounding_box()
        assert box is not None
        assert box["y"] + box["height"] <= size["height"]


@pytest.mark.parametrize("kind", ["a search", "two knobs", "60 configurations, 40 blocks"])
def test_the_table_begins_with_the_objective_and_is_cut_nowhere(
    page: Page, pages: Pages, kind: str
) -> None:
    for width in (390, 768, 1280):
        page.set_viewport_size({"width": width, "height": 900})
        page.goto(pages(kind))
        first = page.locator("#configs thead th").first
        assert first.inner_text().startswith("median step time")
        cell = page.locator("#configs tbody td").first
        assert (cell.get_attribute("data-label") or "").startswith("median step time")
        # On a phone a cell is a line of its card, and the headings stand above all cards.
        most = width if width == PHONE["width"] else width / 2
        for box in (first.bounding_box(), cell.bounding_box()):
            assert box is not None
            assert box["x"] >= 0 and box["x"] + box["width"] <= most  # noqa: PT018
        for folded in page.locator("details").all():
            folded.evaluate("each => each.open = true")
        for wide in page.locator(".wide").all():
            shown, whole = (wide.evaluate(f"each => each.{name}") for name in SIZES)
            assert whole <= shown, f"cut at {width}: {whole} of {shown}"


def test_on_a_phone_each_value_stands_beside_its_heading(page: Page, pages: Pages) -> None:
    page.set_viewport_size(PHONE)
    page.goto(pages("a search"))
    headings = page.locator("#configs thead th").all_inner_texts()
    row = page.locator("#configs tbody tr").first.locator("td")
    labels = [each.get_attribute("data-label") for each in row.all()]
    assert [each.replace("\u200b", "") for each in headings] == labels
    shown = row.first.evaluate("each => getComputedStyle(each, '::before').content")
    assert shown == f'"{labels[0]}"'
    # The headings sort there, too.
    page.locator("#configs thead button").first.click()
    assert page.locator("#configs thead [aria-sort]").count() == 1
