"""What failed, in plain words."""

from collections.abc import Hashable

from tuner.files import shown
from tuner.present.wording import nothing_ran, rate_text
from tuner.study.answer import StudyAnswer
from tuner.study.rows import TrialRow
from tuner.text import first_of, plural
from tuner.world.postmortem import failure_signature, without_evidence

_MOST_NAMED = 3


def failing_sentences(answer: StudyAnswer) -> list[str]:
    """How often configurations failed that have run: of what hits several, options are no cause."""
    sentences = []
    counted = [row for row in answer.rows if row.worlds_failed < row.worlds_run]
    reliable = {
        row.trial: row for row in counted if not row.unreliable and row.outcome != "wrong-answer"
    }
    worlds = sum(row.worlds_run for row in reliable.values())
    for cause in answer.causes:
        told = answer.files.failure_text(cause.failure, cause.message)
        hit = [reliable[trial] for trial in cause.worlds if trial in reliable]
        failed = sum(cause.worlds[row.trial] for row in hit)
        if len(hit) > 1:
            sentences.append(
                f"The {answer.plan.subject.kind} fails in {failed} of {worlds:,} worlds, whatever "
                f"its options: {told}."
            )
        elif hit:
            worlds_run = plural(hit[0].worlds_run, "world")
            sentences.append(f"{hit[0].label} failed in {failed} of {worlds_run}: {told}.")
    others = f"{sum(row.worlds_failed for row in reliable.values())} of {worlds:,}"
    sentences += [
        f"{row.label} {rate_text(row)}, more often than the others ({others})."
        for row in counted
        if row.unreliable
    ]
    sentences += [
        f"{row.label} {row.lost}. That may be chance, so it is no answer yet."
        for row in answer.rows
        if row.lost and not row.does_less
    ]
    return sentences


def failure_lines(answer: StudyAnswer) -> list[str]:
    """One line for all configurations that are out for failing alike, with the first's numbers."""
    lines = []
    for rows in _alike(answer):
        labels = [row.label for row in rows]
        told = rows[0].failure or ""
        if not rows[0].does_less:
            told = answer.files.failure_text(rows[0].outcome, told)
        if _is_one_reason(rows):
            lines.append(f"{first_of(labels, _MOST_NAMED)}: {told}")
        else:
            some = first_of(labels[1:], _MOST_NAMED)
            lines.append(f"{labels[0]}: {told}; alike but for numbers: {some}")
    return lines


def why_nothing_ran(answer: StudyAnswer) -> str:
    """Why no configuration could run, as one sentence without its end."""
    told, groups = nothing_ran(answer), _alike(answer)
    if not groups:
        return told
    first, tried = groups[0][0], sum(map(len, groups))
    if tried == 1:
        which = f"{first.label} {rate_text(first)}" if len(answer.rows) == 1 else ""
    elif len(groups) == 1:
        such_as = "" if _is_one_reason(groups[0]) else f", such as {first.label}"
        which = f"all {tried} that were tried failed alike{such_as}"
    else:
        which = f"of the {tried} that were tried, {first.label} failed first"
    cause = without_evidence(first.failure or "").split("\n")[0]
    cause = cause if first.outcome in cause else f"{first.outcome}, {cause}"
    if all(group[0].outcome == "timed-out" for group in groups):
        cause += "; a larger --deadline, with a larger --budget, gives each more time"
    because = ": ".join(filter(None, [told, which, cause]))
    return f"{because}; see {shown(answer.files.failures)}"


def _is_one_reason(rows: list[TrialRow]) -> bool:
    """Whether rows that failed alike have one reason to the last number."""
    return len({without_evidence(row.failure or "") for row in rows}) == 1


def _alike(answer: StudyAnswer) -> list[list[TrialRow]]:
    """The rows that failed, those together that failed alike, in the order of trials."""
    groups: dict[Hashable, list[TrialRow]] = {}
    for row in sorted(answer.rows, key=lambda row: row.trial):
        if row.failure:
            groups.setdefault(failure_signature(row.outcome, row.failure), []).append(row)
    return list(groups.values())
