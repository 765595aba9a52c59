"""Studies written by hand, made once; tests change copies of them."""

import pytest

from testing.results import known
from tests.present.figures.traces import many_kinds, stepped
from tests.present.grids import big_study, two_knobs
from tuner.present.figures import DrawnFigure, study_figures
from tuner.present.figures.knob_figures import heat_map_figure
from tuner.study.answer import StudyAnswer


@pytest.fixture(scope="session")
def big() -> StudyAnswer:
    """60 configurations over three knobs."""
    return big_study()


@pytest.fixture(scope="session")
def grid() -> StudyAnswer:
    """12 configurations over two knobs."""
    return two_knobs()


@pytest.fixture(scope="session")
def big_figures(big: StudyAnswer) -> list[DrawnFigure]:
    """The figures of 60 configurations, with timelines."""
    return study_figures(big, {"baseline": many_kinds(), "best": stepped(3)})


@pytest.fixture(scope="session")
def figures(big_figures: list[DrawnFigure], grid: StudyAnswer) -> dict[str, DrawnFigure]:
    """All figures of a report, by name: of three knobs, and the heat map of two."""
    return {figure.name: figure for figure in [*big_figures, known(heat_map_figure(grid))]}
