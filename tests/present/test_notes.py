"""The Markdown that the dashboard shows beside a study and beside each trial."""

from dataclasses import replace

import pytest
from markdown_it import MarkdownIt

from tests.plan.specs import threads
from tests.present.results import ROWS, failed, measured, nothing_ran, study_result
from tuner.plan.study_plan import StudyPlan
from tuner.present.notes import FOLDED_WIDTH, study_note, trial_notes
from tuner.present.wording import verdict_sentence
from tuner.study.rows import TrialDetail
from tuner.world.measurement import Quantiles

QUANTILES = Quantiles(p5=1.5, p25=1.75, p50=2.0, p75=2.5, p95=3.0, p99=12.345)


def html(note: str) -> str:
    """What a renderer of GitHub's Markdown, such as the dashboard's, makes of a note."""
    return str(MarkdownIt("commonmark").enable(["table", "strikethrough"]).render(note))


def test_the_note_on_a_study_begins_with_the_verdict(plan: StudyPlan) -> None:
    answer = study_result(plan)
    note = study_note(answer)
    assert note.startswith(f"**{verdict_sentence(answer)}**\n\n")
    assert "within 3 % of num_worker_threads=4" in note
    assert "```python\nimport torch\nimport torch.distributed.rpc as rpc\n" in note
    assert "rpc.TensorPipeRpcBackendOptions(num_worker_threads=4)" in note


def test_every_config_is_a_row_of_the_table(plan: StudyPlan) -> None:
    note = study_note(study_result(plan))
    assert "| trial | num_worker_threads | median step time (ms) | 95 % interval |" in note
    assert "| 1 | 4 | 2 | 1.9-2.1 | 5 | 1.75 | 8.12 | 3.5/4 | best |" in note
    assert "| 0 | 16 | 3 | 2.9-3.1 | 5 | 1.75 | 8.12 | 3.5/4 | baseline |" in note
    assert "| 4 | 32 |  |  | 0 |  |  |  | crashed |" in note
    assert html(note).count("<tr>") == (1 + len(ROWS)) + 5


def test_it_says_what_was_measured_and_where(plan: StudyPlan) -> None:
    note = study_note(study_result(plan))
    for line in (
        "- worlds: 60 worlds, 20 of them in 12 blocks, in 42s of 1m; each has new processes, and "
        "after a warm-up at least 100ms of timed steps",
        "- objective: median step time (ms), measured with tracing off; lower is better",
        "- CPU: Abacus 9000, 2 logical CPUs",
        "- date: 2026-11-21 09:30 UTC",
        "- torch: 2.13.0",
    ):
        assert f"\n{line}" in note


def test_a_study_that_was_interrupted_has_no_lines_to_paste(plan: StudyPlan) -> None:
    answer = study_result(plan, best=None, verdict=None, speedup=None, interrupted=True)
    note = study_note(answer)
    assert note.startswith("**Not finished, after 12 blocks: there is no verdict yet.")
    assert "```" not in note
    assert "measured so far" in trial_notes(answer)[1]
    assert "eliminated" in trial_notes(answer)[3]


def test_a_study_in_which_nothing_ran_says_so(plan: StudyPlan) -> None:
    note = study_note(nothing_ran(plan))
    assert note.startswith("**No configuration of the search space could run the workload.**")
    assert "```" not in note


def test_a_mark_of_the_dashboard_that_misleads_is_explained(plan: StudyPlan) -> None:
    kept = study_result(plan, best=threads(16), verdict="keep-baseline")
    explained = (
        "The dashboard marks trial 1 as the best because its value is the lowest; the answer "
    )
    assert explained + "is trial 0" in study_note(kept)
    notes = trial_notes(kept)
    assert [number for number, note in notes.items() if "The dashboard marks" in note] == [1]
    assert [number for number, note in notes.items() if ": the answer\n" in note] == [0]
    assert notes[1].startswith("## num_worker_threads=4: not the answer\n")
    assert "The dashboard marks" not in study_note(study_result(plan))


def test_an_eliminated_config_is_not_explained_as_marked(plan: StudyPlan) -> None:
    # Optuna's best trial is one that was completed.
    rows = (measured(3, threads(1), 1.0, outcome="eliminated"), *ROWS[:3])
    assert "The dashboard marks" not in study_note(study_result(plan, rows=rows))


def test_the_note_on_a_trial_names_it_and_has_its_numbers(plan: StudyPlan) -> None:
    details = {
        1: TrialDetail(
            step_ms=QUANTILES, call_ms=QUANTILES, call_parts_ms={"queue": 0.5, "on_cpu": 1.25}
        )
    }
    assert trial_notes(study_result(plan, details=details))[1].split("\n") == [
        "## num_worker_threads=4: the answer",
        "",
        "best",
        "",
        "| number | value |",
        "| :-- | :-- |",
        "| median step time (ms) | 2, 95 % interval 1.9 to 2.1 |",
        "| worlds | 5 |",
        "| CPUs used | 1.75 |",
        "| 99th percentile of the step time (ms) | 2.75 |",
        "| CPU time of all ranks per step (ms) | 3.5 |",
        "| peak memory (MB) | 201 |",
        "| RPC CPU total per step (ms) | 8.12 |",
        "| parallelism, mean/max | 3.5/4 |",
        "| tracing overhead | 1.24 |",
        "| step time, percentiles 5, 50, 95, 99 (ms) | 1.5, 2, 3, 12.3 |",
        "| latency of a call, percentiles 5, 50, 95, 99 (ms) | 1.5, 2, 3, 12.3 |",
        "| where the time of a call goes, mean (ms) | queue 0.5, on cpu 1.25 |",
        "",
        "What limits num_worker_threads=4.",
    ]


def test_unknown_numbers_have_no_line(plan: StudyPlan) -> None:
    notes = trial_notes(study_result(plan))
    assert "nan" not in "".join(notes.values())
    assert "percentiles" not in notes[1]
    assert notes[4] == "## num_worker_threads=32\n\nFailed, crashed: server failed first"


def test_a_baseline_that_failed_is_marked_as_both(plan: StudyPlan) -> None:
    notes = trial_notes(nothing_ran(plan))
    assert "Failed, crashed, baseline: server failed first" in notes[0]


def test_long_sentences_are_folded(plan: StudyPlan) -> None:
    row = replace(ROWS[0], diagnosis="The calls wait. " * 40)
    note = trial_notes(study_result(plan, rows=(row, *ROWS[1:])))[1]
    assert max(map(len, note.split("\n"))) <= FOLDED_WIDTH + 1
    assert html(note).count("The calls wait.") > 30
    assert "<br" in html(note)


@pytest.mark.parametrize(
    "message",
    [
        "TypeError: f() got *two* `values` for <a> & [b](c)",
        "# no heading",
        "a | b ~~c~~ \\ {d}",
        "__init__ of _Worker failed",
    ],
)
def test_a_message_is_shown_unchanged(plan: StudyPlan, message: str) -> None:
    rows = (*ROWS[:4], failed(4, threads(32), message))
    note = trial_notes(study_result(plan, rows=rows))[4]
    escaped = message.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    assert html(note) == f"<h2>num_worker_threads=32</h2>\n<p>Failed, crashed: {escaped}</p>\n"


@pytest.mark.parametrize("mark", ["- first", "+ first", "1. first", "2) first", "=== first"])
def test_a_folded_line_is_no_item_of_a_list(plan: StudyPlan, mark: str) -> None:
    message = f"{'a' * FOLDED_WIDTH} {mark}"
    rows = (*ROWS[:4], failed(4, threads(32), message))
    shown = html(trial_notes(study_result(plan, rows=rows))[4])
    assert "<li>" not in shown
    assert "<h1>" not in shown
    assert f"<br />\n{mark}" in shown
