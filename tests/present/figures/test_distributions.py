"""How the times of steps and calls are distributed, and where those of calls go."""

import numpy as np
from matplotlib.collections import LineCollection
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from testing.results import detail, known, quantiles, study_result
from tuner.present.configurations import names_of
from tuner.present.figures.distributions import (
    PARTS,
    call_time,
    call_time_figure,
    draw_call_time,
    draw_latency,
    latency,
    latency_figure,
)
from tuner.study.answer import StudyAnswer
from tuner.study.rows import TrialDetail
from tuner.world.measurement import CallPart


def test_a_row_is_drawn_from_its_quantiles() -> None:
    answer = study_result(details={1: detail(2.0), 0: detail(3.0)})
    shown = known(latency(answer))
    figure = Figure()
    draw_latency(shown, names_of(answer), figure)
    steps, calls = figure.axes
    assert [tick.get_text() for tick in steps.get_yticklabels()] == ["4 (best)", "16 (baseline)"]
    spans = [
        sorted(np.asarray(path.vertices)[:, 0].tolist())
        for lines in steps.collections
        if isinstance(lines, LineCollection)
        for path in lines.get_paths()
    ]
    best = quantiles(2.0)
    assert spans[:2] == [[best.p5, best.p95], [best.p25, best.p75]]
    marks = [(line.get_marker(), np.asarray(line.get_xdata())[0]) for line in steps.lines]
    assert marks[:2] == [("o", best.p50), ("x", best.p99)]
    assert calls.get_xlabel() == "time of a call, traced (ms)"
    assert steps.get_ylim() == calls.get_ylim()


def test_without_traces_there_is_one_panel() -> None:
    answer = study_result(details={0: TrialDetail(step_ms=quantiles(3.0))})
    shown = known(latency(answer))
    assert list(shown.panels) == ["time of a step (ms)"]
    figure = known(latency_figure(answer))
    assert "calls" not in figure.caption
    times = "16 (baseline) median step 3 ms, 99th percentile 6.6 ms"
    assert figure.alt == f"Times by num_worker_threads: {times}"


def test_of_a_program_there_are_calls_alone() -> None:
    details = {0: TrialDetail(call_ms=quantiles(3.0))}
    figure = known(latency_figure(study_result(details=details)))
    assert figure.caption.startswith("The calls in the trace of each configuration, on a log scale")


def test_many_configs_are_cut_to_the_fastest_and_the_baseline(big: StudyAnswer) -> None:
    shown, parts = known(latency(big)), known(call_time(big))
    kept = [*(row.trial for row in big.rows[:9]), 0]
    assert [*shown.details] == [*parts.parts_ms] == kept
    figure = known(latency_figure(big))
    assert "Shown are 10 of 58 configurations: the baseline, and the best." in figure.caption


def test_the_parts_are_stacked_and_differ_without_colours() -> None:
    parts: dict[CallPart, float] = {"served": 1.0, "queue": 0.5, "transport": 0.25, "pending": 0.0}
    answer = study_result(details={0: TrialDetail(call_parts_ms=parts)})
    shown = known(call_time(answer))
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
    assert len({colour.light for _, colour, _ in PARTS.values()}) == len(PARTS)
    hatched = [hatch for _, _, hatch in PARTS.values() if hatch]
    assert len(set(hatched)) == len(hatched)
