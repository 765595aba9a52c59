"""How far intervals are drawn."""

import math

import pytest

from tests.plan.specs import threads
from tuner.present.figures.comparison import ComparedPoint
from tuner.present.figures.kit.intervals import reach, top_of


def test_intervals_are_drawn_as_far_as_they_are_known() -> None:
    nan = math.nan
    points = [ComparedPoint(threads(1), 2.0, 1.5, 2.25), ComparedPoint(threads(2), 3.0, nan, nan),
              ComparedPoint(threads(4), 1.0, 0.0, math.inf)]  # fmt: skip
    assert top_of(points) == pytest.approx(3.15)
    assert reach(points, 3.0) == [[0.5, 0.0, 1.0], [0.25, 0.0, 5.0]]
