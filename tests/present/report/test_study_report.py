"""The report's page, as text; tests/browser looks at it in a browser."""

import re
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

from tests.plan.specs import threads
from tests.present.results import FASTER, failed, measured, nothing_ran, study_result
from tuner.plan.study_plan import StudyPlan
from tuner.present.figures import DrawnFigure
from tuner.present.report.pages import prose
from tuner.present.report.study_report import notebook_html, report_html, write_report
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


def test_it_opens_with_the_verdict_and_the_lines_to_paste(plan: StudyPlan) -> None:
    found = page(study_result(plan))
    verdict = said(found.text["verdict"])
    assert verdict.startswith(" Use num_worker_threads=4: 1.50 times as fast as the baseline")
    assert "options = rpc.TensorPipeRpcBackendOptions(num_worker_threads=4)" in verdict


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


def test_the_table_has_every_config_and_marks_the_best(plan: StudyPlan) -> None:
    found = page(study_result(plan))
    config = said(found.text["configs"])
    for cell in ("num_worker_threads", "median step time (ms)", "1.9-2.1", "best, ", "3.5/4"):
        assert cell.removesuffix(", ") in config
    assert "eliminated" in config
    assert "crashed" in config


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


def test_the_page_has_the_command_of_the_search(plan: StudyPlan) -> None:
    found = page(study_result(plan))
    assert "python -m tuner.search --workload udf " in found.text["search-command"]


def test_the_subtitle_says_what_was_searched_for_unless_the_title_does(plan: StudyPlan) -> None:
    html = report_html(study_result(plan), [])
    assert '<p class="soft">2026-11-21, on 2 logical CPUs' in html
    named = plan.model_copy(update={"name": "first"})
    assert '<p class="soft">udf, 2026-11-21, on 2' in report_html(study_result(named), [])


def test_the_page_has_the_environment_and_the_method(plan: StudyPlan) -> None:
    found = page(study_result(plan))
    environment, method = said(found.text["environment"]), said(found.text["method"])
    for fact in (
        "Abacus 9000, 2 logical CPUs",
        "7.7 GB",
        "2.13.0",
        "calls=4",
        "2026-11-21 09:30 UTC",
    ):
        assert fact in environment
    for fact in (
        "60 worlds, 20 of them in 12 blocks, in 42s of 1m",
        "3 %",
        "95 %",
        "num_worker_threads=16",
        "tracing off",
    ):
        assert fact in method


def test_an_interrupted_study_is_no_answer(plan: StudyPlan) -> None:
    result = study_result(
        plan, interrupted=True, best=None, verdict=None, speedup=None, challenger=None,
        challenger_speedup=None,
    )  # fmt: skip
    verdict = said(page(result).text["verdict"])
    assert "Not finished, after 12 blocks: there is no verdict yet." in verdict
    assert "So far num_worker_threads=4 is ahead, with 2 ms in 5 worlds." in verdict
    assert "import torch" not in verdict
    assert "To continue measuring: Copy python -m tuner.search --resume --study udf" in verdict


def test_a_study_in_which_nothing_ran_has_a_page(plan: StudyPlan) -> None:
    found = page(nothing_ran(plan))
    assert "No configuration of the search space could run" in found.text["verdict"]
    assert "figures" not in found.text


def test_text_of_a_workload_is_escaped(plan: StudyPlan) -> None:
    spec = plan.subject.model_copy(update={"summary": "<script>alert(1)</script>"})
    html = report_html(study_result(plan.model_copy(update={"subject": spec})), [])
    assert "<script>alert(1)" not in html
    assert "&lt;script&gt;alert(1)" in html


def test_a_large_study_makes_a_page_of_less_than_three_megabytes(
    big: StudyAnswer, big_figures: list[DrawnFigure], tmp_path: Path
) -> None:
    assert len(big.rows) == 60
    assert len({seen.block for seen in big.observations}) == 40
    path = tmp_path / "report.html"
    write_report(big, big_figures, path)
    assert 100_000 < path.stat().st_size < MOST_BYTES


def test_a_notebook_shows_the_verdict_the_table_and_the_lines(plan: StudyPlan) -> None:
    result = StudyResult(study_result(plan))
    html = result._repr_html_()
    assert html == notebook_html(result.answer)
    for text in ("1.50 times as fast", "1.9-2.1", "num_worker_threads=4)"):
        assert text in html
    Page(html)


def test_a_verdict_of_the_baseline_is_marked_as_such(plan: StudyPlan) -> None:
    kept = study_result(plan, best=threads(16), verdict="keep-baseline", speedup=FASTER)
    assert 'class="verdict keep-baseline"' in report_html(kept, [])
    assert 'class="verdict interrupted"' in report_html(replace(kept, interrupted=True), [])


def test_a_result_prints_as_its_verdict(plan: StudyPlan) -> None:
    result = StudyResult(study_result(plan))
    assert repr(result) == (
        "StudyResult(study='udf', verdict='better', best='num_worker_threads=4')"
    )
    assert str(result).startswith("Use num_worker_threads=4: 1.50 times as fast")
