"""The report's page, as text; tests/browser looks at it in a browser."""

import re
from html.parser import HTMLParser

from testing.results import study_result
from tuner.present.figures import DrawnFigure
from tuner.present.pages import prose, report_html
from tuner.present.study_result import StudyResult
from tuner.study.answer import StudyAnswer

MOST_BYTES = 3_000_000
NEVER_CLOSED = {"meta", "link", "br", "path", "use", "wbr", "img"}


class Page(HTMLParser):
    """The ids and links of a page; fails on tags that do not match."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.ids: list[str] = []
        self.links: list[str] = []
        self.open: list[str] = []
        self.feed(html)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.ids += [value or "" for key, value in attrs if key == "id"]
        self.links += [value or "" for key, value in attrs if key in ("href", "src", "xlink:href")]
        self.open += [tag] * (tag not in NEVER_CLOSED)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.handle_starttag(tag, attrs)
        self.handle_endtag(tag)

    def handle_endtag(self, tag: str) -> None:
        assert tag in NEVER_CLOSED or self.open.pop() == tag


def test_a_large_page_is_small_loads_nothing_and_its_links_lead_somewhere(
    big: StudyAnswer, big_figures: list[DrawnFigure]
) -> None:
    html = report_html(big, big_figures)
    found = Page(html)
    assert len(found.ids) == len(set(found.ids))
    assert found.ids.index("verdict") < found.ids.index("figures")
    assert all(link.startswith("data:") or link[1:] in found.ids for link in found.links)
    assert "@import" not in html
    assert not re.search(r"url\((?!#)", html)
    assert (len(big.rows), len({seen.block for seen in big.observations})) == (60, 40)
    assert 100_000 < len(html.encode()) < MOST_BYTES


def test_no_line_ends_inside_a_flag_or_a_percentage() -> None:
    assert prose("a larger --budget <b> 53 % (43-64 %), -1.5 % to +16.1 %; a--b") == (
        'a larger <span class="whole">--budget</span> &lt;b&gt; <span class="whole">53 %</span> '
        '(<span class="whole">43-64 %</span>), <span class="whole">-1.5 %</span> to '
        '<span class="whole">+16.1 %</span>; a--b'
    )


def test_a_result_prints_as_its_verdict() -> None:
    result = StudyResult.of(study_result())
    assert repr(result) == (
        "StudyResult(study='udf', verdict='better', best='num_worker_threads=4')"
    )
    assert str(result).startswith("Use num_worker_threads=4: 1.50 times as fast")
