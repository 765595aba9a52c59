"""What a study says of a search space that it has not measured whole."""

from tuner.study.answer import StudyAnswer
from tuner.text import plural

_WHO = {"tpe": "Optuna's TPE", "gp": "Optuna's Gaussian process", "random": "chance"}


def tried_sentences(answer: StudyAnswer) -> list[str]:
    """How much of the space was tried, and what is known of the rest; none where it was all of it.

    Returns:
        Sentences; the first says how much, each other one what was left alone and why.
    """
    sampling = answer.sampling
    if sampling is None:
        return []
    tried = len(answer.rows)
    on = "" if sampling.went_on is None else f", and the best {len(sampling.went_on)} were compared"
    rest = sampling.configs - tried
    first = (
        f"{tried:,} of {plural(sampling.configs, 'configuration')} were tried, as proposed by "
        f"{_WHO[sampling.sampler]}{on}; nothing is claimed about the other {rest:,}."
    )
    return [first, *(f"{lesson}." for lesson in sampling.lessons)]
