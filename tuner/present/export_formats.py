"""A recommendation in each form that a program loads, with the sentence that goes with it."""

from typing import Literal

from tuner.present.wording import verdict_sentence
from tuner.recommended.building import recommendation_of
from tuner.recommended.json_and_toml import as_json, as_toml
from tuner.recommended.model import Recommendation
from tuner.recommended.python_module import as_python
from tuner.study.answer import StudyAnswer
from tuner.text import plural, three_digits

ExportFormat = Literal["json", "toml", "python"]


def exported(result: StudyAnswer, form: ExportFormat, trial: int | None = None) -> str:
    """The recommended settings, or those of a trial, in a form that a program loads.

    UsageError if there are none.
    """
    recommendation = recommendation_of(result, trial)
    match form:
        case "json":
            return as_json(recommendation)
        case "toml":
            return as_toml(recommendation)
        case "python":
            return as_python(recommendation, _sentence(result, recommendation))


def _sentence(result: StudyAnswer, recommendation: Recommendation) -> str:
    """The verdict; of settings chosen by hand, what they are."""
    if recommendation.config == result.best:
        return verdict_sentence(result)
    measured = recommendation.measured
    assert measured.value is not None
    advice = (
        "the study has no verdict yet"
        if result.best is None
        else f"the study's own verdict is: {verdict_sentence(result)}"
    )
    return (
        f"Chosen by hand: {recommendation.config}, {three_digits(measured.value)} "
        f"{measured.unit} in {plural(measured.worlds, 'world')}, by {result.objective.label}; "
        f"{advice.removesuffix('.')}."
    )
