"""The share of the variance that each knob explains."""

import math
from dataclasses import replace
from itertools import product

import pytest
from matplotlib.figure import Figure

from tests.plan.specs import for_all, threads, workload_spec
from tests.present.results import ROWS, failed_later, study_result
from tuner.plan.config import Config
from tuner.plan.study_plan import StudyPlan
from tuner.present.figures.importance import (
    REST,
    draw_importance,
    importance,
    importance_figure,
    main_effects,
)
from tuner.study.answer import StudyAnswer

SPEC = workload_spec()


def grid(step_ms: dict[tuple[int, str], float]) -> list[tuple[Config, float]]:
    return [
        (for_all(num_worker_threads=count, transports=way), value)
        for (count, way), value in step_ms.items()
    ]


def test_a_knob_that_alone_matters_explains_everything() -> None:
    values = {(n, way): float(8 / n) for n, way in product((1, 2, 4), ("shm", "uv"))}
    shares = main_effects(grid(values), SPEC)
    assert shares == pytest.approx({"num_worker_threads": 1.0, "transports": 0.0})


def test_two_knobs_that_multiply_share_the_variance() -> None:
    values = {(n, way): n * (3.0 if way == "uv" else 1.0)
              for n, way in product((1, 2), ("shm", "uv"))}  # fmt: skip
    shares = main_effects(grid(values), SPEC)
    parts = {"transports": math.log(3) ** 2, "num_worker_threads": math.log(2) ** 2}
    total = sum(parts.values())
    assert shares == pytest.approx({name: part / total for name, part in parts.items()})
    assert list(shares) == ["transports", "num_worker_threads"]


def test_an_interaction_is_explained_by_neither_knob() -> None:
    values = {(1, "shm"): 1.0, (2, "uv"): 1.0, (1, "uv"): 2.0, (2, "shm"): 2.0}
    assert main_effects(grid(values), SPEC) == pytest.approx(
        {"num_worker_threads": 0.0, "transports": 0.0}
    )


def test_configs_without_a_value_are_left_out() -> None:
    values = {(n, way): float(8 / n) for n, way in product((1, 2), ("shm", "uv"))}
    whole = grid(values)
    holed = [*whole, (for_all(num_worker_threads=4, transports="shm"), math.nan)]
    assert main_effects(holed, SPEC) == main_effects(whole, SPEC)


def test_on_a_grid_with_holes_no_share_is_above_one() -> None:
    values = {(1, "shm"): 1.0, (2, "uv"): 2.0, (4, "uv"): 2.1}
    shares = main_effects(grid(values), SPEC)
    assert shares["num_worker_threads"] == pytest.approx(1.0)
    assert 0.9 < shares["transports"] < 1.0
    assert sum(shares.values()) > 1


def test_a_knob_with_one_value_explains_nothing_and_is_not_named() -> None:
    values = {(1, "shm"): 1.0, (2, "shm"): 2.0}
    assert main_effects(grid(values), SPEC) == {"num_worker_threads": 1.0}


def test_where_nothing_differs_nothing_is_explained() -> None:
    assert main_effects(grid({(1, "shm"): 2.0, (2, "shm"): 2.0}), SPEC) == {
        "num_worker_threads": 0.0
    }
    assert main_effects([(threads(1), 2.0)], SPEC) == {}
    assert main_effects([(threads(1), math.nan)], SPEC) == {}
    assert main_effects([], SPEC) == {}


def test_configs_that_failed_later_do_not_count_for_importance(big: StudyAnswer) -> None:
    last = big.rows[57]
    stuck = failed_later(last.trial, last.config, 1000.0)
    shown = importance(replace(big, rows=(*big.rows[:57], *big.rows[58:], stuck)))
    without = importance(replace(big, rows=big.rows[:57]))
    assert shown == without
    assert shown is not None
    assert shown.configs == 57


def test_importance_is_for_two_knobs_and_more(
    plan: StudyPlan, grid: StudyAnswer, big: StudyAnswer
) -> None:
    assert importance(study_result(plan, rows=ROWS)) is None
    both = importance(grid)
    assert both is not None
    assert list(both.shares) == ["num_worker_threads", "transports"]
    shown = importance(big)
    assert shown is not None
    assert list(shown.shares) == ["num_worker_threads", "transports", "intra_op_threads"]
    assert shown.shares["num_worker_threads"] > 0.8
    assert shown.rest == pytest.approx(max(0.0, 1 - sum(shown.shares.values())))
    assert shown.configs == 58


def test_importance_is_drawn_as_bars(big: StudyAnswer) -> None:
    shown = importance(big)
    assert shown is not None
    axes = Figure().add_subplot()
    draw_importance(shown, axes)
    widths = [bar.get_width() for bar in axes.patches]  # type: ignore[attr-defined]
    assert widths == pytest.approx([*(100 * share for share in shown.shares.values()), 0], abs=1)
    texts = [text.get_text() for text in axes.texts]
    assert {*shown.shares, REST} <= set(texts)
    figure = importance_figure(big)
    assert figure is not None
    assert figure.alt.startswith("num_worker_threads 8")
