import math
from dataclasses import replace

from testing.results import ROWS, against, measured, study_result
from testing.specs import threads
from tests.present.screen import printed
from tuner.present.summary import print_summary
from tuner.present.tables import numbers_first, ratio_note, trials_of
from tuner.study.answer import StudyAnswer
from tuner.study.rows import TrialDetail
from tuner.world.measurement import Quantiles

HEADING = "times as fast (95 %)"


def ratios_of(answer: StudyAnswer) -> list[str]:
    """The cells of how many times as fast as the baseline each row is."""
    (column,) = [each for each in trials_of(answer).columns if each.heading.startswith("times as")]
    return column.cells


COMPARED = (
    against(ROWS[0], 1.5, 1.4, 1.62),
    against(ROWS[1], 1.45, 1.3, 1.6),
    against(ROWS[2], 1.0, 1.0, 1.0),
    against(ROWS[3], 0.5, 0.0, math.inf, blocks=1),
    ROWS[4],
)


def test_an_interval_too_wide_for_a_number_that_is_all_on_one_side_says_its_bound() -> None:
    slow = against(ROWS[3], 0.05, 0.01, 0.4)
    fast = against(ROWS[1], 12.0, 2.5, 40.0)
    either = against(ROWS[0], 1.0, 0.3, 3.0)
    result = study_result(rows=(fast, either, COMPARED[2], slow), best=threads(16))
    assert ratios_of(result) == ["at least 2.50", "", "1", "at most 0.40"]


def test_what_was_seen_once_and_is_far_off_is_said_without_an_interval() -> None:
    far = against(replace(ROWS[3], value=1660.0, samples=1), 0.05, 0.0, math.inf, blocks=1)
    fast = against(replace(ROWS[1], value=0.25), 12.0, 0.0, math.inf, blocks=2)
    steps = Quantiles(p5=1650.0, p25=1655.0, p50=1660.0, p75=1665.0, p95=1670.0, p99=1670.0)
    details = {far.trial: TrialDetail(step_ms=steps)}
    rows = (fast, COMPARED[2], far)
    result = study_result(rows=rows, best=threads(16), details=details)
    assert ratios_of(result) == ["much faster, twice", "1", "much slower, once"]
    note = ratio_note(result) or ""
    assert note.endswith(
        "Too few blocks for an interval, but seen: num_worker_threads=8 had 0.25 ms; "
        "num_worker_threads=1 had 1660 ms (steps 1650 to 1670); num_worker_threads=16 had 3 ms "
        "(the baseline)."
    )
    assert "?" not in note
    near = against(ROWS[3], 0.5, 0.0, math.inf, blocks=1)
    assert "Blank: " in (ratio_note(study_result(rows=(*COMPARED[:3], near))) or "")


def test_what_is_not_known_is_one_word_on_a_screen_and_has_its_reason_elsewhere() -> None:
    near = replace(ROWS[1], tied_with_best=True)
    unclear = replace(measured(7, threads(64), 2.5), tied_with_best=False)
    left_out = replace(measured(8, threads(32), 9.0), samples=0, tied_with_best=False)
    rows = (*COMPARED[:1], near, COMPARED[2], unclear, left_out)
    result = study_result(rows=rows, not_excluded=frozenset({7}))
    told = {line.row.trial: (line.outcome, line.outcome_told) for line in trials_of(result).lines}
    assert told[near.trial] == ("open", "open: near the best")
    assert told[7] == ("open", "open: too few blocks")
    assert told[8] == ("open", "open: in no block")
    running = trials_of(replace(result, interrupted=True, best_trial=None)).lines
    assert {line.outcome_told for line in running} >= {"open: no verdict yet", "open: in no block"}
    assert {line.outcome for line in running} == {"open", "baseline"}
    screen = "\n".join(printed(print_summary, result).splitlines()[:12])
    assert "?" not in screen
    assert "open: " not in screen
    assert "open: too few blocks" in printed(print_summary, result, whole=True)


def test_a_page_has_the_objective_first() -> None:
    table = trials_of(study_result(rows=COMPARED))
    turned = numbers_first(table)
    assert [each.heading for each in turned.columns][:2] == ["median step time (ms)", HEADING]
    assert {each.heading for each in turned.columns} == {each.heading for each in table.columns}
    assert [sorted(line.cells) for line in turned.lines] == [
        sorted(each.cells) for each in table.lines
    ]
    assert turned.lines[0].cells[0] == turned.columns[0].cells[0]
