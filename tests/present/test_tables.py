import html
import json
import math
from dataclasses import replace
from pathlib import Path

import pandas as pd
import pytest

from tests.plan.specs import for_all, threads
from tests.present.results import (
    ROWS,
    against,
    failed,
    measured,
    nothing_ran,
    study_plan,
    study_result,
)
from tests.present.screen import Screen
from tuner.files import shown
from tuner.plan.config import Config
from tuner.plan.study_plan import StudyPlan
from tuner.present.failures import failure_lines
from tuner.present.notes import study_note
from tuner.present.report.study_report import report_html
from tuner.present.summary import print_summary
from tuner.present.tables import (
    number_headings,
    ratio_note,
    spare_columns,
    trials_table,
    why_facts,
    why_table,
    write_trials_csv,
)
from tuner.study.answer import StudyAnswer
from tuner.study.folder import STUDIES
from tuner.study.rows import TrialDetail
from tuner.world.measurement import Quantiles


def printed(result: StudyAnswer, width: int = 120) -> list[list[str]]:
    """The words of each line of the table, empty lines and rules left out."""
    screen = Screen(width=width)
    screen.console.print(trials_table(result))
    return [line.split() for line in screen.lines if line.strip(" ─")]


COMPARED = (
    against(ROWS[0], 1.5, 1.4, 1.62),
    against(ROWS[1], 1.45, 1.3, 1.6),
    against(ROWS[2], 1.0, 1.0, 1.0),
    against(ROWS[3], 0.5, 0.0, math.inf, blocks=1),
    ROWS[4],
)


def test_the_table_has_a_row_per_config_with_what_was_measured(plan: StudyPlan) -> None:
    result = study_result(plan, rows=COMPARED)
    *header, first, second, baseline, eliminated, failure = printed(result)
    assert [" ".join(line) for line in header] == [
        "num_ RPC CPU",
        "worker_ step against the CPUs total paral-",
        "threads (ms) baseline worlds used (ms) lelism outcome",
    ]
    assert first == [
        *["4", "2", "1.50", "(1.40", "to", "1.62)", "5", "1.75", "8.12", "3.5/4", "best"]
    ]
    assert second == [
        *["8", "2.05", "1.45", "(1.30", "to", "1.60)", "5", "1.75", "8.12", "3.5/4", "tied"]
    ]
    assert baseline == ["16", "3", "1", "5", "1.75", "8.12", "3.5/4", "baseline"]
    assert eliminated == ["1", "6", "?", "5", "1.75", "8.12", "3.5/4", "eliminated"]
    assert failure == ["32", "0", "crashed"]


def test_it_is_said_what_the_ratios_are_and_what_is_not_known(plan: StudyPlan) -> None:
    said = (
        "Against the baseline: how many times as fast as num_worker_threads=16, with the 95 % "
        "interval, from the blocks that measured both."
    )
    assert ratio_note(study_result(plan)) is None
    assert ratio_note(study_result(plan, rows=COMPARED[:3])) == said
    result = study_result(plan, rows=COMPARED)
    assert ratio_note(result) == f"{said} ?: too uncertain to say."
    screen = Screen(width=200)
    print_summary(result, screen.console)
    for text in (screen.text, study_note(result), report_html(result, [])):
        assert f"{said} ?: too uncertain to say." in html.unescape(text)
        assert "1.50 (1.40 to 1.62)" in text


def test_an_interval_too_wide_for_a_number_that_is_all_on_one_side_has_a_word(
    plan: StudyPlan,
) -> None:
    slow = against(ROWS[3], 0.05, 0.01, 0.4)
    fast = against(ROWS[1], 12.0, 2.5, 40.0)
    either = against(ROWS[0], 1.0, 0.3, 3.0)
    result = study_result(plan, rows=(fast, either, COMPARED[2], slow), best=threads(16))
    cells = [
        " ".join(line).split("much ")[-1] for line in printed(result) if "much " in " ".join(line)
    ]
    assert [cell.split()[0] for cell in cells] == ["faster", "slower"]


def test_what_was_seen_once_and_is_far_off_is_said_without_an_interval(plan: StudyPlan) -> None:
    far = against(replace(ROWS[3], value=1660.0, samples=1), 0.05, 0.0, math.inf, blocks=1)
    fast = against(replace(ROWS[1], value=0.25), 12.0, 0.0, math.inf, blocks=2)
    steps = Quantiles(p5=1650.0, p25=1655.0, p50=1660.0, p75=1665.0, p95=1670.0, p99=1670.0)
    result = study_result(
        plan,
        rows=(fast, COMPARED[2], far),
        best=threads(16),
        details={far.trial: TrialDetail(step_ms=steps)},
    )
    cells = [" ".join(line) for line in printed(result)]
    assert any(" much slower, once " in each for each in cells)
    assert any(" much faster, twice " in each for each in cells)
    note = ratio_note(result) or ""
    assert note.endswith(
        "Too few blocks for an interval, but seen: num_worker_threads=8 had 0.25 ms; "
        "num_worker_threads=1 had 1660 ms (steps 1650 to 1670); num_worker_threads=16 had 3 ms "
        "(the baseline)."
    )
    assert "?" not in note
    near = against(ROWS[3], 0.5, 0.0, math.inf, blocks=1)
    assert "?: " in (ratio_note(study_result(plan, rows=(*COMPARED[:3], near))) or "")


def test_without_a_comparison_there_is_no_column_of_ratios(plan: StudyPlan) -> None:
    assert not any("against" in line for line in printed(study_result(plan)))


def test_the_baseline_can_be_the_best(plan: StudyPlan) -> None:
    rows = printed(study_result(plan, best=threads(16), rows=ROWS[2:3]))
    assert rows[-1][-2:] == ["best,", "baseline"]


def test_one_world_has_no_ratio(plan: StudyPlan) -> None:
    rows = printed(study_result(plan, rows=(measured(1, threads(4), 2.0),)))
    assert rows[-1] == ["4", "2", "5", "1.75", "8.12", "3.5/4", "best"]


def test_there_is_a_column_for_each_tuned_knob_of_each_role() -> None:
    best = Config.from_json(
        {"*": {"transports": ["shm", "uv"]}, "server": {"num_worker_threads": 4}}
    )
    baseline = for_all(transports=None)
    result = study_result(
        study_plan(),
        best=best,
        rows=(measured(1, best, 2.0), measured(0, baseline, 3.0)),
    )
    *header, first, second = printed(result)
    assert header[0] == ["server."]
    assert {"transports", "threads"} <= set(header[-1])
    assert first[:3] == ["shm+uv", "4", "2"]
    assert second[:3] == ["default", "-", "3"]


def test_a_narrow_screen_lacks_metrics_before_the_name_of_a_knob_is_broken() -> None:
    best = Config.from_json({"server": {"num_worker_threads": 4, "transports": ["shm", "uv"]}})
    rows = (against(measured(1, best, 2.0), 1.5, 1.4, 1.62), COMPARED[2])
    headings = ["transports", "worlds", "used", "RPC", "lelism"]
    seen = set()
    for kept in (best, rows[1].config):
        answer = study_result(study_plan(), best=kept, rows=rows)
        # From 77 on there is room for all but the metrics.
        for width in range(77, 111):
            screen = Screen(width=width)
            print_summary(answer, screen.console)
            known = [each for each in headings if each in screen.text.partition("──")[0].split()]
            assert known == headings[: len(known)], width
            seen.add(len(known))
            assert "1.50 (1.40 to 1.62)" in screen.text
    assert seen == {2, 3, 4, 5}


def test_a_long_value_is_whole_where_metrics_are_left_out() -> None:
    channels = ["basic", "cma", "cuda_ipc", "cuda_xth", "cuda_basic"]
    best = Config.from_json({"server": {"channels": channels, "num_worker_threads": 4}})
    rows = (against(measured(1, best, 2.0), 1.5, 1.4, 1.62), COMPARED[2])
    answer = study_result(study_plan(), best=best, rows=rows)
    for width in (80, 90, 100, 120):
        screen = Screen(width=width)
        print_summary(answer, screen.console)
        rule = next(place for place, line in enumerate(screen.lines) if "───" in line)
        cells = [line.split()[0] for line in screen.lines[rule + 1 : rule + 4]]
        assert "".join(cells).startswith("+".join(channels)), width


def test_the_objective_is_never_left_out() -> None:
    plan = study_plan(objective="rpc_cpu_total_ms")
    answer = study_result(plan, rows=COMPARED)
    assert 1 not in spare_columns(answer)
    assert spare_columns(answer) == [*range(4, 4 + len(spare_columns(answer)))]


def test_the_confidence_and_the_unit_are_those_of_the_plan() -> None:
    plan = study_plan(confidence="99%", objective="cpu_ms_per_step")
    result = study_result(plan, rows=COMPARED)
    assert "99 % interval" in number_headings(result)
    assert "with the 99 % interval" in (ratio_note(result) or "")
    assert "how many times as good" not in (ratio_note(result) or "")
    first, _, third = printed(result)[:3]
    assert "CPU" in first
    assert "(ms)" in third


def test_when_nothing_ran_no_config_is_marked_best(plan: StudyPlan) -> None:
    *_, baseline, other = printed(nothing_ran(plan))
    assert baseline == ["16", "0", "crashed,", "baseline"]
    assert other == ["4", "0", "crashed"]


def test_long_steps_are_plain_numbers(plan: StudyPlan) -> None:
    rows = printed(study_result(plan, rows=(measured(1, threads(4), 1234.5, (1200.0, 1300.0)),)))
    assert not [word for word in rows[-1] if "e+" in word]


def test_the_table_fits_80_columns(plan: StudyPlan) -> None:
    result = study_result(plan, rows=COMPARED)
    assert printed(result, width=80) == printed(result)


def test_failures_have_a_line_with_the_reason(plan: StudyPlan) -> None:
    assert failure_lines(study_result(plan)) == [
        "num_worker_threads=32: crashed: server failed first"
    ]
    assert failure_lines(study_result(plan, rows=ROWS[:-1])) == []


def test_what_is_said_of_failures_that_are_alike_is_true_of_each(plan: StudyPlan) -> None:
    reasons = {2: "all 2 threads wait", 4: "all 4 threads wait", 8: "no memory", 32: "no memory"}
    rows = tuple(
        failed(trial, threads(count), f"{reason}; see failures/{count}")
        for trial, (count, reason) in enumerate(reasons.items())
    )
    folder = shown(STUDIES / "udf" / "failures")
    assert failure_lines(study_result(plan, best=None, challenger=None, rows=rows)) == [
        f"num_worker_threads=2: crashed: all 2 threads wait; see {folder}/2; "
        "alike but for numbers: num_worker_threads=4",
        f"num_worker_threads=8, num_worker_threads=32: crashed: no memory; see {folder}/8",
    ]


@pytest.fixture
def csv(plan: StudyPlan, tmp_path: Path) -> pd.DataFrame:
    path = tmp_path / "trials.csv"
    write_trials_csv(study_result(plan).trials, path)
    return pd.read_csv(path)


def test_the_csv_has_its_version_and_the_columns_of_the_contract(csv: pd.DataFrame) -> None:
    assert list(csv.columns) == [
        "format", "trial", "label", "config", "outcome", "failure", "samples", "worlds_run",
        "worlds_failed", "value", "ci_low", "ci_high", "speedup", "speedup_ci_low",
        "speedup_ci_high", "paired_blocks",
        "cpu_cores", "step_p99_ms", "cpu_ms_per_step", "peak_rss_mb", "rpc_cpu_total_ms",
        "parallelism_mean", "parallelism_max", "tracing_overhead", "others_cpus",
        "disturbed_worlds", "diagnosis", "tied_with_best", "broken_limits", "eliminated",
    ]  # fmt: skip
    assert set(csv["format"]) == {2}


def test_the_csv_has_a_line_per_config(csv: pd.DataFrame) -> None:
    assert list(csv["label"]) == [row.label for row in ROWS]
    assert list(csv["value"])[:4] == [2.0, 2.05, 3.0, 6.0]
    assert list(csv["tied_with_best"]) == [True, True, False, False, False]


def test_the_configs_in_the_csv_read_back(csv: pd.DataFrame) -> None:
    found = [Config.from_json(json.loads(text)) for text in csv["config"]]
    assert found == [threads(count) for count in (4, 8, 16, 1, 32)]


def test_what_was_not_measured_is_empty_in_the_csv(csv: pd.DataFrame) -> None:
    last = csv.iloc[-1]
    assert math.isnan(last["value"])
    assert last["failure"] == "server failed first"
    assert csv["failure"].isna().sum() == 4


def test_writing_the_csv_leaves_the_trials_as_they_are(plan: StudyPlan, tmp_path: Path) -> None:
    trials = study_result(plan).trials
    before = trials.copy()
    write_trials_csv(trials, tmp_path / "trials.csv")
    pd.testing.assert_frame_equal(trials, before)


def test_a_message_of_several_lines_stays_one_cell(plan: StudyPlan, tmp_path: Path) -> None:
    message = 'server failed first:\n"out, of luck"'
    result = study_result(plan, rows=(failed(0, threads(16), message),))
    write_trials_csv(result.trials, tmp_path / "trials.csv")
    assert list(pd.read_csv(tmp_path / "trials.csv")["failure"]) == [message]


def test_a_speedup_that_is_too_uncertain_is_empty_in_the_csv(
    plan: StudyPlan, tmp_path: Path
) -> None:
    unknown = against(ROWS[0], 5e-42, 1e-42, 2e-41)
    answer = study_result(plan, rows=(unknown, *COMPARED[1:]))
    write_trials_csv(answer.trials, tmp_path / "trials.csv")
    read = pd.read_csv(tmp_path / "trials.csv")
    assert read.loc[0, ["speedup", "speedup_ci_low", "speedup_ci_high"]].isna().all()
    assert read.loc[1, "speedup"] == 1.45
    assert answer.rows[0].to_json()["speedup"] is None


def test_the_reasons_have_room_on_80_columns_and_break_no_name() -> None:
    answer = study_result(study_plan())
    table, screen = why_table(answer), Screen(width=80)
    assert table is not None
    screen.console.print(table)
    headings, facts = why_facts(answer)
    words = " ".join(screen.lines).split()
    assert all(heading.split()[-1] in words for heading in headings)
    # Each fact's last text ends inside the screen.
    assert all(fact[-1].split()[-1] in words for fact in facts if fact[-1])
    assert all(len(line.rstrip()) < 80 for line in screen.lines)
