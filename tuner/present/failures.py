"""What failed, in words: a line for each kind of failure, how often, and why nothing ran."""

from collections.abc import Hashable

from tuner.files import shown
from tuner.study.answer import StudyAnswer
from tuner.study.rows import TrialRow
from tuner.text import first_of, plural
from tuner.world.failure_evidence import failure_signature, without_evidence

_MOST_NAMED = 3


def failure_lines(answer: StudyAnswer) -> list[str]:
    """One line for all configurations that are out for failing alike.

    Where their reasons differ in numbers, it has those of the first alone.
    """
    lines = []
    for rows in _alike(answer):
        first, *others = (row.label for row in rows)
        told = answer.folder.failure_text(rows[0].outcome, rows[0].failure or "")
        if _is_one_reason(rows):
            lines.append(f"{first_of([first, *others], _MOST_NAMED)}: {told}")
        else:
            some = first_of(others, _MOST_NAMED)
            lines.append(f"{first}: {told}; alike but for numbers: {some}")
    return lines


def failing_sentences(answer: StudyAnswer) -> list[str]:
    """How often configurations failed that have run, and of what; none where none did.

    Of what hits several of them, none of which fails more often than the others, their options are
    not the cause.
    """
    sentences = []
    counted = [row for row in answer.rows if row.worlds_failed < row.worlds_run]
    out = [row for row in counted if row.unreliable or row.outcome == "wrong-answer"]
    reliable = {row.trial: row for row in counted if row not in out}
    worlds = sum(row.worlds_run for row in reliable.values())
    for cause in answer.causes:
        told = answer.folder.failure_text(cause.failure, cause.message)
        hit = [reliable[trial] for trial in cause.worlds if trial in reliable]
        if len(hit) > 1:
            failed = sum(cause.worlds[row.trial] for row in hit)
            sentences.append(
                f"The {answer.plan.subject.kind} fails in {failed} of {worlds:,} worlds, whatever "
                f"its options: {told}."
            )
        elif hit:
            row, failed = hit[0], cause.worlds[hit[0].trial]
            worlds_run = plural(row.worlds_run, "world")
            sentences.append(f"{row.label} failed in {failed} of {worlds_run}: {told}.")
    others = f"{sum(row.worlds_failed for row in reliable.values())} of {worlds:,}"
    sentences += [
        f"{row.label} {rate_text(row)}, which is more often than the others ({others})."
        for row in counted
        if row.unreliable
    ]
    return sentences


def rate_text(row: TrialRow) -> str:
    """`failed in 1 of 9 worlds`, or `failed in all 4 worlds`."""
    if row.worlds_failed < row.worlds_run:
        return f"failed in {row.worlds_failed} of {plural(row.worlds_run, 'world')}"
    return "failed in its only world" if row.worlds_run == 1 else (
        f"failed in all {plural(row.worlds_run, 'world')}"
    )  # fmt: skip


def nothing_ran(answer: StudyAnswer) -> str:
    """That nothing could run, and how much of the space was tried: a sentence without its end."""
    what, tried = answer.plan.subject.kind, [row for row in answer.rows if row.failure]
    sampling = answer.sampling
    left = (len(answer.rows) if sampling is None else sampling.configs) - len(tried)
    if left <= 0 or not tried:
        return f"no configuration of the search space could run the {what}"
    if len(tried) == 1:
        return f"only {tried[0].label} was tried, and {rate_text(tried[0])}"
    return (
        f"none of the {len(tried)} configurations that were tried could run the {what}, and "
        f"{left:,} {'was' if left == 1 else 'were'} not tried"
    )


def why_nothing_ran(answer: StudyAnswer) -> str:
    """Why no configuration could run, as one sentence without its end."""
    told = nothing_ran(answer)
    groups = _alike(answer)
    if not groups:
        return told
    first = groups[0][0]
    tried = sum(map(len, groups))
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
    return f"{because}; see {shown(answer.folder.failures)}"


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
