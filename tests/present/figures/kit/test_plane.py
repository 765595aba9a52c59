"""Texts beside points."""

from hypothesis import given, settings
from hypothesis import strategies as st
from matplotlib.figure import Figure

from tuner.present.figures.kit.plane import place_texts


@settings(max_examples=15, deadline=None)
@given(
    st.lists(
        st.tuples(st.floats(0.0, 1.0), st.floats(0.0, 1.0)), min_size=2, max_size=12, unique=True
    )
)
def test_names_cover_neither_each_other_nor_points_nor_leave_the_axes(
    points: list[tuple[float, float]],
) -> None:
    figure = Figure(figsize=(4.6, 3), layout="constrained")
    axes = figure.add_subplot()
    axes.plot([x for x, _ in points], [y for _, y in points], "o")
    axes.margins(0.1)
    texts = [
        axes.annotate(f"name {n}", point, xytext=(0, 0), textcoords="offset points")
        for n, point in enumerate(points)
    ]
    for text in texts:
        text.set_in_layout(False)
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


def test_a_lonely_point_keeps_its_name() -> None:
    axes = Figure().add_subplot()
    text = axes.annotate("here", (0.5, 0.5), xytext=(0, 0), textcoords="offset points")
    assert place_texts(axes, [text], [(0.5, 0.5)]) == [text]
