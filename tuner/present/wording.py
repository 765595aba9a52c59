"""The verdict in plain words."""

import math
from collections.abc import Sequence

from tuner.decide.statistics import Interval
from tuner.plan.config import Config
from tuner.plan.knobs import CPU_BINDING, KNOBS
from tuner.present.failures import nothing_ran, rate_text
from tuner.process_knobs import EQUAL
from tuner.study.answer import StudyAnswer
from tuner.study.log import BASELINE
from tuner.study.resuming import more_flags
from tuner.text import (
    UNTOLD,
    duration,
    listed,
    percent,
    plural,
    ratio_cell,
    ratio_text,
    share,
    three_digits,
    whole_percent,
)
from tuner.world.environment import DISTURBED_SHARE

_MOST_LEAST = 1.0
"""A smallest gain above this says that nothing could have been shown."""


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
            return _tie(answer)
        case "keep-baseline":
            return _keep(answer)
        case _:
            return _undecided(answer)


def tied_sentence(answer: StudyAnswer) -> str | None:
    """What else is as fast, as far as measured; None if nothing is."""
    if answer.best is None or not answer.tied:
        return None
    verb = "is" if len(answer.tied) == 1 else "are"
    return (
        f"{named(answer.tied)} {verb} within {_epsilon(answer)} of {answer.best}, as far as "
        "measured."
    )


def binding_sentence(answer: StudyAnswer) -> str | None:
    """For whom binding is, where it is recommended."""
    if answer.best is None or not answer.best.binds:
        return None
    return (
        f"{CPU_BINDING.name}={EQUAL} is for ranks that have the machine to themselves: beside "
        "other programs it may be slower, and search --check measures it again."
    )


def noise_sentence(answer: StudyAnswer) -> str | None:
    """The smallest gain that the study could have shown; None if it compared nothing.

    Where that is so large that it says nothing, it is why, and what helps; none after `better`.
    """
    if answer.verdict is None or answer.baseline_failed or answer.challenger is None:
        return None
    least, floor = answer.least_gain, answer.noise_floor
    if least is None or least > _MOST_LEAST:
        blocks = plural(answer.blocks, "block")
        return None if answer.verdict == "better" else (
            f"Too few blocks were measured to show any gain ({blocks}): a larger --budget helps, "
            "and so do fewer values, or a quieter machine."
        )  # fmt: skip
    said = f"The smallest gain that this study could have shown is {share(least)}"
    if floor is None:
        return f"{said}."
    itself = ratio_cell(floor.estimate, floor.low, floor.high)
    if not floor.is_told:
        itself = UNTOLD
    return f"{said}; the baseline against itself, in the same blocks: {itself}."


def busy_sentence(answer: StudyAnswer) -> str | None:
    """That others disturbed the study, and what that means; None if they did not."""
    machine = answer.machine
    if machine is None or not machine.is_busy:
        return None
    return (
        f"The machine was busy: in {machine.disturbed_worlds} of "
        f"{plural(machine.worlds, 'world')} that count other programs or virtual machines took "
        f"more than {percent(DISTURBED_SHARE)} of "
        f"the {plural(machine.cpus, 'logical CPU')}, and {whole_percent(machine.taken_share)} on "
        "average over all; on a quiet machine the intervals are narrower."
    )


def worlds_text(answer: StudyAnswer) -> str:
    """`17 worlds, 10 of them in 2 blocks`.

    The table counts the 10: those are no first ones, were not traced, and did not fail.
    """
    counted = sum(row.samples for row in answer.rows)
    blocks = plural(answer.blocks, "block")
    return f"{plural(answer.worlds, 'world')}, {counted:,} of them in {blocks}"


def _interrupted(answer: StudyAnswer) -> str:
    if answer.needed_s is not None:
        is_kept = "is kept" if answer.worlds == 1 else "are kept"
        return (
            f"Not begun: the budget was too short, and {plural(answer.worlds, 'world')} of the "
            f"baseline {is_kept}; {_resume(answer)} continues it."
        )
    measured = [row for row in answer.rows if row.is_measured]
    ahead = ""
    if measured:
        best = measured[0]
        value = f"{three_digits(best.value)} {answer.objective.unit}".rstrip()
        worlds = plural(best.samples, "world")
        ahead = f" So far {best.label} is ahead, with {value} in {worlds}."
    return (
        f"Not finished, after {plural(answer.blocks, 'block')}: there is no verdict yet.{ahead} "
        "If the search was interrupted, --resume continues it."
    )


def _without_baseline(answer: StudyAnswer) -> str:
    if answer.verdict == "better":
        return (
            f"Use {answer.best}: the baseline {answer.baseline} {_rate(answer, BASELINE)}, "
            "so there is no speed-up to state."
        )
    known = (
        f"{duration(answer.elapsed_s)} was too short to measure anything else"
        if answer.best_trial is None
        else f"{answer.best}, the best of what could run, was measured in only "
        f"{plural(answer.by_trial[answer.best_trial].samples, 'world')}"
    )
    return (
        f"Undecided: the baseline {answer.baseline} {_rate(answer, BASELINE)}, and {known}; "
        f"{_resume(answer)} or more continues it."
    )


def _rate(answer: StudyAnswer, trial: int) -> str:
    return rate_text(answer.by_trial[trial])


def _none_feasible(answer: StudyAnswer) -> str:
    limits = listed(map(str, answer.plan.measuring.require))
    nearest = min(
        (row for row in answer.rows if row.broken),
        key=lambda row: max(
            each.limit.excess(each.value) / (abs(each.limit.bound) or 1.0) for each in row.broken
        ),
    )
    return (
        f"No configuration keeps {limits}, so nothing is recommended; the nearest is "
        f"{nearest.label}: {nearest.broken_text}."
    )


def _infeasible_baseline(answer: StudyAnswer) -> str:
    baseline, rows = answer.by_trial[BASELINE], answer.rows
    broken = f"the baseline {answer.baseline} breaks a limit ({baseline.broken_text})"
    if not baseline.broken:
        best = [row for row in rows if row.trial == answer.best_trial]
        rates = [f", {row.label} in {row.worlds_failed} of {row.worlds_run}" for row in best]
        often = f"{_rate(answer, BASELINE)}, which is more often than the others"
        broken = "".join([f"the baseline {answer.baseline} {often}", *rates])
    if answer.best is None:
        return (
            f"Undecided: {broken}, and {duration(answer.elapsed_s)} was too short to measure "
            f"anything else; {_resume(answer)} or more continues it."
        )
    if answer.challenger_speedup is None:
        return f"Use {answer.best}: {broken}; there is no speed-up to state yet."
    return f"Use {answer.best}: {broken}; {answer.best} is {_change(answer, ' than it')}."


def _better(answer: StudyAnswer) -> str:
    speedup = answer.challenger_speedup
    assert speedup is not None
    fast, faster = ("fast", "faster") if answer.objective.is_time else ("good", "better")
    baseline = f"the baseline {answer.baseline}"
    if speedup.is_told:
        said = (
            f"{ratio_text(speedup.estimate)} times as {fast} as {baseline} "
            f"({ratio_text(speedup.low)} to {ratio_text(speedup.high)}{_certainty(answer)})"
        )
    else:
        confidence = percent(answer.plan.measuring.confidence)
        said = f"{faster} than {baseline} ({confidence} confidence), by how much is {UNTOLD}"
    return f"Use {answer.best}: {said}, by {answer.objective.label}."


def _tie(answer: StudyAnswer) -> str:
    return (
        f"A tie: {answer.best} is {_change(answer, f' than the baseline {answer.baseline}')}, "
        f"which is within {_epsilon(answer)} either way, and it is the cheaper of the two."
    )


def _keep(answer: StudyAnswer) -> str:
    if len(answer.rows) == 1:
        return f"Keep {answer.baseline}: the search space has nothing else."
    if answer.challenger is None:
        return f"Keep {answer.baseline}: nothing else in the search space could run."
    return (
        f"Keep {answer.baseline}: the strongest rival, {answer.challenger}, is "
        f"{_change(answer)}, so it gains less than {_epsilon(answer)}."
    )


def _undecided(answer: StudyAnswer) -> str:
    spent = duration(answer.elapsed_s)
    if answer.challenger_speedup is None:
        return (
            f"Undecided, so keep {answer.baseline}: {spent} was too short to compare it with "
            f"anything{_more(answer)}."
        )
    if _is_untold_either_way(answer.challenger_speedup):
        words = "faster or slower" if answer.objective.is_time else "better or worse"
        return (
            f"Undecided, so keep {answer.baseline}: {spent} of measuring cannot tell whether the "
            f"strongest rival, {answer.challenger}, is {words}{_more(answer)}."
        )
    gains_less = answer.challenger_speedup.high <= 1 + answer.plan.measuring.epsilon
    unknown = (
        "but others were seen too little to tell whether one gains more"
        if gains_less
        else f"and {spent} of measuring cannot tell whether that is a gain of {_epsilon(answer)}"
    )
    return (
        f"Undecided, so keep {answer.baseline}: the strongest rival, {answer.challenger}, is "
        f"{_change(answer)}, {unknown}{_more(answer)}."
    )


def _is_untold_either_way(speedup: Interval) -> bool:
    return speedup.low <= 1 <= speedup.high and not speedup.is_told


def not_excluded_sentence(answer: StudyAnswer) -> str | None:
    """What may be better than the best by more than epsilon; None if nothing may."""
    if answer.best is None or not answer.not_excluded:
        return None
    better, worse = ("faster", "slower") if answer.objective.is_time else ("better", "worse")
    behind = [trial for trial in answer.not_excluded if _looks_behind(answer, trial)]
    others = [trial for trial in answer.not_excluded if trial not in behind]
    said = []
    if others:
        may = f"may be more than {_epsilon(answer)} {better} than {answer.best}"
        said.append(f"Not excluded: {named(_configs(answer, others))} {may}.")
    if behind:
        verb = "looks" if len(behind) == 1 else "look"
        said.append(
            f"{named(_configs(answer, behind))} {verb} {worse} than {answer.best}, but in too few "
            "blocks to be sure."
        )
    return " ".join(said)


def as_good_sentence(answer: StudyAnswer) -> str | None:
    """What else may be as good as one that is recommended; None where others say it, or nothing is.

    Those that are tied as far as measured, and those that may be better still, have their own.
    """
    if answer.best is None or answer.verdict not in ("better", "tie"):
        return None
    alike = _configs(answer, answer.not_told_apart)
    known = [*answer.tied, *_configs(answer, answer.not_excluded)]
    others = [config for config in alike if config not in known]
    if not others:
        return None
    good, better = ("fast", "faster") if answer.objective.is_time else ("good", "better")
    return (
        f"Not told apart: {named(others)} may be as {good} as {answer.best}, and at most "
        f"{_epsilon(answer)} {better}."
    )


def _looks_behind(answer: StudyAnswer, trial: int) -> bool:
    """Whether a trial would be shown behind the best if no other had been compared, or earlier."""
    assert answer.best_trial is not None
    found = answer.paired.compare(trial, answer.best_trial)
    return found is not None and found.ratio.high < 1


def _configs(answer: StudyAnswer, trials: Sequence[int]) -> list[Config]:
    return [answer.by_trial[trial].config for trial in trials]


def _more(answer: StudyAnswer) -> str:
    """How to go on, as a clause."""
    if answer.more_s is None:
        return f"; {_resume(answer)} or more continues it"
    more_s = math.ceil(answer.more_s)
    if more_s >= 600:
        more_s = math.ceil(more_s / 60) * 60
    return (
        f"; about {duration(more_s)} more would tell {_epsilon(answer)}: {_resume(answer)} "
        "continues it"
    )


def _resume(answer: StudyAnswer) -> str:
    return " ".join(["--resume", *more_flags(answer)])


def _change(answer: StudyAnswer, than: str = "") -> str:
    """A speed-up near 1 as a change.

    `2.1 % faster (1.0 % slower to 5.3 % faster, 95 % confidence)`, or
    `9.0 % slower (12.1 % to 5.8 % slower, 95 % confidence)`.
    """
    speedup = answer.challenger_speedup
    assert speedup is not None
    words = ("faster", "slower") if answer.objective.is_time else ("better", "worse")
    if not speedup.is_told:
        if _is_untold_either_way(speedup):
            return f"{words[0]} or {words[1]}{than}, which is {UNTOLD}"
        return f"{words[speedup.high < 1]}{than}, by how much is {UNTOLD}"
    change, low, high = (
        (f"{abs(end - 1) * 100:.1f} %", words[end < 1])
        for end in (speedup.estimate, speedup.low, speedup.high)
    )
    least = low[0] if low[1] == high[1] else " ".join(low)
    return f"{' '.join(change)} ({least} to {' '.join(high)}{_certainty(answer)}){than}"


def _certainty(answer: StudyAnswer) -> str:
    return f", {percent(answer.plan.measuring.confidence)} confidence"


def _epsilon(answer: StudyAnswer) -> str:
    return percent(answer.plan.measuring.epsilon)


def named(configs: list[Config]) -> str:
    """`num_worker_threads=2, 4` where all name the same one knob, else each of them whole."""
    dimensions = {tuple(dimension for dimension, _ in config.items) for config in configs}
    only = dimensions.pop() if len(dimensions) == 1 else ()
    if len(only) == 1:
        knob = KNOBS[only[0].knob]
        return f"{only[0]}={', '.join(knob.format(config.items[0][1]) for config in configs)}"
    return "; ".join(map(str, configs))
