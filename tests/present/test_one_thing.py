"""The terminal, the page, the notebook and the dashboard's note say one thing."""

import html
import re
from collections.abc import Callable

import pytest

from tests.present.results import study_plan, study_result
from tests.present.screen import Screen
from tuner.decide.statistics import Interval
from tuner.present.failures import failure_lines
from tuner.present.notes import study_note
from tuner.present.report.study_report import notebook_html, report_html
from tuner.present.sentences import sentences_of
from tuner.present.summary import print_summary
from tuner.present.tables import trial_lines
from tuner.present.wording import verdict_sentence
from tuner.study.answer import StudyAnswer


def in_words(text: str) -> str:
    """The words that are read, without marks and without the breaks of lines."""
    return " ".join(html.unescape(re.sub(r"<[^>]*>", " ", text)).replace("\\", "").split())


def terminal(answer: StudyAnswer) -> str:
    screen = Screen(width=300)
    print_summary(answer, screen.console)
    return screen.text


def page(answer: StudyAnswer) -> str:
    # Words that must stay on one line are marked, which no reader sees.
    return re.sub(r'<span class="whole">(.*?)</span>', r"\1", report_html(answer, []))


SAYERS: list[Callable[[StudyAnswer], str]] = [terminal, page, notebook_html, study_note]


def answers() -> list[StudyAnswer]:
    plan = study_plan()
    return [
        study_result(plan),
        study_result(plan, verdict="keep-baseline", best=None, noise_floor=Interval(1, 0.9, 1.1)),
        study_result(plan, best=None, verdict=None, speedup=None, interrupted=True),
    ]


@pytest.mark.parametrize("say", SAYERS)
@pytest.mark.parametrize("number", range(3))
def test_the_verdict_and_the_sentences_are_said(
    say: Callable[[StudyAnswer], str], number: int
) -> None:
    answer = answers()[number]
    said = in_words(say(answer))
    for sentence in (verdict_sentence(answer), *sentences_of(answer)):
        assert in_words(sentence) in said


@pytest.mark.parametrize("say", SAYERS)
def test_every_configuration_has_its_value_and_what_became_of_it(
    say: Callable[[StudyAnswer], str],
) -> None:
    answer = study_result(study_plan())
    said = in_words(say(answer)).replace("|", " ")
    for line in trial_lines(answer):
        value, outcome = line.numbers[0], line.outcome
        pattern = rf"(?<![\d.]){re.escape(line.knobs[0])}\s+{re.escape(value)}\b.*?{outcome}"
        assert re.search(pattern, said), line


@pytest.mark.parametrize("say", [terminal, notebook_html])
def test_failures_are_told(say: Callable[[StudyAnswer], str]) -> None:
    answer = study_result(study_plan())
    told = failure_lines(answer)
    assert told
    for line in told:
        assert in_words(line) in in_words(say(answer))
