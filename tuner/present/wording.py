"""The verdict in plain words."""

import math

from tuner.plan.config import Config
from tuner.plan.knobs import KNOBS
from tuner.study.answer import StudyAnswer
from tuner.text import duration, percent, plural, three_digits, whole_percent
from tuner.world.machine_state import DISTURBED_SHARE


def verdict_sentence(answer: StudyAnswer) -> str:
    """One or two sentences that say what to do, and how sure that is."""
    if answer.interrupted:
        return _interrupted(answer)
    if answer.verdict is None:
        return f"No configuration of the search space could run the {answer.plan.subject.kind}."
    if answer.baseline_failed:
        return _without_baseline(answer)
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
        f"{_named(answer.tied)} {verb} within {_epsilon(answer)} of {answer.best}, as far as "
        "measured."
    )


def busy_sentence(answer: StudyAnswer) -> str | None:
    """That others disturbed the study, and what that means; None if they did not."""
    machine = answer.machine
    if machine is None or not machine.is_busy:
        return None
    return (
        f"The machine was busy: in {machine.disturbed} of {plural(machine.worlds, 'world')} other "
        f"programs or virtual machines took more than {percent(DISTURBED_SHARE)} of the "
        f"{plural(machine.cpus, 'logical CPU')}, and {whole_percent(machine.taken_share)} on "
        "average over all; on a quiet machine the intervals are narrower."
    )


def _interrupted(answer: StudyAnswer) -> str:
    measured = [row for row in answer.rows if row.is_measured]
    ahead = ""
    if measured:
        best = measured[0]
        value = f"{three_digits(best.value)} {answer.objective.unit}".rstrip()
        worlds = plural(best.samples, "world")
        ahead = f" So far {best.label} is ahead, with {value} in {worlds}."
    return (
        f"Not finished, after {plural(answer.blocks, 'block')}: there is no verdict yet.{ahead} "
        "If the search was interrupted, the same command with --resume continues it."
    )


def _without_baseline(answer: StudyAnswer) -> str:
    if answer.verdict == "better":
        return (
            f"Use {answer.best}: the baseline {answer.baseline} cannot run here, "
            "so there is no speed-up to state."
        )
    known = (
        f"{duration(answer.elapsed_s)} was too short to measure anything else"
        if answer.best_trial is None
        else f"{answer.best}, the best of what could run, was measured in only "
        f"{plural(answer.by_trial[answer.best_trial].samples, 'world')}"
    )
    return (
        f"Undecided: the baseline {answer.baseline} cannot run here, and {known}; "
        "search again with --overwrite and a larger --budget."
    )


def _better(answer: StudyAnswer) -> str:
    speedup = answer.challenger_speedup
    assert speedup is not None
    return (
        f"Use {answer.best}: {ratio_text(speedup.estimate)} times as "
        f"{'fast' if answer.objective.is_time else 'good'} as the baseline "
        f"{answer.baseline} ({ratio_text(speedup.low)} to {ratio_text(speedup.high)}"
        f"{_certainty(answer)}), "
        f"by {answer.objective.label}."
    )


def _tie(answer: StudyAnswer) -> str:
    return (
        f"A tie: {answer.best} is {_change(answer)} than the baseline {answer.baseline}, "
        f"which is within {_epsilon(answer)} either way, and it is the cheaper of the two."
    )


def _keep(answer: StudyAnswer) -> str:
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
            "anything; search again with --overwrite and a larger --budget."
        )
    return (
        f"Undecided, so keep {answer.baseline}: the strongest rival, {answer.challenger}, is "
        f"{_change(answer)}, and {spent} of measuring cannot tell whether that is a gain of "
        f"{_epsilon(answer)}; search again with --overwrite and a larger --budget."
    )


def _change(answer: StudyAnswer) -> str:
    """A speed-up near 1 as a change: `2.1 % faster (-1.0 % to +5.3 %, 95 % confidence)`."""
    speedup = answer.challenger_speedup
    assert speedup is not None
    gain = speedup.estimate - 1
    words = ("faster", "slower") if answer.objective.is_time else ("better", "worse")
    change = f"{abs(gain) * 100:.1f} % {words[gain < 0]}"
    if speedup.high == math.inf:
        return f"{change} in too few pairs"
    low, high = ((end - 1) * 100 for end in (speedup.low, speedup.high))
    return f"{change} ({low:+.1f} % to {high:+.1f} %{_certainty(answer)})"


def _certainty(answer: StudyAnswer) -> str:
    return f", {percent(answer.plan.measuring.confidence)} confidence"


def _epsilon(answer: StudyAnswer) -> str:
    return percent(answer.plan.measuring.epsilon)


def _named(configs: list[Config]) -> str:
    """`num_worker_threads=2, 4` where all name the same one knob, else each of them whole."""
    dimensions = {tuple(dimension for dimension, _ in config.items) for config in configs}
    only = dimensions.pop() if len(dimensions) == 1 else ()
    if len(only) == 1:
        knob = KNOBS[only[0].knob]
        return f"{only[0]}={', '.join(knob.format(config.items[0][1]) for config in configs)}"
    return "; ".join(map(str, configs))


def ratio_text(value: float) -> str:
    """Two decimals, and more where a ratio just above 1 would look like 1."""
    return f"{value:.2f}" if abs(value - 1) >= 0.01 else f"{value:.4f}"
