import math
from dataclasses import replace

import pytest

from tests.plan.specs import for_all, threads
from tests.present.results import FASTER, ROWS, failed, nothing_ran, study_result
from tuner.decide.statistics import Interval
from tuner.plan.objectives import OBJECTIVES
from tuner.plan.study_plan import StudyPlan
from tuner.present.failures import why_nothing_ran
from tuner.present.notes import study_note, trial_notes
from tuner.present.report.pages import prose
from tuner.present.report.study_report import report_html
from tuner.present.wording import (
    as_good_sentence,
    not_excluded_sentence,
    tied_sentence,
    verdict_sentence,
)
from tuner.study.rows import Observation

NEARLY_EQUAL = Interval(1.021, 0.99, 1.028)


def test_better(plan: StudyPlan) -> None:
    assert verdict_sentence(study_result(plan)) == (
        "Use num_worker_threads=4: 1.50 times as fast as the baseline num_worker_threads=16 "
        "(1.40 to 1.62, 95 % confidence), by median step time."
    )


def test_better_names_the_objective_and_the_confidence_of_the_plan(plan: StudyPlan) -> None:
    measuring = plan.measuring.model_copy(update={"confidence": 0.9})
    result = study_result(
        plan.model_copy(update={"measuring": measuring}), objective=OBJECTIVES["cpu_ms_per_step"]
    )
    assert verdict_sentence(result).endswith(
        "(1.40 to 1.62, 90 % confidence), by CPU time of all ranks per step."
    )


def test_tie(plan: StudyPlan) -> None:
    result = study_result(
        plan, verdict="tie", speedup=NEARLY_EQUAL, challenger_speedup=NEARLY_EQUAL
    )
    assert verdict_sentence(result) == (
        "A tie: num_worker_threads=4 is 2.1 % faster (1.0 % slower to 2.8 % faster, 95 % "
        "confidence) than the baseline num_worker_threads=16, which is within 3 % either way, and "
        "it is the cheaper of the two."
    )


def test_keep_the_baseline(plan: StudyPlan) -> None:
    result = study_result(
        plan,
        best=threads(16),
        verdict="keep-baseline",
        speedup=Interval(1.0, 1.0, 1.0),
        challenger_speedup=Interval(0.952, 0.93, 0.975),
    )
    assert verdict_sentence(result) == (
        "Keep num_worker_threads=16: the strongest rival, num_worker_threads=4, is 4.8 % slower "
        "(7.0 % to 2.5 % slower, 95 % confidence), so it gains less than 3 %."
    )


def test_keep_the_baseline_without_a_rival(plan: StudyPlan) -> None:
    result = study_result(
        plan,
        best=threads(16),
        verdict="keep-baseline",
        challenger=None,
        challenger_speedup=None,
    )
    assert verdict_sentence(result) == (
        "Keep num_worker_threads=16: nothing else in the search space could run."
    )


def test_undecided(plan: StudyPlan) -> None:
    result = study_result(
        plan,
        best=threads(16),
        verdict="undecided",
        speedup=Interval(1.0, 1.0, 1.0),
        challenger_speedup=Interval(1.05, 0.97, 1.13),
    )
    assert verdict_sentence(result) == (
        "Undecided, so keep num_worker_threads=16: the strongest rival, num_worker_threads=4, is "
        "5.0 % faster (3.0 % slower to 13.0 % faster, 95 % confidence), and 42s of measuring "
        "cannot tell whether that is a gain of 3 %; --resume --budget 140s or more continues it."
    )


def test_undecided_says_what_time_would_decide_and_who_may_be_better(plan: StudyPlan) -> None:
    result = study_result(
        plan,
        best=threads(16),
        verdict="undecided",
        speedup=Interval(1.0, 1.0, 1.0),
        challenger_speedup=Interval(1.01, 0.99, 1.02),
        more_s=95.2,
    )
    others = tuple(row.trial for row in result.rows if row.label == "num_worker_threads=8")
    result = replace(result, not_excluded=others)
    assert verdict_sentence(result).endswith(
        "95 % confidence), but others were seen too little to tell whether one gains more; about "
        "1m36s more would tell 3 %: --resume --budget 140s continues it."
    )
    said = (
        "Not excluded: num_worker_threads=8 may be more than 3 % faster than num_worker_threads=16."
    )
    assert not_excluded_sentence(result) == said
    assert said in study_note(result)
    assert prose(said) in report_html(result, [])
    assert not_excluded_sentence(replace(result, not_excluded=())) is None


def test_who_is_not_told_apart_from_the_best_is_named_once(plan: StudyPlan) -> None:
    by_config = {row.config: row.trial for row in ROWS}
    tied, other = by_config[threads(8)], by_config[threads(1)]
    result = study_result(plan, not_told_apart=(tied, other))
    said = (
        "Not told apart: num_worker_threads=1 may be as fast as num_worker_threads=4, and at most "
        "3 % faster."
    )
    assert as_good_sentence(result) == said
    assert said in study_note(result)
    assert as_good_sentence(replace(result, not_excluded=(other,))) is None
    assert as_good_sentence(replace(result, verdict="keep-baseline")) is None


def test_who_looks_slower_is_not_said_to_be_perhaps_faster(plan: StudyPlan) -> None:
    result = study_result(plan, best=threads(16), verdict="keep-baseline")
    (other,) = [row.trial for row in result.rows if row.label == "num_worker_threads=8"]
    observations = tuple(
        Observation(trial, block, "race", 10 + slower + block / 10)
        for block in range(4)
        for trial, slower in ((0, 0), (other, 3 + block / 7))
    )
    result = replace(result, observations=observations, not_excluded=(other,))
    assert not_excluded_sentence(result) == (
        "num_worker_threads=8 looks slower than num_worker_threads=16, but in too few blocks to be "
        "sure."
    )


def test_undecided_without_a_comparison(plan: StudyPlan) -> None:
    result = study_result(
        plan,
        best=threads(16),
        verdict="undecided",
        challenger=None,
        challenger_speedup=None,
        elapsed_s=4.0,
    )
    assert verdict_sentence(result) == (
        "Undecided, so keep num_worker_threads=16: 4s was too short to compare it with "
        "anything; --resume --budget 140s or more continues it."
    )


def test_undecided_with_a_challenger_that_too_few_pairs_measured(plan: StudyPlan) -> None:
    result = study_result(
        plan, best=threads(16), verdict="undecided", speedup=None, challenger_speedup=None
    )
    assert verdict_sentence(result).startswith(
        "Undecided, so keep num_worker_threads=16: 42s was too short"
    )


def test_an_endless_interval_is_not_printed(plan: StudyPlan) -> None:
    result = study_result(
        plan,
        best=threads(16),
        verdict="undecided",
        speedup=Interval(1.0, 1.0, 1.0),
        challenger_speedup=Interval(0.95, 0.0, math.inf),
    )
    assert verdict_sentence(result).startswith(
        "Undecided, so keep num_worker_threads=16: 42s of measuring cannot tell whether the "
        "strongest rival, num_worker_threads=4, is faster or slower; --resume"
    )


@pytest.mark.parametrize(
    ("verdict", "low", "high", "said"),
    [
        ("better", 1.1, 4.5, "Use num_worker_threads=4: faster than the baseline num_worker_threads"
         "=16 (95 % confidence), by how much is too uncertain to say, by median"),
        ("better", 1.1, 4.3, "num_worker_threads=4: 2.00 times as fast as the baseline"),
        ("keep-baseline", 0.2, 0.9, "num_worker_threads=4, is slower, by how much is too "
         "uncertain to say, so it gains less than 3 %."),
        ("undecided", 0.5, 2.1, "42s of measuring cannot tell whether the strongest rival, "
         "num_worker_threads=4, is faster or slower;"),
    ],
)  # fmt: skip
def test_a_speedup_is_a_number_only_where_it_is_known(
    plan: StudyPlan, verdict: str, low: float, high: float, said: str
) -> None:
    found = Interval(2.0, low, high)
    best = threads(4 if verdict == "better" else 16)
    result = study_result(plan, best=best, verdict=verdict, speedup=found, challenger_speedup=found)
    assert said in verdict_sentence(result)
    assert said in study_note(result)
    assert ("2.00" in verdict_sentence(result)) == (high < 4 * low)


def test_a_baseline_that_failed(plan: StudyPlan) -> None:
    result = study_result(
        plan,
        speedup=None,
        challenger=None,
        challenger_speedup=None,
        rows=(*ROWS[:2], failed(0, threads(16))),
    )
    assert verdict_sentence(result) == (
        "Use num_worker_threads=4: the baseline num_worker_threads=16 failed in all 4 worlds, "
        "so there is no speed-up to state."
    )


def test_a_baseline_that_failed_and_too_few_worlds_of_the_others(plan: StudyPlan) -> None:
    few = replace(ROWS[0], samples=2)
    result = study_result(
        plan,
        verdict="undecided",
        speedup=None,
        challenger=None,
        challenger_speedup=None,
        rows=(few, failed(0, threads(16))),
    )
    assert verdict_sentence(result) == (
        "Undecided: the baseline num_worker_threads=16 failed in all 4 worlds, and "
        "num_worker_threads=4, the best of what could run, was measured in only 2 worlds; --resume "
        "--budget 140s or more continues it."
    )


def test_a_baseline_that_failed_and_nothing_measured_beside_it(plan: StudyPlan) -> None:
    result = study_result(
        plan,
        best=None,
        verdict="undecided",
        speedup=None,
        challenger=None,
        challenger_speedup=None,
        rows=(failed(0, threads(16)),),
    )
    assert verdict_sentence(result) == (
        "Undecided: the baseline num_worker_threads=16 failed in all 4 worlds, and 42s was too "
        "short to measure anything else; --resume --budget 140s or more continues it."
    )


def test_a_rival_that_failed_does_not_change_the_verdict(plan: StudyPlan) -> None:
    with_failure, without = study_result(plan), study_result(plan, rows=ROWS[:-1])
    assert any(row.failure for row in with_failure.rows)
    assert verdict_sentence(with_failure) == verdict_sentence(without)


def test_nothing_ran(plan: StudyPlan) -> None:
    result = nothing_ran(plan)
    assert (
        verdict_sentence(result) == "No configuration of the search space could run the workload."
    )
    assert tied_sentence(result) is None


def test_where_little_was_tried_nothing_is_said_of_the_whole_space(plan: StudyPlan) -> None:
    nothing = nothing_ran(plan)
    left = replace(failed(2, threads(8)), outcome="not-measured", failure=None, worlds_run=0)
    one = replace(nothing, rows=(nothing.rows[0], left, replace(left, trial=3)))
    assert verdict_sentence(one) == (
        "Only num_worker_threads=16 was tried, and failed in all 4 worlds."
    )
    assert why_nothing_ran(one).startswith(
        "only num_worker_threads=16 was tried, and failed in all 4 worlds: "
        "crashed, server failed first; see "
    )
    two = replace(nothing, rows=(*nothing.rows, left))
    assert verdict_sentence(two) == (
        "None of the 2 configurations that were tried could run the workload, and 1 was not tried."
    )


def test_a_baseline_that_fails_too_often_is_left_with_the_rates(plan: StudyPlan) -> None:
    often = replace(ROWS[2], worlds_run=12, worlds_failed=6, unreliable=True)
    result = study_result(plan, rows=(*ROWS[:2], often))
    assert verdict_sentence(result) == (
        "Use num_worker_threads=4: the baseline num_worker_threads=16 failed in 6 of 12 worlds, "
        "which is more often than the others, num_worker_threads=4 in 0 of 6; "
        "num_worker_threads=4 is 50.0 % faster (40.0 % to 62.0 % faster, 95 % confidence) than it."
    )
    page = report_html(result, [])
    assert "cannot run" not in page
    assert "baseline, 6 of 12 failed" in page


@pytest.mark.parametrize(
    ("worlds", "kept"), [(1, "1 world of the baseline is"), (3, "3 worlds of the baseline are")]
)
def test_what_is_kept_of_a_study_that_was_not_begun(
    plan: StudyPlan, worlds: int, kept: str
) -> None:
    result = study_result(plan, interrupted=True, needed_s=39, worlds=worlds, best=None)
    assert verdict_sentence(result).startswith(
        f"Not begun: the budget was too short, and {kept} kept; --resume --budget 39s"
    )


def test_a_single_tie_takes_the_singular(plan: StudyPlan) -> None:
    assert tied_sentence(study_result(plan)) == (
        "num_worker_threads=8 is within 3 % of num_worker_threads=4, as far as measured."
    )


def test_several_ties_take_the_plural(plan: StudyPlan) -> None:
    rows = (*ROWS[:2], replace(ROWS[2], tied_with_best=True))
    assert tied_sentence(study_result(plan, rows=rows)) == (
        "num_worker_threads=8, 16 are within 3 % of num_worker_threads=4, as far as measured."
    )


def test_without_ties_there_is_no_sentence(plan: StudyPlan) -> None:
    rows = (ROWS[0], *ROWS[2:])
    assert tied_sentence(study_result(plan, rows=rows, challenger_speedup=FASTER)) is None


def test_ties_that_differ_in_several_knobs_are_named_in_full(plan: StudyPlan) -> None:
    tied = [
        for_all(num_worker_threads=2, transports="shm"),
        for_all(num_worker_threads=4, transports="uv"),
    ]
    rows = (ROWS[0], *(replace(ROWS[1], config=config) for config in tied))
    sentence = tied_sentence(study_result(plan, rows=rows))
    assert sentence is not None
    assert sentence.startswith(
        "num_worker_threads=2 transports=shm; num_worker_threads=4 transports=uv are within 3 %"
    )


def test_names_of_functions_in_a_diagnosis_are_code(plan: StudyPlan) -> None:
    said = (
        "worker0 waited for calls of num_workers_udf_with_ops that worker1 ran, of "
        "torch.nn.functional.log_softmax, and of <lambda>: 12 % of it (a | b)."
    )
    rows = tuple(replace(row, diagnosis=said) for row in ROWS)
    answer = study_result(plan, rows=rows)
    names = ("num_workers_udf_with_ops", "torch.nn.functional.log_softmax")
    page = report_html(answer, [])
    for name in names:
        assert f"calls of <code>{name}</code> that" in page or f"of <code>{name}</code>," in page
        for note in (study_note(answer), trial_notes(answer)[1]):
            assert f"`{name}`" in note
            assert f"of `{name}`" in note.replace("\\\n", " ")
    assert "&lt;lambda&gt;" in page
    assert r"\<lambda\>: 12 % of it (a \| b)." in study_note(answer)
    assert "<code>worker" not in page


def test_what_is_slower_is_said_in_words_without_signs(plan: StudyPlan) -> None:
    slower = Interval(0.84, 0.76, 0.91)
    result = study_result(
        plan,
        best=threads(16),
        verdict="keep-baseline",
        speedup=Interval(1.0, 1.0, 1.0),
        challenger_speedup=slower,
    )
    assert "16.0 % slower (24.0 % to 9.0 % slower, 95 % confidence)" in verdict_sentence(result)
