"""A recommendation in each format that `export` writes."""

from tuner.errors import UsageError
from tuner.present.wording import verdict_sentence
from tuner.recommended.building import recommendation_of
from tuner.recommended.json_and_toml import as_json, as_toml
from tuner.recommended.model import Recommendation
from tuner.recommended.python_module import as_python
from tuner.study.answer import StudyAnswer
from tuner.text import plural, three_digits


def exported(answer: StudyAnswer, form: str, trial: int | None = None) -> str:
    """A configuration in a format that a program loads.

    Args:
        answer: The study.
        form: The format: `json`, `toml` or `python`.
        trial: Whose configuration; None: the recommended one.

    Raises:
        UsageError: There is no such format, the study recommends nothing, the trial did not run, or
            the study is damaged.
    """
    recommendation = recommendation_of(answer, trial)
    # First: what cannot be written as JSON could be written, and not loaded, in another format.
    document = as_json(recommendation)
    match form:
        case "json":
            return document
        case "toml":
            return as_toml(recommendation)
        case "python":
            return as_python(recommendation, _sentence(answer, recommendation))
        case _:
            raise UsageError(f"the format must be json, toml or python, got {form!r}")


def _sentence(answer: StudyAnswer, recommendation: Recommendation) -> str:
    """The verdict; of a configuration chosen by hand, what was measured of it."""
    if recommendation.trial == answer.best_trial:
        return verdict_sentence(answer)
    measured = recommendation.measured
    assert measured.value is not None
    advice = (
        "the study has no verdict yet"
        if answer.best is None
        else f"the study's own verdict is: {verdict_sentence(answer)}"
    )
    return (
        f"Chosen by hand: {recommendation.config}, {three_digits(measured.value)} "
        f"{measured.unit} in {plural(measured.worlds, 'world')}, by {answer.objective.label}; "
        f"{advice.removesuffix('.')}."
    )
