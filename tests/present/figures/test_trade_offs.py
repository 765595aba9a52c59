"""Figures of two numbers: the CPUs used against the objective, and texts beside points."""

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from matplotlib.figure import Figure

from testing.results import by_threads, known
from tuner.present.figures.trade_offs import cpu, cpu_figure, draw_cpu, place_texts
from tuner.study.answer import StudyAnswer


def costing(costs: dict[int, tuple[float, float]]) -> StudyAnswer:
    """A study of so many threads, each with its value and its CPUs; 16 are the baseline."""
    return by_threads({
        number: {"value": value, "metrics": {"cpu_cores": cpus}}
        for number, (value, cpus) in costs.items()
    })  # fmt: skip


def test_the_front_is_what_nothing_beats_in_both() -> None:
    costs = {4: (2.0, 1.9), 8: (2.1, 1.5), 16: (3.0, 1.6), 2: (4.0, 1.0), 1: (6.0, 1.0)}
    shown = known(cpu(costing(costs)))
    assert [*shown.at] == [4, 8, 0, 2, 1]
    assert shown.front == [4, 8, 2]
    assert shown.corners == [(2.0, 1.9), (2.1, 1.9), (2.1, 1.5), (4.0, 1.5), (4.0, 1.0)]


def test_configs_without_known_cpus_are_left_out() -> None:
    answer = costing({4: (2.0, 1.5), 8: (2.0, 1.0), 16: (float("nan"), 1.0)})
    rows = (answer.rows[0], replace(answer.rows[1], metrics={}), answer.rows[2])
    assert cpu(replace(answer, rows=rows)) is None


def test_long_names_are_letters_with_a_key(big: StudyAnswer) -> None:
    figure = known(cpu_figure(big))
    assert ">A</text>" in figure.inline_svg
    assert ">A: intra_op_threads=" in figure.inline_svg
    assert ">best: intra_op_threads=1" in figure.inline_svg


def test_short_names_stand_beside_their_points() -> None:
    figure = known(cpu_figure(costing({4: (2.0, 1.9), 8: (2.1, 1.5), 16: (3.0, 1.6)})))
    for name in ("4", "8", "16"):
        assert f">{name}</text>" in figure.inline_svg
    assert figure.alt == (
        "CPUs used by num_worker_threads: 4 (best) 2 ms with 1.9 CPUs; "
        "16 (baseline) 3 ms with 1.6 CPUs; 8 2.1 ms with 1.5 CPUs"
    )


def test_the_baseline_has_a_marker_of_its_own() -> None:
    answer = costing({4: (2.0, 1.9), 8: (2.1, 1.5), 16: (3.0, 1.6)})
    shown = known(cpu(answer))
    axes = Figure().add_subplot()
    handles = draw_cpu(answer, shown, axes)
    best, baseline = "best: num_worker_threads=4", "baseline: num_worker_threads=16"
    labels = [handle.get_label() for handle in handles]
    assert labels == [best, baseline, "nothing is better in both"]
    markers = {line.get_label(): line.get_marker() for line in axes.lines}
    assert (markers[best], markers[baseline]) == ("*", "s")
    assert (axes.get_xlabel(), axes.get_ylabel()) == ("median step time (ms)", "CPUs used")
    assert axes.get_xlim()[0] < 2.0 < 3.0 < axes.get_xlim()[1]
    assert axes.get_xlim()[1] - axes.get_xlim()[0] == pytest.approx(1.24)


@settings(max_examples=15, deadline=None)
@given(st.lists(st.tuples(*[st.floats(0.0, 1.0)] * 2), min_size=2, max_size=12, unique=True))
def test_names_cover_neither_each_other_nor_points_nor_leave_the_axes(
    points: list[tuple[float, float]],
) -> None:
    figure = Figure(figsize=(4.6, 3), layout="constrained")
    axes = figure.add_subplot()
    axes.plot([x for x, _ in points], [y for _, y in points], "o")
    axes.margins(0.1)
    texts = [
        axes.annotate(f"name {n}", at, xytext=(0, 0), textcoords="offset points", in_layout=False)
        for n, at in enumerate(points)
    ]
    placed = place_texts(axes, texts, points)
    boxes = [text.get_window_extent() for text in placed]
    around = axes.get_window_extent()
    for number, box in enumerate(boxes):
        assert around.x0 <= box.x0 < box.x1 <= around.x1
        assert around.y0 <= box.y0 < box.y1 <= around.y1
        assert not any(box.overlaps(other) for other in boxes[:number])
        for point in points:
            assert not box.contains(*axes.transData.transform(point))
    assert set(axes.texts) == set(placed)
