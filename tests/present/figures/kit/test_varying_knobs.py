"""Which knobs vary, and which of them has the axis."""

from matplotlib.figure import Figure

from tests.present.results import (
    measured,
    study_result,
)
from tuner.plan.config import Config
from tuner.plan.study_plan import StudyPlan
from tuner.present.figures import plot_scaling
from tuner.present.figures.kit.varying_knobs import threads_dimension
from tuner.present.figures.parallelism import parallelism


def test_the_role_that_serves_has_the_axis_even_with_fewer_values(
    plan: StudyPlan,
) -> None:
    grid = [(caller, server) for caller in (1, 2, 4) for server in (2, 8)]
    rows = tuple(
        measured(
            n,
            Config.from_json(
                {"caller": {"num_worker_threads": caller}, "server": {"num_worker_threads": server}}
            ),
            n + 1.0,
        )
        for n, (caller, server) in enumerate(grid)
    )
    answer = study_result(plan, rows=rows)
    assert str(threads_dimension(answer)) == "server.num_worker_threads"
    shown = parallelism(answer)
    assert shown is not None
    axes = plot_scaling(answer, Figure().add_subplot())
    assert shown.x_label == axes.get_xlabel() == "server.num_worker_threads"


def test_a_driver_alone_has_the_axis(plan: StudyPlan) -> None:
    rows = tuple(
        measured(n, Config.from_json({"caller": {"num_worker_threads": n}}), 1.0) for n in (1, 2)
    )
    answer = study_result(plan, rows=rows)
    assert str(threads_dimension(answer)) == "caller.num_worker_threads"
    assert threads_dimension(study_result(plan, rows=rows[:1])) is None
