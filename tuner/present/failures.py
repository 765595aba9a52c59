"""What failed, in words: a line for each kind of failure, and why nothing ran."""

from collections.abc import Hashable

from tuner.files import shown
from tuner.study.answer import StudyAnswer
from tuner.study.trial_row import TrialRow
from tuner.text import first_of
from tuner.world.likeness import likeness, without_evidence

_MOST_NAMED = 3


def failure_lines(answer: StudyAnswer) -> list[str]:
    """One line for all configurations that failed alike.

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


def why_nothing_ran(answer: StudyAnswer) -> str:
    """Why no configuration could run, as one sentence without its end."""
    told = f"no configuration of the search space could run the {answer.plan.subject.kind}"
    groups = _alike(answer)
    if not groups:
        return told
    first = groups[0][0]
    tried = sum(map(len, groups))
    if tried == 1:
        which = f"only {first.label} was tried, and failed"
    elif len(groups) == 1:
        such_as = "" if _is_one_reason(groups[0]) else f", such as {first.label}"
        which = f"all {tried} that were tried failed alike{such_as}"
    else:
        which = f"of the {tried} that were tried, {first.label} failed first"
    cause = without_evidence(first.failure or "").split("\n")[0]
    cause = cause if first.outcome in cause else f"{first.outcome}, {cause}"
    if all(group[0].outcome == "timed-out" for group in groups):
        cause += "; a larger --deadline, with a larger --budget, gives each more time"
    return f"{told}: {which}: {cause}; see {shown(answer.folder.failures)}"


def _is_one_reason(rows: list[TrialRow]) -> bool:
    """Whether rows that failed alike have one reason to the last number."""
    return len({without_evidence(row.failure or "") for row in rows}) == 1


def _alike(answer: StudyAnswer) -> list[list[TrialRow]]:
    """The rows that failed, those together that failed alike, in the order of trials."""
    groups: dict[Hashable, list[TrialRow]] = {}
    for row in sorted(answer.rows, key=lambda row: row.trial):
        if row.failure:
            groups.setdefault(likeness(row.outcome, row.failure), []).append(row)
    return list(groups.values())
