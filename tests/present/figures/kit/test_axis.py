"""Scales with plain numbers."""

from hypothesis import given
from hypothesis import strategies as st
from matplotlib.figure import Figure

from tuner.present.figures.kit.axis import plain_log_axis, threads_axis


def test_ticks_of_threads_have_room() -> None:
    axes = Figure().add_subplot()
    threads_axis(axes, "x", range(1, 17))
    named = [text.get_text() for text in axes.get_xticklabels()]
    assert {"1", "2", "4", "8", "16"} <= set(named)
    assert len(named) < 14
    threads_axis(axes, "x", [3.0])
    assert [text.get_text() for text in axes.get_xticklabels()] == ["3"]


@given(st.floats(1e-3, 1e4), st.floats(1.01, 1e6), st.integers(2, 6))
def test_a_log_scale_has_a_few_plain_ticks(low: float, ratio: float, most: int) -> None:
    axes = Figure().add_subplot()
    plain_log_axis(axes, "y", low, low * ratio, most)
    ticks = axes.get_yticks()
    assert 1 <= len(ticks) <= most + 1
    assert all(low <= tick <= low * ratio for tick in ticks)
    assert not any("$" in text.get_text() for text in axes.get_yticklabels())
