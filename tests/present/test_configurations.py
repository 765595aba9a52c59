"""What configurations are called in figures."""

from matplotlib.figure import Figure

from testing.results import measured, study_result
from testing.specs import for_all, threads
from tuner.plan.config import Config
from tuner.present.configurations import short_names, threads_dimension
from tuner.present.figures import plot_parallelism, plot_scaling
from tuner.study.answer import StudyAnswer


def test_what_all_configs_share_is_left_out_of_their_names() -> None:
    pair = [for_all(num_worker_threads=n, transports="shm") for n in (1, 2)]
    assert short_names(pair) == (
        "num_worker_threads", {pair[0]: "1", pair[1]: "2"},
    )  # fmt: skip
    mixed = [threads(16), for_all(num_worker_threads=4, transports="shm")]
    assert short_names(mixed) == (None, {each: str(each) for each in mixed})
    assert short_names([threads(16)]) == ("num_worker_threads", {threads(16): "16"})
    assert short_names([]) == (None, {})


def of_roles(*numbers: dict[str, int]) -> StudyAnswer:
    """A study of configurations that give roles so many threads."""
    configs = (
        Config.from_json({role: {"num_worker_threads": n} for role, n in number.items()})
        for number in numbers
    )
    return study_result(rows=tuple(measured(*pair, 1.0) for pair in enumerate(configs)))


def test_the_role_that_serves_has_the_axis_even_with_fewer_values() -> None:
    grid = ({"caller": caller, "server": server} for caller in (1, 2, 4) for server in (2, 8))
    answer = of_roles(*grid)
    assert str(threads_dimension(answer)) == "server.num_worker_threads"
    for plot in (plot_scaling, plot_parallelism):
        axes = Figure().add_subplot()
        assert plot(answer, axes) is axes
        assert axes.get_xlabel() == "server.num_worker_threads"


def test_a_driver_alone_has_the_axis() -> None:
    answer = of_roles({"caller": 1}, {"caller": 2})
    assert str(threads_dimension(answer)) == "caller.num_worker_threads"
    assert threads_dimension(of_roles({"caller": 1})) is None
