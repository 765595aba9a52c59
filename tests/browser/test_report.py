"""The pages of the report as a person sees them: wide and narrow, light and dark, by keyboard."""

from collections.abc import Callable
from pathlib import Path
from typing import Literal

import pytest
from playwright.sync_api import Page, expect

from tests.browser.axe import serious_findings
from tests.browser.checks import (
    assert_no_horizontal_scroll,
    empty_figures,
    low_contrast_texts,
    unreachable_links,
)
from tests.fakes import FakeLauncher, threads_of
from tests.plan.specs import threads
from tests.present.grids import big_study, two_knobs
from tests.present.results import nothing_ran, study_plan, study_result
from tuner.api import SearchInterrupted, tune
from tuner.plan.config import Config
from tuner.present.study_files import write_comparison, write_study_report

pytestmark = pytest.mark.browser

SCHEMES: tuple[Literal["light", "dark"], ...] = ("light", "dark")


def speed(config: Config) -> float:
    return 16.0 / min(8, threads_of(config))


def searched(folder: Path, interrupt_after: int | None = None) -> Path:
    """The report of a study with traces, in which one configuration deadlocks."""
    launcher = FakeLauncher(
        step_ms=speed,
        sigma=0.02,
        fails=lambda config, world: "deadlocked" if threads_of(config) == 2 else None,
        interrupt_after=interrupt_after,
    )
    tune(
        "udf", launcher=launcher, clock=launcher.clock, out=str(folder), budget="60s", max_blocks=6,
        space={"num_worker_threads": [2, 4, 8]}, baseline={"num_worker_threads": 1},
    )  # fmt: skip
    return folder / "report.html"


def interrupted(folder: Path) -> Path:
    with pytest.raises(SearchInterrupted):
        searched(folder, interrupt_after=12)
    return folder / "report.html"


def compared(folder: Path) -> Path:
    answers = [study_result(study_plan(name=name), folder / name) for name in ("here", "there")]
    return write_comparison(answers, folder / "comparison.html")


class Pages(dict[str, Path]):
    """Every kind of page, by what it is of; each is drawn when it is first asked for."""

    def __init__(self, folder: Path) -> None:
        kept = {"best": threads(16), "verdict": "keep-baseline"}
        self._drawn: dict[str, Callable[[], Path]] = {
            "a search": lambda: searched(folder / "search"),
            "an interrupted search": lambda: interrupted(folder / "interrupted"),
            "two knobs": lambda: write_study_report(two_knobs(folder / "two")),
            "60 configurations, 40 blocks": lambda: write_study_report(big_study(folder / "big")),
            "the baseline kept": lambda: write_study_report(
                study_result(study_plan(), folder / "kept", **kept)
            ),
            "nothing that ran": lambda: write_study_report(
                nothing_ran(study_plan(), folder / "nothing")
            ),
            "a comparison": lambda: compared(folder),
        }

    def __missing__(self, kind: str) -> Path:
        self[kind] = self._drawn[kind]()
        return self[kind]


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> Pages:
    return Pages(tmp_path_factory.mktemp("pages"))


OTHERS = ("an interrupted search", "two knobs", "60 configurations, 40 blocks",
          "the baseline kept", "nothing that ran", "a comparison")  # fmt: skip


@pytest.mark.parametrize(
    "kind", ["a search", *(pytest.param(each, marks=pytest.mark.thorough) for each in OTHERS)]
)
def test_nothing_is_wrong_with_a_page(page: Page, pages: Pages, kind: str) -> None:
    page.goto(pages[kind].as_uri())
    for scheme in SCHEMES:
        page.emulate_media(color_scheme=scheme)
        assert low_contrast_texts(page) == []
    assert_no_horizontal_scroll(page)
    assert empty_figures(page) == []
    assert unreachable_links(page) == []
    assert serious_findings(page) == []


@pytest.mark.thorough
def test_a_search_has_every_figure_that_it_has_data_for(page: Page, pages: Pages) -> None:
    page.goto(pages["a search"].as_uri())
    names = page.locator("figure").evaluate_all("figures => figures.map(each => each.id)")
    assert names == [
        f"figure-{name}"
        for name in ("step_time", "blocks", "latency", "cpu", "call_time", "parallelism",
                     "timeline_baseline", "timeline_best")
    ]  # fmt: skip
    page.goto(pages["two knobs"].as_uri())
    expect(page.locator("#figure-heat_map svg")).to_be_visible()
    page.goto(pages["60 configurations, 40 blocks"].as_uri())
    expect(page.locator("#figure-importance svg")).to_be_visible()


@pytest.mark.thorough
def test_figures_can_be_read_on_a_phone(page: Page, pages: Pages) -> None:
    page.set_viewport_size({"width": 390, "height": 844})
    for kind in ("a search", "two knobs", "a comparison"):
        page.goto(pages[kind].as_uri())
        heights = page.locator("figure svg text").evaluate_all(
            "texts => texts.map(each => each.getBoundingClientRect().height)"
        )
        assert min(heights) >= 9  # pixels of a phone's screen


def test_the_lines_to_paste_are_copied_by_a_click(page: Page, pages: Pages) -> None:
    page.goto(pages["a search"].as_uri())
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
    page.goto(pages["60 configurations, 40 blocks"].as_uri())
    before = column(page, "worlds")
    heading = page.locator("#configs th", has_text="worlds")
    button = heading.get_by_role("button")
    button.focus()
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


def test_links_lead_to_the_sections(page: Page, pages: Pages) -> None:
    page.goto(pages["a search"].as_uri())
    page.get_by_role("link", name="Failures").click()
    expect(page.locator("#failures h2")).to_be_in_viewport()
    expect(page.get_by_text("deadlocked: worker1 failed first")).to_be_visible()


@pytest.mark.thorough
def test_an_interrupted_search_begins_with_that_fact(page: Page, pages: Pages) -> None:
    page.goto(pages["an interrupted search"].as_uri())
    expect(page.locator(".verdict")).to_contain_text("there is no verdict yet")
    assert page.locator("#lines-to-paste").count() == 0
