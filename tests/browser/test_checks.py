"""Every check finds the fault that it is for, and nothing wrong with a good page."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Page

from tests.browser.checks import (
    assert_no_horizontal_scroll,
    empty_figures,
    low_contrast_texts,
    unreachable_links,
)
from tests.browser.chromium import chromium
from tests.browser.serving import served
from tests.browser.watching import PageWatch, stays_home

pytestmark = pytest.mark.browser

PIXEL = (
    "data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGA"
    "WjR9awAAAABJRU5ErkJggg=="
)
SVG = "<svg width='200' height='60' viewBox='0 0 200 60'>{}</svg>"


def show(page: Page, body: str, style: str = "") -> None:
    page.set_content(
        "<!doctype html><html lang='en'><head><title>A page</title>"
        "<meta name='viewport' content='width=device-width'>"
        f"<style>{style}</style></head><body>{body}</body></html>"
    )


@pytest.mark.parametrize(
    "body",
    [
        "<p style='color: #767676'>just enough on white</p>",
        "<p style='background: #222; color: #eee'>light on dark</p>",
        "<div style='background: black'><p style='color: white'>over an ancestor</p></div>",
        "<p style='background: rgb(0 0 0 / 60%); color: white'>over what shines through</p>",
        "<p style='background: linear-gradient(#000, #333); color: white'>over a gradient</p>",
        "<p style='color: #ddd; display: none'>not shown</p>",
        "<details><summary>more</summary><p style='color: #ddd'>folded away</p></details>",
        "<script>const pale = 'text of a script'</script>",
        SVG.format("<rect width='200' height='60'/><text y='40' fill='#fff'>on a shape</text>"),
        SVG.format("<title>pale</title><text y='40' fill='#333'>on the page</text>"),
        SVG.format(
            "<g style='pointer-events: none'><rect width='200' height='60' fill='#111'/>"
            "<text y='40' fill='#eee'>not for the pointer</text></g>"
        ),
        "<div style='height: 3000px'></div><p style='background: #000; color: #fff'>far below</p>",
        "<div style='overflow: auto; width: 100px; height: 50px'><div style='height: 500px'></div>"
        "<p style='background: #000; color: #fff'>in a box that scrolls</p></div>",
    ],
)
def test_texts_that_can_be_read_pass(page: Page, body: str) -> None:
    show(page, body)
    assert low_contrast_texts(page) == []


@pytest.mark.parametrize(
    ("body", "contrast"),
    [
        ("<p style='color: #777'>not quite enough on white</p>", "4.48"),
        ("<p style='font-size: 40px; color: #999'>large</p>", "2.85"),
        ("<p style='color: #000; opacity: 0.3'>faded</p>", "2.11"),
        ("<p style='color: rgb(0 0 0 / 30%)'>shines through</p>", "2.12"),
        ("<div style='background: #333'><p style='color: #666'>on grey</p></div>", "2.20"),
        ("<p style='background: linear-gradient(#fff, #000); color: white'>fades</p>", "1.00"),
        ("<p style='color: oklch(80% 0 0)'>modern</p>", "1.86"),
        (SVG.format("<text y='40' fill='#aaa'>pale</text>"), "2.32"),
        (SVG.format("<text y='40' fill-opacity='0.3'>faded fill</text>"), "2.11"),
        (SVG.format("<rect width='200' height='60'/><text y='40'>black on black</text>"), "1.00"),
        (SVG.format("<rect width='200' height='60' fill='#444' pointer-events='none'/>"
                    "<text y='40' fill='#555' pointer-events='none'>hidden</text>"), "1.31"),
        (SVG.format("<line y1='30' x2='200' y2='30' stroke='#999' stroke-width='60'/>"
                    "<text y='40' fill='#fff'>on a broad line</text>"), "2.85"),
        ("<div style='height: 3000px'></div><p style='color: #ccc'>far below</p>", "1.61"),
    ],
)  # fmt: skip
def test_texts_that_are_hard_to_read_are_found(page: Page, body: str, contrast: str) -> None:
    show(page, f"<h1>A heading</h1>{body}")
    (found,) = low_contrast_texts(page)
    assert found.startswith(f"{contrast}: ")


def test_only_some_words_of_a_sentence_may_be_pale(page: Page) -> None:
    show(page, "<p>dark <span style='color: #ccc'>pale</span> dark</p>")
    assert low_contrast_texts(page) == ['1.61: span "pale"']


def test_a_page_has_a_dark_side_of_its_own(page: Page) -> None:
    style = (
        ":root { color-scheme: light dark } p { color: #222 }"
        "@media (prefers-color-scheme: dark) { .both { color: #ddd } }"
    )
    show(page, "<p class='both'>both</p><p>light only</p>", style)
    page.emulate_media(color_scheme="light")
    assert low_contrast_texts(page) == []
    page.emulate_media(color_scheme="dark")
    (found,) = low_contrast_texts(page)
    assert found.endswith('p "light only"')


def test_a_page_that_fits_does_not_scroll(page: Page) -> None:
    show(page, "<p>text that is folded " * 20 + "<div style='overflow-x: auto'>"
         "<div style='width: 900px'>a wide table, in a box</div></div>")  # fmt: skip
    before = page.viewport_size
    assert_no_horizontal_scroll(page)
    assert page.viewport_size == before


@pytest.mark.parametrize(
    "body",
    [
        "<div id='culprit' style='width: 500px'>wide</div>",
        "<p id='culprit'>" + "x" * 200 + "</p>",
        "<img id='culprit' alt='' width='400' src='" + PIXEL + "'>",
    ],
)
def test_a_page_that_is_too_wide_is_found(page: Page, body: str) -> None:
    show(page, body)
    with pytest.raises(AssertionError, match=r"the page is \d+ px wide"):
        assert_no_horizontal_scroll(page)
    assert_no_horizontal_scroll(page, width=2000)


def test_what_the_keyboard_comes_to_is_reached(page: Page) -> None:
    show(
        page,
        "<a href='#a'>one</a> <button>two</button> <button disabled>off</button>"
        "<details><summary>three</summary><a href='#b'>folded away</a></details>"
        "<div style='height: 3000px'></div><a id='a' href='#c'>four</a><a>no link</a>"
        + SVG.format("<a href='#d'><text y='40'>five</text></a>"),
    )
    assert unreachable_links(page) == []


@pytest.mark.parametrize(
    "fault",
    [
        "<a href='#a' tabindex='-1'>two</a>",
        "<button tabindex='-1'>two</button>",
        "<div inert><a href='#a'>two</a></div>",
        SVG.format("<a href='#d' tabindex='-1'><text y='40'>two</text></a>"),
    ],
)
def test_what_the_keyboard_cannot_come_to_is_found(page: Page, fault: str) -> None:
    show(page, f"<a href='#a'>one</a>{fault}<a href='#b'>three</a>")
    (found,) = unreachable_links(page)
    assert found.endswith('"two"')


def test_what_follows_a_trap_is_found(page: Page) -> None:
    trap = "onkeydown=\"if (event.key === 'Tab') event.preventDefault()\""
    show(page, f"<a href='#a'>one</a><button {trap}>trap</button><a href='#b'>behind it</a>")
    assert unreachable_links(page) == ['a "behind it"']


def test_figures_that_show_something_pass(page: Page) -> None:
    show(
        page,
        f"<figure><img alt='' width='20' height='20' src='{PIXEL}'></figure>"
        "<figure>" + SVG.format("<line x2='100' y2='0' stroke='black'/>") + "</figure>"
        + SVG.format("<defs><path id='p' d='M0 0h9v9'/></defs><use href='#p'/>")
        + "<details><figure></figure></details>",
    )  # fmt: skip
    assert empty_figures(page) == []


@pytest.mark.parametrize(
    ("body", "fault"),
    [
        ("<figure><p>no picture</p></figure>", "holds no picture"),
        (SVG.format(""), "has no marks"),
        (SVG.format("<defs><path d='M0 0h9v9'/></defs>"), "has no marks"),
        (SVG.format("<path d=''/>"), "has no marks"),
        (SVG.format("<g visibility='hidden'><text y='40'>unseen</text></g>"), "has no marks"),
        ("<svg width='0' height='9'><text y='9'>flat</text></svg>", "has no size"),
        (f"<img alt='' style='visibility: hidden' src='{PIXEL}'>", "is not visible"),
        (f"<img alt='' style='display: none' src='{PIXEL}'>", "is not visible"),
        ("<img alt='' width='9' height='9' src='data:image/png;base64,AAAA'>", "shows no image"),
    ],
)
def test_figures_that_show_nothing_are_found(page: Page, body: str, fault: str) -> None:
    show(page, body)
    (found,) = empty_figures(page)
    assert found.endswith(fault)


@pytest.mark.parametrize(
    ("url", "home"),
    [
        ("file:///tmp/report.html", True),
        ("http://127.0.0.1:8080/dashboard", True),
        ("http://[::1]:8080/", True),
        ("http://localhost/", True),
        ("data:image/png;base64,AAAA", True),
        ("blob:http://127.0.0.1/1", True),
        ("https://example.org/font.woff2", False),
        ("http://127.0.0.1.example.org/", False),
        ("ws://192.0.2.7/", False),
    ],
)
def test_where_requests_may_go(url: str, home: bool) -> None:
    assert stays_home(url) == home


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Callable[[str], str]]:
    """Serves a page on the loopback; returns its address."""

    with served(tmp_path) as address:

        def serve(body: str) -> str:
            (tmp_path / "page.html").write_text(
                f"<!doctype html><title>A page</title><link rel='icon' href='data:,'>{body}"
            )
            return f"{address}/page.html"

        yield serve


def test_without_a_browser_the_tests_fail(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CHROMIUM", raising=False)
    monkeypatch.setenv("PATH", "/nowhere")
    with pytest.raises(RuntimeError, match="needs Chromium: apt-get install chromium"):
        chromium()
    monkeypatch.setenv("CHROMIUM", "/somewhere/chromium")
    assert chromium() == "/somewhere/chromium"


def test_a_quiet_page_is_no_trouble(page_watch: PageWatch, site: Callable[[str], str]) -> None:
    page_watch.page.goto(site("<p>well</p><script>console.warn('only a warning')</script>"))
    page_watch.assert_no_trouble()


@pytest.mark.parametrize(
    ("body", "trouble"),
    [
        ("<script>console.error('oh no')</script>", "console error: oh no"),
        ("<script>throw new Error('oh no')</script>", "uncaught error: oh no"),
        ("<script>Promise.reject(new Error('later'))</script>", "uncaught error: later"),
        ("<img src='absent.png'>", "failed request: http://127.0.0.1:"),
        ("<img src='http://127.0.0.1:9/refused.png'>", "failed request: http://127.0.0.1:9/"),
        ("<img src='http://leaves.invalid/x.png'>",
         "request leaves this machine: http://leaves.invalid/x.png"),
    ],
)  # fmt: skip
def test_troubles_are_noted(
    page_watch: PageWatch, site: Callable[[str], str], body: str, trouble: str
) -> None:
    page_watch.page.goto(site(body), wait_until="networkidle")
    assert any(each.startswith(trouble) for each in page_watch.troubles), page_watch.troubles
    with pytest.raises(AssertionError):
        page_watch.assert_no_trouble()
