"""Timelines as drawings: lanes, legends, scales, files."""

import re
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest
from matplotlib.collections import PolyCollection
from matplotlib.figure import Figure

from testing.synthetic import call, trace
from tests.present.figures.traces import many_kinds, stepped
from tuner.present.figures import timeline_drawing
from tuner.present.figures.timeline_data import MOST_CALLS, timeline
from tuner.present.figures.timeline_drawing import Scales, timeline_figures, write_timeline_figure
from tuner.trace.model.trace import Trace


def test_a_drawing_has_a_labelled_row_per_thread_below_each_server() -> None:
    axes = Figure().add_subplot()
    shown = timeline(many_kinds(), "kinds")
    Scales([shown]).draw(shown, axes)
    assert [label.get_text() for label in axes.get_yticklabels()] == [
        "up to 3 calls under way", "thread 11", "thread 12", "thread 13", "thread 14",
    ]  # fmt: skip
    ticks = axes.get_yticks()
    assert list(ticks) == sorted(ticks)
    bottom, top = axes.get_ylim()
    assert top == 0 < ticks[0] < ticks[-1] < bottom
    assert axes.get_title(loc="left") == "kinds"
    assert {"worker1: 4 threads", "all 8 served calls"} <= {text.get_text() for text in axes.texts}
    hatches = [c.get_hatch() for c in axes.collections if isinstance(c, PolyCollection)]
    assert sorted(hatch for hatch in hatches if hatch) == ["////", "xxxx"]


def test_the_legend_names_six_functions_and_what_else_is_drawn(tmp_path: Path) -> None:
    path = tmp_path / "kinds.svg"
    write_timeline_figure([("kinds", many_kinds())], path)
    text = path.read_text()
    named = [f"f{n}" for n in range(8) if f">f{n}<" in text]
    assert named == ["f0", "f1", "f2", "f3", "f4", "f7"]
    for entry in (
        "other functions", "inside operators", "never ended",
        "served without Python; known by its operators",
    ):  # fmt: skip
        assert f">{entry}<" in text


def test_the_legend_names_no_function_outside_the_excerpt(tmp_path: Path) -> None:
    calls = [
        call(n, n, n + 1, served_ms=(n, n + 0.5), function="first" if n == 0 else "rest")
        for n in range(MOST_CALLS + 1)
    ]
    path = tmp_path / "excerpt.svg"
    write_timeline_figure([("", trace(calls))], path)
    assert ">rest<" in path.read_text()
    assert ">first<" not in path.read_text()


@pytest.fixture
def figure(monkeypatch: pytest.MonkeyPatch) -> Figure:
    """The figure that a function draws, instead of a file."""
    drawn = Figure(layout="constrained")
    monkeypatch.setattr(timeline_drawing, "canvas", lambda size, path: nullcontext(drawn))
    return drawn


def test_side_by_side_the_scales_are_of_one_length_and_the_lanes_of_one_height(
    figure: Figure,
) -> None:
    slow, fast = stepped(6, threads=1), stepped(6, threads=4)
    write_timeline_figure([("1", slow), ("4", fast)], Path("unused.png"))
    left, right = figure.axes
    assert (left.get_xlim(), left.get_ylim()) == (right.get_xlim(), right.get_ylim())
    assert left.get_xlim()[1] >= timeline(slow).length_ms > timeline(fast).length_ms
    assert [axes.get_title(loc="left") for axes in (left, right)] == ["1", "4"]


def test_side_by_side_as_many_steps_of_each_are_shown(figure: Figure) -> None:
    write_timeline_figure([("a", stepped(3)), ("b", stepped(100))], Path("unused.png"))
    notes = [axes.texts[-1].get_text() for axes in figure.axes]
    assert notes == ["all 3 steps, 12 calls", "steps 49 to 51 of 100, 12 calls"]


def test_side_by_side_a_function_has_one_colour(figure: Figure) -> None:
    def one(function: str, other: str) -> Trace:
        return trace([call(1, 0, 9, served_ms=(0, 8), function=function),
                      call(2, 9, 12, served_ms=(9, 10), function=other)])  # fmt: skip

    write_timeline_figure([("a", one("f", "g")), ("b", one("g", "f"))], Path("unused.png"))

    def colours(axes: Any) -> list[tuple[float, ...]]:
        bars = [c for c in axes.collections if c.get_zorder() == 2 and len(c.get_paths())]
        return [tuple(bar.get_facecolor()[0]) for bar in bars]

    left, right = map(colours, figure.axes)
    assert left == right[::-1]
    assert len(set(left)) == 2


def test_an_empty_trace_can_stand_beside_another(figure: Figure) -> None:
    write_timeline_figure([("a", stepped(2)), ("b", trace())], Path("unused.png"))
    assert figure.axes[1].texts[-1].get_text() == "no calls and no operators"


def test_on_a_longer_axis_nothing_goes_on_beyond_an_excerpt(figure: Figure) -> None:
    """A call that is served all the time ends with the excerpt, as its lane does."""
    calls = [call(n, n, n + 1, served_ms=(n, n + 0.5)) for n in range(MOST_CALLS + 1)]
    whole = call(999, 0, 200, served_ms=(0, 199), function="whole", thread=12)
    cut, long = trace([*calls, whole]), stepped(100, threads=1)
    write_timeline_figure([("cut", cut), ("long", long)], Path("unused.png"))
    axes = figure.axes[0]
    length_ms = timeline(cut).length_ms
    assert length_ms < axes.get_xlim()[1]
    ends = [
        path.get_extents().x1
        for bars in axes.collections
        if isinstance(bars, PolyCollection)
        for path in bars.get_paths()
    ]
    assert max(ends) == pytest.approx(length_ms)


def test_timelines_of_a_study_have_the_same_scales() -> None:
    long = "num_worker_threads=4 " + "transports=shm+uv " * 2
    both = [("baseline", "16", stepped(6, threads=1)), ("best", long, stepped(6, threads=4))]
    slow, fast = timeline_figures(both)
    assert (slow.name, fast.name) == ("timeline_baseline", "timeline_best")
    # Where the ticks of the time are from the left, and what they say.
    tick = r'<text x="([\d.]+)" y="[\d.]+" style="[^"]*text-anchor:middle[^"]*">([\d.]+)<'
    ticks = re.findall(tick, slow.inline_svg)
    assert ticks == re.findall(tick, fast.inline_svg)
    assert len(ticks) > 3
    # Each has room for its own lanes alone.
    low, high = (
        float(re.findall(r'viewBox="0 0 [\d.]+ ([\d.]+)"', each.inline_svg)[0])
        for each in (slow, fast)
    )
    assert high - low == pytest.approx(3 * 0.27 * 72, abs=1)
    assert "num_worker_threads=4" in fast.alt
    assert "all 6 steps, 24 calls" in fast.caption
