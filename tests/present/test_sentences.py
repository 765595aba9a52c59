import pytest

from tests.present.results import study_plan, study_result
from tests.present.screen import Screen
from tuner.present.notes import study_note
from tuner.present.report.study_report import report_html
from tuner.present.sentences import no_calls_sentence, sentences_of, tried_sentences
from tuner.present.summary import print_summary
from tuner.study.rows import TrialDetail
from tuner.study.sampled import Sampling

LESSON = "transports=uv: all 3 tried failed; 197 configurations with it not tried"
SAMPLING = Sampling(sampler="gp", configs=1000, went_on=(0, 1, 2, 3), lessons=(LESSON,))


def test_what_was_tried_and_what_not_is_told_everywhere() -> None:
    answer = study_result(study_plan(), sampling=SAMPLING)
    first, lesson = tried_sentences(answer)
    assert first == (
        "5 of 1,000 configurations were tried, as proposed by Optuna's Gaussian process, and the "
        "best 4 were compared; nothing is claimed about the other 995."
    )
    assert lesson == f"{LESSON}."
    screen = Screen()
    print_summary(answer, screen.console)
    note = study_note(answer).replace("\\", "")
    for sentence in (first, lesson):
        assert sentence in screen.text
        assert sentence in note
        assert sentence.replace("'", "&#39;") in report_html(answer, [])
    assert answer.to_json()["sampling"] == {
        "sampler": "gp", "configurations": 1000, "tried": 5, "lessons": [LESSON],
    }  # fmt: skip


def test_a_step_without_a_call_is_told_first() -> None:
    without = {0: TrialDetail(calls=0), 1: TrialDetail(), 4: TrialDetail(calls=0)}
    answer = study_result(study_plan(), details=without)
    first = no_calls_sentence(answer)
    assert first is not None
    assert first.startswith("The traced steps made no RPC call")
    assert sentences_of(answer)[0] == first


@pytest.mark.parametrize(
    "details", [{}, {0: TrialDetail()}, {0: TrialDetail(calls=0), 1: TrialDetail(calls=1)}]
)
def test_nothing_is_said_where_a_call_was_seen_or_nothing_was_traced(
    details: dict[int, TrialDetail],
) -> None:
    assert no_calls_sentence(study_result(study_plan(), details=details)) is None


def test_an_exploration_under_way_compares_nothing_yet() -> None:
    sampling = SAMPLING.model_copy(update={"went_on": None, "lessons": ()})
    (said,) = tried_sentences(study_result(study_plan(), sampling=sampling))
    assert "were compared" not in said
