"""The timelines of a report."""

import re

import pytest

from tests.present.figures.traces import stepped
from tuner.present.figures.timeline_figures import timeline_figures


def test_timelines_of_a_study_have_the_same_scales() -> None:
    slow, fast = timeline_figures(
        [
            ("baseline", "num_worker_threads=1", stepped(6, threads=1)),
            ("best", "num_worker_threads=4 " + "transports=shm+uv " * 2, stepped(6, threads=4)),
        ]
    )
    assert (slow.name, fast.name) == ("timeline_baseline", "timeline_best")
    ticks = [places_of_ticks(figure.inline_svg) for figure in (slow, fast)]
    assert ticks[0] == ticks[1]
    assert len(ticks[0]) > 3
    # Each has room for its own lanes alone.
    assert height(fast.inline_svg) - height(slow.inline_svg) == pytest.approx(3 * 0.27 * 72, abs=1)
    assert "num_worker_threads=4" in fast.alt
    assert "all 6 steps, 24 calls" in fast.caption


def height(svg: str) -> float:
    """In points."""
    (found,) = re.findall(r'viewBox="0 0 [\d.]+ ([\d.]+)"', svg)
    return float(found)


def places_of_ticks(svg: str) -> list[tuple[str, ...]]:
    """Where the ticks of the time are from the left, and what they say."""
    number = r'<text x="([\d.]+)" y="[\d.]+" style="[^"]*text-anchor:middle[^"]*">([\d.]+)<'
    return re.findall(number, svg)


def test_without_traces_there_are_no_timelines() -> None:
    assert timeline_figures([]) == []
