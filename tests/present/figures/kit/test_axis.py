"""Scales with plain numbers."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st
from matplotlib.figure import Figure

from tuner.present.figures.kit.axis import plain_axis, plain_log_axis, threads_axis


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
