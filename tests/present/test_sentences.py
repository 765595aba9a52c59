from tests.present.results import study_plan, study_result
from tests.present.screen import Screen
from tuner.present.notes import study_note
from tuner.present.report.study_report import report_html
from tuner.present.sentences import tried_sentences
from tuner.present.summary import print_summary
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


def test_an_exploration_under_way_compares_nothing_yet() -> None:
    sampling = SAMPLING.model_copy(update={"went_on": None, "lessons": ()})
    (said,) = tried_sentences(study_result(study_plan(), sampling=sampling))
    assert "were compared" not in said
