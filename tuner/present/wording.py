"""The verdict in plain words."""

import math

from tuner.study.answer import StudyAnswer
from tuner.text import duration, plural, three_digits


def verdict_sentence(result: StudyAnswer) -> str:
    """One sentence (two where a caveat belongs to it) that says what to do and how sure it is."""
    if result.interrupted:
        return _interrupted(result)
    if result.verdict is None:
        return "No settings of the search space could run the workload."
    if result.baseline_failed:
        return _without_baseline(result)
    match result.verdict:
        case "better":
            return _better(result)
        case "tie":
            return _tie(result)
        case "keep-baseline":
            return _keep(result)
        case _:
            return _undecided(result)


def tied_sentence(result: StudyAnswer) -> str | None:
    """What else is as fast, as far as measured; None if nothing."""
    if result.best is None or not result.tied:
        return None
    verb = "is" if len(result.tied) == 1 else "are"
    return (
        f"Within {_percent(result.plan.measuring.epsilon)} of {result.best}, as far as measured, "
        f"{verb} {_listed(result.tied)}."
    )


def _interrupted(result: StudyAnswer) -> str:
    measured = [row for row in result.rows if row.counts]
    ahead = (
        f" So far {measured[0].label} is ahead, with {three_digits(measured[0].value)} "
        f"{result.objective.unit} in {plural(measured[0].samples, 'world')}."
        if measured
        else ""
    )
    return (
        f"Not finished, after {plural(result.blocks, 'block')}: there is no verdict yet.{ahead} "
        "If the search was interrupted, the same command with --resume goes on."
    )


def _without_baseline(result: StudyAnswer) -> str:
    if result.verdict == "better":
        return (
            f"Use {result.best}: the baseline {result.baseline} cannot run here, "
            "so there is no speed-up to state."
        )
    best = result.row_of(result.best)
    known = (
        f"{duration(result.elapsed_s)} was too short to measure anything else"
        if best is None
        else f"{best.label}, the best of what could run, was measured in only "
        f"{plural(best.samples, 'world')}"
    )
    return (
        f"Undecided: the baseline {result.baseline} cannot run here, and {known}; "
        "search again with --overwrite and a larger --budget."
    )


def _better(result: StudyAnswer) -> str:
    speedup = result.challenger_speedup
    assert speedup is not None
    return (
        f"Use {result.best}: {_ratio(speedup.estimate)} times as fast as the baseline "
        f"{result.baseline} ({_ratio(speedup.low)} to {_ratio(speedup.high)}"
        f"{_certainty(result)}), "
        f"by {result.objective.label}."
    )


def _tie(result: StudyAnswer) -> str:
    return (
        f"A tie: {result.best} is {_change(result)} beside the baseline {result.baseline}, "
        f"which is within {_percent(result.plan.measuring.epsilon)} either way, and it is the "
        "cheaper of the two."
    )


def _keep(result: StudyAnswer) -> str:
    if result.challenger is None:
        return f"Keep {result.baseline}: nothing else in the search space could run."
    return (
        f"Keep {result.baseline}: the strongest rival, {result.challenger}, is "
        f"{_change(result)}, so it gains less than {_percent(result.plan.measuring.epsilon)}."
    )


def _undecided(result: StudyAnswer) -> str:
    spent = duration(result.elapsed_s)
    if result.challenger_speedup is None:
        return (
            f"Undecided, so keep {result.baseline}: {spent} was too short to compare it with "
            "anything; search again with --overwrite and a larger --budget."
        )
    return (
        f"Undecided, so keep {result.baseline}: the strongest rival, {result.challenger}, is "
        f"{_change(result)}, and {spent} of measuring cannot tell whether that is a gain of "
        f"{_percent(result.plan.measuring.epsilon)}; search again with "
        "--overwrite and a larger --budget."
    )


def _change(result: StudyAnswer) -> str:
    """A speed-up near 1 as a change: `2.1 % faster (-1.0 % to +5.3 %, 95 % confidence)`."""
    speedup = result.challenger_speedup
    assert speedup is not None
    gain = speedup.estimate - 1
    if speedup.high == math.inf:
        return f"{abs(gain) * 100:.1f} % {'faster' if gain >= 0 else 'slower'} in too few pairs"
    return (
        f"{abs(gain) * 100:.1f} % {'faster' if gain >= 0 else 'slower'} "
        f"({(speedup.low - 1) * 100:+.1f} % to {(speedup.high - 1) * 100:+.1f} %"
        f"{_certainty(result)})"
    )


def _certainty(result: StudyAnswer) -> str:
    return f", {_percent(result.plan.measuring.confidence)} confidence"


def _listed(labels: list[str]) -> str:
    """`num_worker_threads=2, 4` where all labels name the same one knob, else every label whole."""
    knobs = {label.rpartition("=")[0] for label in labels}
    if len(knobs) == 1 and all(label.count("=") == 1 for label in labels):
        return f"{knobs.pop()}={', '.join(label.rpartition('=')[2] for label in labels)}"
    return "; ".join(labels)


def _ratio(value: float) -> str:
    """Two decimals, and more where a ratio just above 1 would look like 1."""
    return f"{value:.2f}" if abs(value - 1) >= 0.01 else f"{value:.4f}"


def _percent(fraction: float) -> str:
    return f"{fraction * 100:g} %"
