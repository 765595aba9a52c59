"""Where the time of a call goes."""

from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from tests.present.results import (
    study_result,
)
from tuner.plan.study_plan import StudyPlan
from tuner.present.figures.call_time import (
    PARTS,
    CallTimeRow,
    call_time,
    call_time_figure,
    draw_call_time,
)
from tuner.present.figures.kit.config_names import names_of
from tuner.study.rows import TrialDetail
from tuner.world.measurement import CallPart


def test_the_parts_of_a_call_are_in_a_fixed_order(plan: StudyPlan) -> None:
    mixed: dict[CallPart, float] = {"off_cpu": 0.1, "queue": 0.3, "transport": 0.2, "on_cpu": 0.4}
    answer = study_result(
        plan, details={1: TrialDetail(call_parts_ms=mixed), 0: TrialDetail(call_parts_ms={})}
    )
    shown = call_time(answer)
    assert shown is not None
    assert shown.rows == (CallTimeRow(1, mixed),)
    assert list(shown.rows[0].parts_ms) == ["transport", "queue", "on_cpu", "off_cpu"]
    assert shown.parts == ["transport", "queue", "on_cpu", "off_cpu"]
    assert shown.rows[0].total_ms == 1.0


def test_the_parts_are_stacked_and_differ_without_colours(plan: StudyPlan) -> None:
    parts: dict[CallPart, float] = {"transport": 0.25, "queue": 0.5, "served": 1.0, "pending": 0.0}
    answer = study_result(plan, details={0: TrialDetail(call_parts_ms=parts)})
    shown = call_time(answer)
    assert shown is not None
    figure = Figure()
    draw_call_time(shown, names_of(answer), figure)
    bars = [bar for bar in figure.axes[0].patches if isinstance(bar, Rectangle)]
    assert [(bar.get_x(), bar.get_width()) for bar in bars] == [
        (0.0, 0.25), (0.25, 0.5), (0.75, 1.0),
    ]  # fmt: skip
    assert [bar.get_hatch() for bar in bars] == ["//", "..", None]
    assert [text.get_text() for text in figure.legends[0].get_texts()] == [
        "transport", "queue", "served",
    ]  # fmt: skip
    assert "pending" not in str(call_time_figure(answer))


def test_no_two_parts_look_alike() -> None:
    assert len({look.colour.light for look in PARTS.values()}) == len(PARTS)
    hatched = [look.hatch for look in PARTS.values() if look.hatch]
    assert len(set(hatched)) == len(hatched)
