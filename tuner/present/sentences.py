"""What is said below the verdict: why this one, what else may be, how sure, what was tried."""

from tuner.present.choice import choice_sentence
from tuner.present.edges import edge_sentences, role_sentence
from tuner.present.failures import failing_sentences
from tuner.present.knob_effects import bad_value_sentences, together_sentences
from tuner.present.wording import (
    as_good_sentence,
    binding_sentence,
    busy_sentence,
    noise_sentence,
    not_excluded_sentence,
    tied_sentence,
)
from tuner.study.answer import StudyAnswer
from tuner.text import first_of, plural

_MOST_NAMED = 3
_WHO = {"tpe": "Optuna's TPE", "gp": "Optuna's Gaussian process", "random": "chance"}


def sentences_of(answer: StudyAnswer) -> list[str]:
    """What there is to say of the answer after its verdict, in the order of a reader's questions.

    Returns:
        Sentences that the terminal, the notes and the page show one by one.
    """
    said = (
        no_calls_sentence(answer),
        choice_sentence(answer),
        tied_sentence(answer),
        binding_sentence(answer),
        busy_sentence(answer),
        not_excluded_sentence(answer),
        as_good_sentence(answer),
        noise_sentence(answer),
    )
    known = [sentence for sentence in said if sentence is not None]
    # One further search at a time: the best value first, then the roles that need it.
    further = edge_sentences(answer) or [*filter(None, [role_sentence(answer)])]
    return [
        *failing_sentences(answer),
        *together_sentences(answer),
        *known,
        *further,
        *tried_sentences(answer),
        *bad_value_sentences(answer),
        *unmeasured_sentences(answer),
    ]


def no_calls_sentence(answer: StudyAnswer) -> str | None:
    """That nothing of what was traced makes a call; None where something does, or no trace tells.

    A workload whose step forgets its calls runs well, and its configurations are all alike.
    """
    counted = [detail.calls for detail in answer.details.values() if detail.calls is not None]
    if not counted or any(counted):
        return None
    if answer.plan.subject.kind == "program":
        return (
            "The traced runs of the program made no RPC call, so no option of RPC can matter to it."
        )
    return (
        "The traced steps made no RPC call, so no option of RPC can matter to them: make the calls "
        "to be tuned in step(), and wait there for their results."
    )


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


def unmeasured_sentences(answer: StudyAnswer) -> list[str]:
    """Why configurations that did not fail are in no block; none where there is no such one.

    Of a space that was sampled, `tried_sentences` tell.
    """
    if answer.sampling is not None:
        return []
    labels: dict[str, list[str]] = {}
    for row in answer.rows:
        if row.eliminated and not row.samples:
            labels.setdefault(row.eliminated, []).append(row.label)
    if not labels:
        return []
    each = [f"{first_of(some, _MOST_NAMED)} ({reason})" for reason, some in labels.items()]
    more = sum(map(len, [*labels.values()][_MOST_NAMED:]))
    tail = [f"{more} more"] if more else []
    return [f"In no block: {'; '.join([*each[:_MOST_NAMED], *tail])}."]
