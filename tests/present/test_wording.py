import math
from dataclasses import replace
from typing import Any

import pytest

from testing.results import ROWS, failed, measured, nothing_ran, study_plan, study_result
from testing.specs import threads
from tuner.decide.statistics import Interval
from tuner.files import shown
from tuner.plan.objectives import BrokenLimit, Limit
from tuner.present.failures_told import failing_sentences, failure_lines, why_nothing_ran
from tuner.present.notes import study_note, trial_notes
from tuner.present.pages import report_html
from tuner.present.sentences import as_good_sentence
from tuner.present.wording import verdict_sentence
from tuner.study.evidence import Cause
from tuner.study.folder import STUDIES

UNDECIDED = {"best": threads(16), "verdict": "undecided", "speedup": Interval(1.0, 1.0, 1.0)}
KEPT = {**UNDECIDED, "verdict": "keep-baseline"}
NO_RIVAL = {"speedup": None, "challenger": None, "challenger_speedup": None}
SLOWER = Interval(0.5, 0.49, 0.52)
LIMIT = BrokenLimit(Limit.read("peak_rss_mb<=2000"), 2400.0)
OVER = replace(measured(0, threads(16), 3.0, outcome="infeasible"), broken=(LIMIT,))
DEFAULTS = "PyTorch's defaults"


def faster(low: float, high: float) -> dict[str, Any]:
    """The best is twice as fast as the baseline, with this interval."""
    return dict.fromkeys(("speedup", "challenger_speedup"), Interval(2.0, low, high))


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({**KEPT, **NO_RIVAL}, f"Keep {DEFAULTS}: nothing else could run."),
        ({**UNDECIDED, **NO_RIVAL, "elapsed_s": 4.0},
         f"Not decided in 4s: that was too short to compare {DEFAULTS} with anything."),
        *(({**UNDECIDED, "challenger_speedup": unsure},
           f"Not decided in 42s: num_worker_threads=4 may be faster or slower than {DEFAULTS}.")
          for unsure in (Interval(0.95, 0.0, math.inf), Interval(2.0, 0.5, 2.1))),
        ({**UNDECIDED, **NO_RIVAL, "best": threads(4),
          "rows": (replace(ROWS[0], samples=2), failed(0, threads(16)))},
         f"{DEFAULTS} crash: use num_worker_threads=4. num_worker_threads=4, "
         "the best of the others, had only 2 worlds."),
        ({**UNDECIDED, **NO_RIVAL, "best": None, "rows": (failed(0, threads(16)),)},
         f"{DEFAULTS} crash. Not decided: 42s was too short to "
         "measure anything else."),
        ({"speedup": SLOWER, "challenger_speedup": SLOWER, "rows": (ROWS[0], OVER)},
         f"Use num_worker_threads=4: {DEFAULTS} breaks a limit (peak_rss_mb 2400 > 2000, by 20 %)."
         " It is 50 % slower (-51 to -48 %)."),
        ({**NO_RIVAL, "rows": (OVER, replace(ROWS[0], value=math.nan)), "best": None,
          "verdict": "undecided"},
         f"Not decided: {DEFAULTS} breaks a limit (peak_rss_mb 2400 > 2000, by 20 %). 42s was "
         "too short to measure anything else."),
        ({"rows": (*ROWS[:2], replace(ROWS[2], worlds_run=12, worlds_failed=6, unreliable=True))},
         f"Use num_worker_threads=4: {DEFAULTS} failed in 6 of 12 worlds, num_worker_threads=4 in "
         "0 of 6. It is 1.50 times as fast (1.40 to 1.62)."),
        (faster(1.1, 4.5), f"Use num_worker_threads=4: at least 1.10 times as fast as {DEFAULTS}."),
        (faster(1.004, 4.5), f"Use num_worker_threads=4: faster than {DEFAULTS}. By how much is "
         "too uncertain to say."),
        # An end of 1.00 would not look like a gain.
        (faster(1.004, 3.0), f"Use num_worker_threads=4: 100 % faster than {DEFAULTS} (+0.4 to "
         "+200 %)."),
    ],
)  # fmt: skip
def test_the_verdicts_that_few_searches_have(changes: dict[str, Any], said: str) -> None:
    assert verdict_sentence(study_result(**changes)) == said


def test_a_verdict_by_another_objective_or_confidence_says_so() -> None:
    plan = study_plan(objective="cpu_ms_per_step", confidence="99%")
    assert verdict_sentence(study_result(plan)) == (
        "Use num_worker_threads=4: 1.50 times as good as PyTorch's defaults (1.40 to 1.62, 99 % "
        "confidence), by CPU time of all ranks per step."
    )


def test_each_cause_of_one_configuration_has_its_own_number_of_worlds() -> None:
    rows = (replace(ROWS[0], worlds_run=14, worlds_failed=3), *ROWS[1:])
    causes = (Cause("crashed", "no shard", {1: 2}), Cause("timed-out", "not done", {1: 1}))
    assert failing_sentences(study_result(rows=rows, causes=causes)) == [
        "num_worker_threads=4 failed in 2 of 14 worlds: crashed: no shard.",
        "num_worker_threads=4 failed in 1 of 14 worlds: timed-out: not done.",
    ]


def test_what_is_said_of_failures_that_are_alike_is_true_of_each() -> None:
    reasons = {2: "all 2 threads wait", 4: "all 4 threads wait", 8: "no memory", 32: "no memory"}
    rows = tuple(
        failed(trial, threads(count), f"{reason}; see failures/{count}")
        for trial, (count, reason) in enumerate(reasons.items())
    )
    folder = shown(STUDIES / "udf" / "failures")
    assert failure_lines(study_result(best=None, challenger=None, rows=rows)) == [
        f"num_worker_threads=2: crashed: all 2 threads wait; see {folder}/2; "
        "alike but for numbers: num_worker_threads=4",
        f"num_worker_threads=8, num_worker_threads=32: crashed: no memory; see {folder}/8",
    ]


def test_who_is_not_told_apart_from_the_best_is_named_once() -> None:
    result = study_result(not_told_apart=(2, 3))  # 2 is tied
    assert as_good_sentence(result) == (
        "Not told apart from the best, and at most 3 % faster: num_worker_threads=1."
    )
    assert as_good_sentence(replace(result, not_excluded=(3,))) is None
    assert as_good_sentence(replace(result, verdict="keep-baseline")) is None


def test_where_little_was_tried_nothing_is_said_of_the_whole_space() -> None:
    nothing = nothing_ran()
    left = replace(failed(2, threads(8)), outcome="not-measured", failure=None, worlds_run=0)
    one = replace(nothing, rows=(nothing.rows[0], left, replace(left, trial=3)))
    assert verdict_sentence(one) == (
        "Only num_worker_threads=16 was tried, and failed in all 4 worlds."
    )
    tried = "only num_worker_threads=16 was tried, and failed in all 4 worlds"
    assert why_nothing_ran(one).startswith(f"{tried}: crashed, server failed first; see ")
    two = replace(nothing, rows=(*nothing.rows, left))
    assert verdict_sentence(two) == (
        "None of the 2 configurations that were tried could run the workload, and 1 was not tried."
    )


def test_names_of_functions_in_a_diagnosis_are_code() -> None:
    said = "worker0 ran calls of udf_with_ops, of torch.nn.log_softmax, and of <lambda>: (a | b)."
    answer = study_result(rows=tuple(replace(row, diagnosis=said) for row in ROWS))
    page, note = report_html(answer, []), study_note(answer)
    for name in ("udf_with_ops", "torch.nn.log_softmax"):
        assert f"of <code>{name}</code>," in page
        assert f"of `{name}`," in note
        assert f"of `{name}`," in trial_notes(answer)[1].replace("\\\n", " ")
    assert "&lt;lambda&gt;" in page
    assert "<code>worker" not in page
    assert r"\<lambda\>: (a \| b)." in note
