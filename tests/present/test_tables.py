import math
from dataclasses import replace

from testing.results import ROWS, against, study_result
from testing.specs import threads
from tuner.present.tables import ratio_note, trials_of
from tuner.study.answer import StudyAnswer
from tuner.study.rows import TrialDetail
from tuner.world.measurement import Quantiles


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
    assert ratios_of(result) == ["at least 2.50", "?", "1", "at most 0.40"]


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
    assert "?: " in (ratio_note(study_result(rows=(*COMPARED[:3], near))) or "")
