"""A metric is declared once, and everything that tells numbers follows from its entry."""

import json
from dataclasses import replace
from pathlib import Path

import pandas as pd
import pytest

from testing.results import METRICS as VALUES
from testing.results import ROWS, study_plan, study_result
from tests.present.screen import Screen
from tuner.present.notes import study_note, trial_notes
from tuner.present.pages import report_html
from tuner.present.summary import trials_part
from tuner.present.tables import write_trials_csv
from tuner.present.terminal import print_parts
from tuner.study.metrics import METRICS, Metric, metric_cells, metrics_of
from tuner.world.measurement import Measurement, RankUsage

SWITCHES = Metric(
    name="switches_per_step", label="context switches per step", unit="1", combine=max,
    read=lambda world: 10.0 * len(world.step_s), table_heading="context\nswitches",
)  # fmt: skip


def world(*step_s: float, cpu_s: float = 1.0, rss_mb: float = 100.0) -> Measurement:
    rank = RankUsage(name="worker0", cpu_s=cpu_s, peak_rss_mb=rss_mb, threads=4)
    return Measurement(step_s=step_s, wall_s=0.5, world_s=2.0, ranks=(rank,))


def test_a_new_entry_is_told_everywhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tuner.study.metrics.METRICS", (*METRICS, SWITCHES))
    row = replace(ROWS[0], metrics={**VALUES, "switches_per_step": 1234.5})
    answer = study_result(study_plan(), rows=(row, *ROWS[1:]))

    write_trials_csv(answer.trials, tmp_path / "trials.csv")
    column = pd.read_csv(tmp_path / "trials.csv")["switches_per_step"]
    assert (column[0], column.isna().sum()) == (1234.5, 4)
    trials = json.loads(json.dumps(answer.to_json()))["trials"]
    assert [trial["switches_per_step"] for trial in trials] == [1234.5, None, None, None, None]
    assert "| context switches per step (1) | 1230 |" in trial_notes(answer)[1]
    assert "| context switches per step (1) |" in study_note(answer)
    page, screen = report_html(answer, []), Screen()
    assert '<th scope="col">context switches per step (1)</th>' in page
    print_parts([trials_part(answer)], screen.console)
    assert "switches" in screen.text
    assert "1230" in screen.text


def test_worlds_are_averaged_but_memory_is_the_most() -> None:
    worlds = [world(0.1, 0.1, cpu_s=1.0, rss_mb=100.0), world(0.1, 0.1, cpu_s=2.0, rss_mb=300.0)]
    found = metrics_of(worlds, None)
    assert found == {"cpu_cores": 3.0, "step_p99_ms": 100.0, "cpu_ms_per_step": 750.0,
                     "peak_rss_mb": 300.0}  # fmt: skip
    assert metrics_of([], None) == {}
    # A traced world tells its metrics alone.
    traced = world(0.1).model_copy(update={"tracing_overhead": 1.25})
    assert metrics_of([], traced) == {"tracing_overhead": 1.25}
    assert "tracing_overhead" not in metrics_of([traced], None)


def test_metrics_of_one_label_share_a_cell() -> None:
    (cell,) = (each for each in metric_cells() if each.heading == "parallelism, mean/max")
    assert cell.text({"parallelism_mean": 3.52, "parallelism_max": 4.0}) == "3.5/4"
    assert cell.text({"parallelism_mean": 3.52}) == "3.5/?"
    assert cell.text({}) == ""
