"""What holds for all figures of a study."""

import re
import xml.etree.ElementTree as ET
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from testing.results import (
    detail,
    failed,
    failed_later,
    in_blocks,
    known,
    measured,
    nothing_ran,
    study_result,
)  # fmt: skip
from testing.specs import threads
from testing.synthetic import trace
from tests.present.figures.traces import stepped
from tuner.errors import UsageError
from tuner.present.figures import (
    DrawnFigure,
    comparison_figures,
    plot_parallelism,
    plot_scaling,
    study_figures,
    write_figures,
)
from tuner.present.figures.distributions import call_time, latency
from tuner.present.figures.kit.canvas import FIGURE_NAMES
from tuner.present.figures.kit.theme import THEME
from tuner.present.figures.knob_figures import importance
from tuner.present.figures.step_time import scaling_curve
from tuner.present.figures.timeline_drawing import timeline_figures
from tuner.present.figures.trade_offs import cpu
from tuner.present.figures.worker_threads import parallelism
from tuner.present.studies_compared import Comparison
from tuner.study.answer import StudyAnswer
from tuner.study.rows import Observation

pytestmark = pytest.mark.slow

OF_THREE_KNOBS = [
    "step_time", "blocks", "latency", "cpu", "call_time", "parallelism", "timeline_baseline",
    "timeline_best", "importance",
]  # fmt: skip


@pytest.fixture
def drawn_names(monkeypatch: pytest.MonkeyPatch) -> Callable[[StudyAnswer], list[str]]:
    """The names of the figures of a study, which are not rendered: that takes most of the time."""
    monkeypatch.setattr("tuner.present.figures.kit.canvas.rendered", lambda *_: b"")
    return lambda answer: [figure.name for figure in study_figures(answer, {})]


def test_the_figures_stand_in_the_order_of_the_report(figures: dict[str, DrawnFigure]) -> None:
    assert list(figures) == [*OF_THREE_KNOBS, "heat_map"]
    for figure in figures.values():
        assert figure.title
        assert figure.caption.endswith(".")
        assert re.search(r"\d", figure.alt)


def test_files_have_their_version_a_usual_font_and_no_small_text(
    figures: dict[str, DrawnFigure],
) -> None:
    for figure in figures.values():
        assert ET.fromstring(figure.svg).tag == "{http://www.w3.org/2000/svg}svg"
        assert figure.png.startswith(b"\x89PNG")
        for content in (figure.svg.encode(), figure.png):
            assert b"rpc-tuner figure, format 1" in content
        assert set(re.findall(r"font-family: ?([^;\"]+)", figure.svg)) == {"sans-serif"}
        assert min(map(float, re.findall(r"font-size: ?([\d.]+)px", figure.svg))) >= 9


def test_inline_colours_are_those_of_the_theme(figures: dict[str, DrawnFigure]) -> None:
    known = {colour.variable for colour in THEME}
    for figure in figures.values():
        assert "#" not in re.sub(r"url\(#[^)]*\)|href=\"#[^\"]*\"", "", figure.inline_svg)
        assert "rgb(" not in figure.inline_svg
        used = set(re.findall(r"var\(([^)]*)\)", figure.inline_svg))
        assert {"--fig-ink"} <= used <= known


def test_inline_ids_are_unique_and_each_is_used(figures: dict[str, DrawnFigure]) -> None:
    seen: set[str] = set()
    for figure in figures.values():
        ids = re.findall(r"\bid=\"([^\"]+)\"", figure.inline_svg)
        used = re.findall(r"url\(#([^)]+)\)|href=\"#([^\"]+)\"", figure.inline_svg)
        assert len(set(ids)) == len(ids)
        assert set(ids) == {each for pair in used for each in pair if each}
        assert all(each.startswith(f"{figure.name}-") for each in ids)
        assert not seen & set(ids)
        seen |= set(ids)


def test_inline_is_a_part_of_a_page_and_scales_with_it(figures: dict[str, DrawnFigure]) -> None:
    for figure in figures.values():
        root = ET.fromstring(figure.inline_svg)
        assert figure.inline_svg.startswith("<svg ")
        assert set(root.attrib) == {"viewBox", "role", "aria-label", "style"}
        assert (root.get("role"), root.get("aria-label")) == ("img", figure.alt)
        assert float(root.attrib["viewBox"].split()[2]) == pytest.approx(4.6 * 72)
        for unwanted in ("<style", "<metadata", "<!DOCTYPE", "<?xml", "xlink"):
            assert unwanted not in figure.inline_svg
        # The background is the page's: nothing is filled with paper but the marks of medians.
        assert ("--fig-paper" in figure.inline_svg) == (figure.name == "latency")


def test_figures_are_written_as_svg_and_png_and_removed_where_they_are_no_longer_drawn(
    figures: dict[str, DrawnFigure], tmp_path: Path
) -> None:
    write_figures(figures.values(), tmp_path)
    written = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    assert set(written) == {f"{name}.{kind}" for name in figures for kind in ("svg", "png")}
    assert written["cpu.svg"] == figures["cpu"].svg.encode()
    assert written["cpu.png"] == figures["cpu"].png
    for name in ("notes.png", "cpu.txt"):
        (tmp_path / name).write_text("somebody's own")
    write_figures([figures["cpu"]], tmp_path)
    assert {path.name for path in tmp_path.iterdir()} == {
        "cpu.svg", "cpu.png", "notes.png", "cpu.txt",
    }  # fmt: skip
    write_figures([], tmp_path / "none")
    assert not (tmp_path / "none").exists()


def test_all_figures_are_known_by_name(figures: dict[str, DrawnFigure]) -> None:
    answer = in_blocks(study_result())
    studies = [("a", answer), ("b", answer)]
    compared = {figure.name for figure in comparison_figures(Comparison(studies, threads(16)))}
    others = {"timeline_challenger", "pareto", "forecast", "changes"}
    assert {*figures, *compared, *others} == FIGURE_NAMES


def test_figures_that_have_nothing_to_show_are_left_out(
    grid: StudyAnswer, drawn_names: Callable[[StudyAnswer], list[str]]
) -> None:
    assert drawn_names(nothing_ran()) == []
    alone = study_result(
        rows=(measured(0, threads(16), 3.0), failed(1, threads(4))), best=threads(16),
        details={0: detail(3.0)}, observations=(Observation(0, 0, "race", 3.0),),
    )  # fmt: skip
    assert drawn_names(alone) == ["step_time", "blocks", "latency", "call_time"]
    # Without traces.
    rows = tuple(replace(row, metrics={}) for row in grid.rows)
    details = {n: replace(each, call_ms=None, call_parts_ms={})
               for n, each in grid.details.items()}  # fmt: skip
    assert drawn_names(replace(grid, rows=rows, details=details)) == [
        "step_time", "blocks", "latency", "heat_map", "importance",
    ]  # fmt: skip


def test_configs_that_failed_after_some_worlds_are_not_shown(grid: StudyAnswer) -> None:
    last = grid.rows[9]
    without = replace(grid, rows=(*grid.rows[:9], *grid.rows[10:]))
    stuck = failed_later(last.trial, last.config, 0.01)
    later = replace(grid, rows=(*without.rows, stuck))
    shown: list[Callable[[StudyAnswer], object]] = [
        lambda answer: scaling_curve(answer).series, latency, call_time, cpu, parallelism,
        importance,
    ]  # fmt: skip
    for data in shown:
        assert known(data(later)) == data(without) != data(grid)


def test_an_empty_trace_has_no_timeline() -> None:
    made = timeline_figures([("baseline", "16", trace()), ("best", "4", stepped(2))])
    assert [figure.name for figure in made] == ["timeline_best"]


def test_names_with_strange_letters_are_drawn() -> None:
    made = stepped(2)
    calls = made.calls.assign(function="_привет$x$漢字")
    (figure,) = timeline_figures([("best", "4", replace(made, calls=calls))])
    assert "_привет$x$漢字" in figure.inline_svg


def test_plots_without_axes_make_a_pyplot_figure() -> None:
    from matplotlib import pyplot

    before = pyplot.rcParams["font.size"], len(pyplot.get_fignums())
    axes = plot_scaling(study_result())
    assert pyplot.gca() is axes
    assert len(pyplot.get_fignums()) == before[1] + 1
    pyplot.close(axes.figure)  # type: ignore[arg-type]
    assert (pyplot.rcParams["font.size"], len(pyplot.get_fignums())) == before
    nothing = study_result(rows=(failed(0, threads(16)),))
    for plot, why in ((plot_scaling, "configuration was measured"), (plot_parallelism, "traces")):
        with pytest.raises(UsageError, match=f"nothing to plot: no {why}"):
            plot(nothing)
