"""Scales with plain numbers."""

import math
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st
from matplotlib.figure import Figure

from tuner.decide.statistics import Interval
from tuner.present.figures.kit.axis import (
    margin_of,
    plain_axis,
    plain_log_axis,
    plane_axis,
    reach,
    threads_axis,
    top_of,
)


def test_ticks_of_threads_have_room() -> None:
    axes = Figure().add_subplot()
    threads_axis(axes, "x", range(1, 17))
    named = [text.get_text() for text in axes.get_xticklabels()]
    assert {"1", "2", "4", "8", "16"} <= set(named)
    assert len(named) < 14
    threads_axis(axes, "x", [3.0])
    assert [text.get_text() for text in axes.get_xticklabels()] == ["3"]


# Made once: axes take far longer to make than to scale.
AXES = Figure().add_subplot()
PLAIN = re.compile(r"\d+(\.\d+)?")


@given(st.floats(1e-6, 1e6), st.floats(1.01, 1e6), st.integers(2, 6))
def test_a_log_scale_has_a_few_plain_ticks(low: float, ratio: float, most: int) -> None:
    axes = AXES
    plain_log_axis(axes, "y", low, low * ratio, most)
    ticks = axes.get_yticks()
    assert 1 <= len(ticks) <= most + 1
    assert all(low <= tick <= low * ratio for tick in ticks)
    assert all(PLAIN.fullmatch(text.get_text()) for text in axes.get_yticklabels())


@pytest.mark.parametrize(("low", "high"), [(1e6, 4e9), (1e-6, 2e-6), (1_000_000.0, 1_000_001.0)])
def test_a_linear_scale_never_has_powers_or_an_offset(low: float, high: float) -> None:
    figure = Figure()
    axes = figure.add_subplot()
    axes.set_xlim(low, high)
    plain_axis(axes, "x", 5)
    figure.draw_without_rendering()
    ticks = [text.get_text() for text in axes.get_xticklabels()]
    assert len(set(ticks)) == len(ticks) > 1
    assert all(PLAIN.fullmatch(tick) for tick in ticks)
    assert axes.xaxis.get_offset_text().get_text() == ""


@pytest.mark.parametrize(
    ("values", "least", "most"),
    [((1.948, 1.960), 1.65, 2.25), ((1.0, 3.0), 0.9, 3.1), ((0.01, 0.011), 0.009, 0.0125),
     ((0.0, 0.0), 0.0, 0.1)],
)  # fmt: skip
def test_noise_does_not_fill_an_axis(
    values: tuple[float, float], least: float, most: float
) -> None:
    axes = Figure().add_subplot()
    axes.plot(values, values, marker="o")
    plane_axis(axes, "x", 5)
    plane_axis(axes, "y", 5)
    for low, high in (axes.get_xlim(), axes.get_ylim()):
        assert high - low >= 0.2 * max(values)
        assert least - 0.06 <= low <= values[0]
        assert values[1] <= high <= most


@pytest.mark.parametrize("ratio", [1.0, 1.01, 1.2, 2.0, 1000.0])
def test_noise_does_not_fill_a_log_scale(ratio: float) -> None:
    margin = margin_of(2.0, 2.0 * ratio)
    assert margin > 1.02
    assert margin**2 * ratio >= 1.25 - 1e-9
    assert margin <= 1.6


def test_intervals_are_drawn_as_far_as_they_are_known() -> None:
    nan = math.nan
    points = [Interval(2.0, 1.5, 2.25), Interval(3.0, nan, nan), Interval(1.0, 0.0, math.inf)]
    assert top_of(points) == pytest.approx(3.15)
    assert reach(points, 3.0) == [[0.5, 0.0, 1.0], [0.25, 0.0, 5.0]]
