"""The report's page, as text; tests/browser looks at it in a browser."""

import re
from html.parser import HTMLParser

from tests.plan.specs import threads
from tests.present.results import failed, measured, study_result
from tuner.plan.study_plan import StudyPlan
from tuner.present.figures import DrawnFigure
from tuner.present.pages import prose, report_html
from tuner.present.study_result import StudyResult
from tuner.study.answer import StudyAnswer

MOST_BYTES = 3_000_000
NEVER_CLOSED = {"meta", "link", "br", "path", "use", "img"}


class Page(HTMLParser):
    """The text of a page by section, its ids and links; fails on tags that do not match."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.ids: list[str] = []
        self.links: list[str] = []
        self.open: list[tuple[str, str]] = []
        self.text: dict[str, str] = {}
        self.feed(html)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        found = dict(attrs)
        self.ids += [found["id"] or ""] if "id" in found else []
        self.links += [value or "" for key, value in attrs if key in ("href", "src", "xlink:href")]
        if tag not in NEVER_CLOSED:
            self.open.append((tag, found.get("id") or ""))

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.handle_starttag(tag, attrs)
        if tag not in NEVER_CLOSED:
            self.open.pop()

    def handle_endtag(self, tag: str) -> None:
        if tag not in NEVER_CLOSED:
            assert self.open.pop()[0] == tag

    def handle_data(self, data: str) -> None:
        for _, name in self.open:
            self.text[name] = self.text.get(name, "") + data


def page(answer: StudyAnswer) -> Page:
    """The page without figures, which take time to draw."""
    return Page(report_html(answer, []))


def said(text: str) -> str:
    return re.sub(r"\s+", " ", text)


def test_figures_stand_below_the_verdict_and_load_nothing(
    big: StudyAnswer, big_figures: list[DrawnFigure]
) -> None:
    html = report_html(big, big_figures)
    sections = list(Page(html).text)
    assert sections.index("verdict") < sections.index("figures")
    assert all(link.startswith(("#", "data:")) for link in Page(html).links)
    assert "@import" not in html
    assert not re.search(r"url\((?!#)", html)


def test_every_id_is_there_once_and_every_link_leads_to_one(
    big: StudyAnswer, big_figures: list[DrawnFigure]
) -> None:
    found = Page(report_html(big, big_figures))
    assert len(found.ids) == len(set(found.ids))
    for link in found.links:
        assert link.startswith("data:") or link[1:] in found.ids


def test_the_page_says_why_configs_failed_and_where_to_look(plan: StudyPlan) -> None:
    rows = (measured(0, threads(16), 3.0), failed(1, threads(1), "worker1: <stuck> & gone"))
    found = page(study_result(plan, rows=rows))
    failures = said(found.text["failures"])
    assert "num_worker_threads=1" in failures
    assert "crashed: worker1" in failures
    assert "worker1: <stuck> & gone" in failures
    assert "studies/udf/failures" in failures
    assert "failures" not in page(study_result(plan, rows=rows[:1])).text


def test_no_line_ends_inside_a_flag_or_a_percentage() -> None:
    assert prose("a larger --budget <b> 53 % (43-64 %), -1.5 % to +16.1 %; a--b") == (
        'a larger <span class="whole">--budget</span> &lt;b&gt; <span class="whole">53 %</span> '
        '(<span class="whole">43-64 %</span>), <span class="whole">-1.5 %</span> to '
        '<span class="whole">+16.1 %</span>; a--b'
    )


def test_the_subtitle_says_what_was_searched_for_unless_the_title_does(plan: StudyPlan) -> None:
    html = report_html(study_result(plan), [])
    assert '<p class="soft">2026-11-21, on 2 logical CPUs' in html
    named = plan.model_copy(update={"name": "first"})
    assert '<p class="soft">udf, 2026-11-21, on 2' in report_html(study_result(named), [])


def test_text_of_a_workload_is_escaped(plan: StudyPlan) -> None:
    spec = plan.subject.model_copy(update={"summary": "<script>alert(1)</script>"})
    html = report_html(study_result(plan.model_copy(update={"subject": spec})), [])
    assert "<script>alert(1)" not in html
    assert "&lt;script&gt;alert(1)" in html


def test_a_large_study_makes_a_page_of_less_than_three_megabytes(
    big: StudyAnswer, big_figures: list[DrawnFigure]
) -> None:
    assert len(big.rows) == 60
    assert len({seen.block for seen in big.observations}) == 40
    assert 100_000 < len(report_html(big, big_figures).encode()) < MOST_BYTES


def test_a_result_prints_as_its_verdict(plan: StudyPlan) -> None:
    result = StudyResult.of(study_result(plan))
    assert repr(result) == (
        "StudyResult(study='udf', verdict='better', best='num_worker_threads=4')"
    )
    assert str(result).startswith("Use num_worker_threads=4: 1.50 times as fast")
