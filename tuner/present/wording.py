"""The verdict in plain words, and the words that other sentences share."""

from tuner.decide.statistics import Interval
from tuner.plan.config import ALL_ROLES, Config
from tuner.plan.knobs import NUM_WORKER_THREADS
from tuner.plan.measuring import Measuring
from tuner.plan.objectives import PER_CALL
from tuner.study.answer import StudyAnswer
from tuner.study.log import BASELINE
from tuner.study.rows import Preference, TrialRow
from tuner.text import (
    UNTOLD,
    bound_text,
    duration,
    listed,
    percent,
    plural,
    ratio_cell,
    ratio_text,
    three_digits,
)

_MOST_CHANGE = 1.5
"""A gain from here on is said as a ratio, not as a change."""
_USUAL = Measuring()
PREFERENCES: dict[Preference, str] = {
    "baseline": "is the baseline",
    "less-cpu": "takes less CPU",
    "fewer-threads": "has fewer threads",
}
"""Why one of two that are alike is preferred."""


def fast(answer: StudyAnswer) -> str:
    """What a configuration is so many times as: `fast` or `good`."""
    return "fast" if answer.objective.is_of_run else "good"


def faster_or_slower(answer: StudyAnswer) -> tuple[str, str]:
    """`faster` and `slower`, or `better` and `worse`."""
    return ("faster", "slower") if answer.objective.is_of_run else ("better", "worse")


def _call_takes(found: Interval, name: str, *, may: bool = False) -> str:
    """`a call takes 0.32 times as long as with NAME (0.25 to 0.41`, without its end."""
    taken = found.inverse()
    times = f"{ratio_text(taken.estimate)} times as long as with {name}"
    return f"a call {'may take' if may else 'takes'} {times} ({ends(taken)}"


def confidence(answer: StudyAnswer) -> str:
    """`95 %`."""
    return percent(answer.plan.measuring.confidence)


def epsilon(answer: StudyAnswer) -> str:
    """`3 %`."""
    return percent(answer.plan.measuring.epsilon)


def ends(found: Interval) -> str:
    """`1.18 to 1.30`: of a ratio."""
    return f"{ratio_text(found.low)} to {ratio_text(found.high)}"


def interval_cell(found: Interval) -> str:
    """`1.25 (1.18 to 1.30)`: a ratio with its interval."""
    return ratio_cell(found.estimate, found.low, found.high)


def worlds_text(answer: StudyAnswer) -> str:
    """`17 worlds, 10 of them in 2 blocks`: the 10 are those that the table counts."""
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
    needs = answer.needs_threads
    if needs is not None and not needs.has_more:
        threads, fails = plural(needs.threads, "thread"), _baseline_fails(answer)
        if needs.threads > needs.own:
            return f"{fails}, and so does all that was tried, with up to {threads}"
        return f"{fails} with {threads}, and the search space has no more"
    if needs is not None and sum(row.worlds_run > 0 for row in answer.rows) == 1:
        threads = plural(needs.threads, "thread")
        return f"{_baseline_fails(answer)} with {threads}, and there was no time to try more"
    what, tried = answer.plan.subject.kind, [row for row in answer.rows if row.failure]
    sampling = answer.sampling
    all_there = len(answer.rows) + len(answer.not_reached)
    left = (all_there if sampling is None else sampling.configs) - len(tried)
    if left <= 0 or not tried:
        return f"no configuration of the search space could run the {what}"
    if len(tried) == 1:
        return f"only {tried[0].label} was tried, and {rate_text(tried[0])}"
    return (
        f"none of the {len(tried)} configurations that were tried could run the {what}, and "
        f"{left:,} {'was' if left == 1 else 'were'} not tried"
    )


def baseline_name(answer: StudyAnswer) -> str:
    """What the baseline is called: `PyTorch's defaults` where it is those."""
    subject, named = answer.plan.subject, answer.baseline
    if named.resolved(subject) != Config.of({}).resolved(subject):
        return f"the baseline {named}"
    return "the program as it is" if subject.kind == "program" else "PyTorch's defaults"


_FAILS: dict[str, tuple[str, str]] = {
    "deadlocked": ("deadlocks", "deadlock"),
    "timed-out": ("times out", "time out"),
    "crashed": ("crashes", "crash"),
    "init-failed": ("does not start", "do not start"),
    "wrong-answer": ("answers wrongly", "answer wrongly"),
}
"""How the baseline fails: of one that is singular, and of one that is plural."""


def _baseline_fails(answer: StudyAnswer) -> str:
    """`the program as it is deadlocks`, and in how many of its worlds if not in all."""
    row, name = answer.by_trial[BASELINE], baseline_name(answer)
    kind = row.outcome if answer.needs_threads is None else "deadlocked"
    one, many = _FAILS.get(kind, ("fails", "fail"))
    some = ""
    if row.worlds_failed < row.worlds_run:
        some = f" (in {row.worlds_failed} of {plural(row.worlds_run, 'world')})"
    return f"{name} {many if name.endswith('defaults') else one}{some}"


def _needed_threads(answer: StudyAnswer) -> str:
    """`8 threads or more`; empty where none were seen to be enough."""
    needs = answer.needs_threads
    if needs is None or needs.enough is None:
        return ""
    named = [d for d in answer.plan.space.dimensions if d.knob == NUM_WORKER_THREADS.name]
    where = "" if all(each.role == ALL_ROLES for each in named) else f" for {needs.role}"
    return f"{plural(needs.enough, 'thread')} or more{where}"


def verdict_sentence(answer: StudyAnswer) -> str:
    """The answer: what to do, what it gains, and how sure that is, in one or two sentences."""
    if answer.interrupted:
        return _interrupted(answer)
    if answer.verdict is None:
        told = nothing_ran(answer)
        return f"{told[0].upper()}{told[1:]}."
    if answer.baseline_failed or answer.needs_threads is not None:
        return _without_baseline(answer)
    if answer.none_feasible:
        return _none_feasible(answer)
    if answer.baseline_broken:
        return _infeasible_baseline(answer)
    match answer.verdict:
        case "better":
            return _better(answer)
        case "tie":
            assert answer.challenger_speedup is not None
            alike = f"as {fast(answer)} as {baseline_name(answer)}"
            between = f"({change_range(answer.challenger_speedup)})"
            return f"A tie: {answer.best} is {alike} {between}, and {_cheaper(answer)}."
        case "keep-baseline":
            return f"Keep {baseline_name(answer)}: {_why_keep(answer)}."
        case _:
            return f"Not decided in {duration(answer.elapsed_s)}: {_undecided(answer)}."


def _interrupted(answer: StudyAnswer) -> str:
    said = f"Not finished: no verdict after {plural(answer.blocks, 'block')}."
    if best := next((row for row in answer.rows if row.is_measured), None):
        value = f"{three_digits(best.value)} {answer.objective.unit}".rstrip()
        said += f" {best.label} leads so far ({value})."
    return said


def _failed(row: TrialRow) -> str:
    how = f" ({row.outcome})" if row.failure else ""
    return f"failed in {row.worlds_failed} of {plural(row.worlds_run, 'world')}{how}"


def _without_baseline(answer: StudyAnswer) -> str:
    """What to use in place of a baseline that fails, first of all."""
    failed = _baseline_fails(answer)
    failed = failed[0].upper() + failed[1:]
    if answer.best_trial is None:
        return f"{failed}. Not decided: {_too_short(answer)}."
    more = _needed_threads(answer)
    said = f"{failed}: use {more or answer.best}."
    if answer.challenger_speedup is not None:
        return f"{said} {answer.best} is {_change(answer)}."
    worlds = answer.by_trial[answer.best_trial].samples
    if answer.verdict != "better":
        only = "ran, in its first world" if not worlds else f"had only {plural(worlds, 'world')}"
        return f"{said} {answer.best}, the best of the others, {only}."
    return f"{said} {answer.best} is the best of what ran." if more else said


def _too_short(answer: StudyAnswer) -> str:
    return f"{duration(answer.elapsed_s)} was too short to measure anything else"


def _none_feasible(answer: StudyAnswer) -> str:
    nearest = min(
        (row for row in answer.rows if row.broken),
        key=lambda row: max(
            each.limit.excess(each.value) / (abs(each.limit.bound) or 1.0) for each in row.broken
        ),
    )
    limits = listed(map(str, answer.plan.measuring.require))
    return (
        f"No configuration keeps {limits}. The nearest is {nearest.label}: {nearest.broken_text}."
    )


def _infeasible_baseline(answer: StudyAnswer) -> str:
    row, best = answer.by_trial[BASELINE], answer.best_trial
    if row.broken:
        broken = f"{baseline_name(answer)} breaks a limit ({row.broken_text})"
    else:
        broken = f"{baseline_name(answer)} {_failed(row)}"
        if best is not None:
            other = answer.by_trial[best]
            broken += f", {other.label} in {other.worlds_failed} of {other.worlds_run}"
    if answer.best is None:
        return f"Not decided: {broken}. {_too_short(answer)}."
    if answer.challenger_speedup is None:
        return f"Use {answer.best}: {broken}."
    return f"Use {answer.best}: {broken}. It is {_change(answer)}."


def _better(answer: StudyAnswer) -> str:
    speedup = answer.challenger_speedup
    assert speedup is not None
    name, usual = baseline_name(answer), answer.plan.subject.objective_name
    by = "" if answer.objective.name == usual else f", by {answer.objective.label}"
    sure = answer.plan.measuring.confidence
    level = "" if sure == _USUAL.confidence else f", {percent(sure)} confidence"
    if not speedup.is_told:
        if not (least := bound_text(speedup.low, speedup.high)):
            better = f"{faster_or_slower(answer)[0]} than {name}"
            return f"Use {answer.best}: {better}{by}. By how much is {UNTOLD}."
        times = f"{least} times as {fast(answer)} as {name}"
        if answer.objective.name == PER_CALL:
            most = bound_text(speedup.inverse().low, speedup.inverse().high)
            times = f"a call takes {most} times as long as with {name}"
        return f"Use {answer.best}: {times}{level}{by}."
    if answer.objective.name == PER_CALL:
        return f"Use {answer.best}: {_call_takes(speedup, name)}{level}){by}."
    better, between = f"{ratio_text(speedup.estimate)} times as {fast(answer)} as", ends(speedup)
    if ratio_text(speedup.low) == "1.00":
        # It is more than 1, and would not look like it.
        better = f"{_three(speedup.estimate - 1)} % {faster_or_slower(answer)[0]} than"
        between = change_range(speedup)
    return f"Use {answer.best}: {better} {name} ({between}{level}){by}."


def _cheaper(answer: StudyAnswer) -> str:
    for each in answer.passed_over:
        if each.trial == BASELINE and each.preference in PREFERENCES:
            return PREFERENCES[each.preference]
    return "is cheaper"


def _why_keep(answer: StudyAnswer) -> str:
    if len(answer.rows) == 1:
        return "the search space has nothing else"
    if answer.challenger is None:
        return _why_no_rival(answer)
    where = "that was reached" if answer.not_reached else "here"
    return f"nothing {where} gains {epsilon(answer)}"


def _why_no_rival(answer: StudyAnswer) -> str:
    others = [row for row in answer.rows if row.trial != BASELINE]
    less = [row for row in others if row.does_less]
    if not less:
        return "nothing else could run"
    if len(others) == 1:
        return f"{less[0].label} {less[0].failure}"
    return f"nothing else does all the work of the {answer.plan.subject.kind}"


def _undecided(answer: StudyAnswer) -> str:
    speedup, rival, ahead = answer.challenger_speedup, answer.challenger, answer.far_ahead
    if speedup is None and any(row.lost for row in answer.rows):
        return f"what was compared may do less of the {answer.plan.subject.kind}'s work"
    if ahead is not None and (speedup is None or not speedup.is_told):
        values = (ahead.value, ahead.baseline_value)
        its, other = (f"{three_digits(each)} {answer.objective.unit}".rstrip() for each in values)
        worlds = "its only world" if ahead.worlds == 1 else plural(ahead.worlds, "world")
        who = answer.by_trial[ahead.trial].label
        return f"too short for an interval, but {who} had {its} in {worlds}, the baseline {other}"
    if speedup is None:
        return f"that was too short to compare {baseline_name(answer)} with anything"
    if not speedup.is_told:
        return f"{rival} may be faster or slower than {baseline_name(answer)}"
    said = f"{rival} {'may be' if speedup.high > 1 else 'is'} {_change(answer)}"
    if answer.objective.name == PER_CALL:
        takes = _call_takes(speedup, baseline_name(answer), may=speedup.high > 1)
        said = f"with {rival}, {takes})"
    if speedup.high <= 1 + answer.plan.measuring.epsilon:
        said += ". Others were measured too little"
    return said


def _change(answer: StudyAnswer) -> str:
    """`2.1 % faster (-1 to +5.3 %)`, and of a large gain `4.05 times as fast (3.9 to 4.2)`."""
    speedup = answer.challenger_speedup
    assert speedup is not None
    better, worse = faster_or_slower(answer)
    if not speedup.is_told:
        if bound := bound_text(speedup.low, speedup.high):
            return f"{bound} times as {fast(answer)}"
        return f"{better if speedup.low > 1 else worse}, by how much is {UNTOLD}"
    if speedup.estimate >= _MOST_CHANGE:
        return f"{ratio_text(speedup.estimate)} times as {fast(answer)} ({ends(speedup)})"
    change = _three(abs(speedup.estimate - 1))
    which = better if speedup.estimate >= 1 else worse
    return f"{change} % {which} ({change_range(speedup)})"


def change_range(found: Interval) -> str:
    """A ratio's interval as a change: `-5 to +19 %`."""
    low, high = (
        f"{'+' if end > 1 else '-' if end < 1 else ''}{_three(abs(end - 1))}"
        for end in (found.low, found.high)
    )
    return f"{low} to {high} %"


def _three(change: float) -> str:
    """`5.3` for 0.0532, `19` for 0.191."""
    return f"{change * 100:.0f}" if change >= 0.0995 else f"{change * 100:.1f}".removesuffix(".0")
