"""The verdict in plain words, what failed, and the words that other sentences share."""

import math
from collections.abc import Hashable

from tuner.decide.statistics import Interval
from tuner.files import shown
from tuner.study.answer import StudyAnswer
from tuner.study.log import BASELINE
from tuner.study.resuming import more_flags
from tuner.study.rows import TrialRow
from tuner.text import UNTOLD, duration, first_of, listed, percent, plural, ratio_text, three_digits
from tuner.world.failure_evidence import failure_signature, without_evidence

_MOST_NAMED = 3


def fast(answer: StudyAnswer) -> str:
    """What a configuration is so many times as: `fast` or `good`."""
    return "fast" if answer.objective.is_time else "good"


def faster_or_slower(answer: StudyAnswer) -> tuple[str, str]:
    """`faster` and `slower`, or `better` and `worse`."""
    return ("faster", "slower") if answer.objective.is_time else ("better", "worse")


def confidence(answer: StudyAnswer) -> str:
    """`95 %`."""
    return percent(answer.plan.measuring.confidence)


def epsilon(answer: StudyAnswer) -> str:
    """`3 %`."""
    return percent(answer.plan.measuring.epsilon)


def ends(found: Interval) -> str:
    """`1.18 to 1.30`: of a ratio."""
    return f"{ratio_text(found.low)} to {ratio_text(found.high)}"


def worlds_text(answer: StudyAnswer) -> str:
    """`17 worlds, 10 of them in 2 blocks`.

    The table counts the 10: those are no first ones, were not traced, and did not fail.
    """
    counted = sum(row.samples for row in answer.rows)
    blocks = plural(answer.blocks, "block")
    return f"{plural(answer.worlds, 'world')}, {counted:,} of them in {blocks}"


def rate_text(row: TrialRow) -> str:
    """`failed in 1 of 9 worlds`, or `failed in all 4 worlds`."""
    if row.worlds_failed < row.worlds_run:
        return f"failed in {row.worlds_failed} of {plural(row.worlds_run, 'world')}"
    if row.worlds_run == 1:
        return "failed in its only world"
    return f"failed in all {plural(row.worlds_run, 'world')}"


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


def verdict_sentence(answer: StudyAnswer) -> str:
    """One or two sentences that say what to do, and how sure that is."""
    if answer.interrupted:
        return _interrupted(answer)
    if answer.verdict is None:
        told = nothing_ran(answer)
        return f"{told[0].upper()}{told[1:]}."
    if answer.baseline_failed:
        return _without_baseline(answer)
    if answer.none_feasible:
        return _none_feasible(answer)
    if answer.baseline_broken:
        return _infeasible_baseline(answer)
    match answer.verdict:
        case "better":
            return _better(answer)
        case "tie":
            return (
                f"A tie: {answer.best} is {_change(answer, f' than {_baseline(answer)}')}, which "
                f"is within {epsilon(answer)} either way, and it is the cheaper of the two."
            )
        case "keep-baseline":
            return f"Keep {answer.baseline}: {_why_keep(answer)}."
        case _:
            return f"Undecided, so keep {answer.baseline}: {_why_undecided(answer)}{_more(answer)}."


def _baseline(answer: StudyAnswer) -> str:
    return f"the baseline {answer.baseline}"


def _interrupted(answer: StudyAnswer) -> str:
    if answer.needed_s is not None:
        is_kept = "is kept" if answer.worlds == 1 else "are kept"
        return (
            f"Not begun: the budget was too short, and {plural(answer.worlds, 'world')} of the "
            f"baseline {is_kept}; {_resume(answer)} continues it."
        )
    ahead = ""
    if best := next((row for row in answer.rows if row.is_measured), None):
        value = f"{three_digits(best.value)} {answer.objective.unit}".rstrip()
        worlds = plural(best.samples, "world")
        ahead = f" So far {best.label} is ahead, with {value} in {worlds}."
    return (
        f"Not finished, after {plural(answer.blocks, 'block')}: there is no verdict yet.{ahead} "
        "If the search was interrupted, --resume continues it."
    )


def _without_baseline(answer: StudyAnswer) -> str:
    failed = f"{_baseline(answer)} {rate_text(answer.by_trial[BASELINE])}"
    if answer.verdict == "better":
        return f"Use {answer.best}: {failed}, so there is no speed-up to state."
    known = _too_short(answer)
    if answer.best_trial is not None:
        worlds = plural(answer.by_trial[answer.best_trial].samples, "world")
        known = f"{answer.best}, the best of what could run, was measured in only {worlds}"
    return f"Undecided: {failed}, and {known}; {_resume(answer)} or more continues it."


def _too_short(answer: StudyAnswer) -> str:
    return f"{duration(answer.elapsed_s)} was too short to measure anything else"


def _none_feasible(answer: StudyAnswer) -> str:
    nearest = min(
        (row for row in answer.rows if row.broken),
        key=lambda row: max(
            each.limit.excess(each.value) / (abs(each.limit.bound) or 1.0) for each in row.broken
        ),
    )
    return (
        f"No configuration keeps {listed(map(str, answer.plan.measuring.require))}, so nothing is "
        f"recommended; the nearest is {nearest.label}: {nearest.broken_text}."
    )


def _infeasible_baseline(answer: StudyAnswer) -> str:
    row = answer.by_trial[BASELINE]
    if row.broken:
        broken = f"{_baseline(answer)} breaks a limit ({row.broken_text})"
    else:
        broken = f"{_baseline(answer)} {rate_text(row)}, which is more often than the others"
        if answer.best_trial is not None:
            best = answer.by_trial[answer.best_trial]
            broken += f", {best.label} in {best.worlds_failed} of {best.worlds_run}"
    if answer.best is None:
        more = f"{_resume(answer)} or more continues it"
        return f"Undecided: {broken}, and {_too_short(answer)}; {more}."
    if answer.challenger_speedup is None:
        return f"Use {answer.best}: {broken}; there is no speed-up to state yet."
    return f"Use {answer.best}: {broken}; {answer.best} is {_change(answer, ' than it')}."


def _better(answer: StudyAnswer) -> str:
    speedup = answer.challenger_speedup
    assert speedup is not None
    if speedup.is_told:
        said = (
            f"{ratio_text(speedup.estimate)} times as {fast(answer)} as {_baseline(answer)} "
            f"({ends(speedup)}, {confidence(answer)} confidence)"
        )
    else:
        better = f"{faster_or_slower(answer)[0]} than {_baseline(answer)}"
        said = f"{better} ({confidence(answer)} confidence), by how much is {UNTOLD}"
    return f"Use {answer.best}: {said}, by {answer.objective.label}."


def _why_keep(answer: StudyAnswer) -> str:
    if len(answer.rows) == 1:
        return "the search space has nothing else"
    if answer.challenger is None:
        return "nothing else in the search space could run"
    return (
        f"the strongest rival, {answer.challenger}, is {_change(answer)}, so it gains less than "
        f"{epsilon(answer)}"
    )


def _why_undecided(answer: StudyAnswer) -> str:
    spent, speedup = duration(answer.elapsed_s), answer.challenger_speedup
    if speedup is None:
        return f"{spent} was too short to compare it with anything"
    rival = f"the strongest rival, {answer.challenger}, is"
    if _may_be_either(speedup):
        words = " or ".join(faster_or_slower(answer))
        return f"{spent} of measuring cannot tell whether {rival} {words}"
    if speedup.high <= 1 + answer.plan.measuring.epsilon:
        unknown = "but others were seen too little to tell whether one gains more"
    else:
        unknown = f"and {spent} of measuring cannot tell whether that is a gain of "
        unknown += epsilon(answer)
    return f"{rival} {_change(answer)}, {unknown}"


def _may_be_either(speedup: Interval) -> bool:
    return speedup.low <= 1 <= speedup.high and not speedup.is_told


def _more(answer: StudyAnswer) -> str:
    """How to go on, as a clause."""
    if answer.more_s is None:
        return f"; {_resume(answer)} or more continues it"
    more_s = math.ceil(answer.more_s)
    if more_s >= 600:
        more_s = math.ceil(more_s / 60) * 60
    told = f"about {duration(more_s)} more would tell {epsilon(answer)}"
    return f"; {told}: {_resume(answer)} continues it"


def _resume(answer: StudyAnswer) -> str:
    return " ".join(["--resume", *more_flags(answer)])


def _change(answer: StudyAnswer, than: str = "") -> str:
    """A speed-up near 1 as a change.

    `2.1 % faster (1.0 % slower to 5.3 % faster, 95 % confidence)`, or
    `9.0 % slower (12.1 % to 5.8 % slower, 95 % confidence)`.
    """
    speedup = answer.challenger_speedup
    assert speedup is not None
    words = faster_or_slower(answer)
    if _may_be_either(speedup):
        return f"{' or '.join(words)}{than}, which is {UNTOLD}"
    if not speedup.is_told:
        return f"{words[speedup.high < 1]}{than}, by how much is {UNTOLD}"
    change, low, high = (
        (f"{abs(end - 1) * 100:.1f} %", words[end < 1])
        for end in (speedup.estimate, speedup.low, speedup.high)
    )
    least = low[0] if low[1] == high[1] else " ".join(low)
    sure = f"{confidence(answer)} confidence"
    return f"{' '.join(change)} ({least} to {' '.join(high)}, {sure}){than}"


def failing_sentences(answer: StudyAnswer) -> list[str]:
    """How often configurations failed that have run, and of what; none where none did.

    Of what hits several of them, none of which fails more often than the others, their options are
    not the cause.
    """
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
        f"{row.label} {rate_text(row)}, which is more often than the others ({others})."
        for row in counted
        if row.unreliable
    ]
    return sentences


def failure_lines(answer: StudyAnswer) -> list[str]:
    """One line for all configurations that are out for failing alike.

    Where their reasons differ in numbers, it has those of the first alone.
    """
    lines = []
    for rows in _alike(answer):
        labels = [row.label for row in rows]
        told = answer.files.failure_text(rows[0].outcome, rows[0].failure or "")
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
