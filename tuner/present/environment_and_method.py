"""What is said of a study's environment and of its method: names and sentences."""

import math

from tuner.plan.knobs import KNOBS
from tuner.study.answer import StudyAnswer
from tuner.study.records import Phase
from tuner.text import duration, plural

Facts = list[tuple[str, str]]


def environment_facts(answer: StudyAnswer) -> Facts:
    """The machine and the software, and what ran on them."""
    environment, spec = answer.environment, answer.plan.workload
    options = ", ".join(f"{name}={value}" for name, value in spec.options.items())
    ranks = ", ".join(
        f"{sum(rank.role == role for rank in spec.ranks)} {role}" for role in spec.roles
    )
    return [
        ("workload", f"{spec.reference}: {spec.summary}"),
        ("options", options or "none"),
        ("ranks", ranks),
        ("intra-op threads", f"{spec.intra_op_threads} in each process, unless tuned"),
        ("CPU", f"{environment.cpu_model}, {plural(environment.cpu_count, 'core')}"),
        ("memory", f"{environment.memory_gb:g} GB"),
        ("torch", environment.torch),
        ("Python", environment.python),
        ("kernel", environment.kernel),
        ("date", f"{answer.measured_at:%Y-%m-%d %H:%M} UTC"),
    ]


def method_facts(answer: StudyAnswer) -> Facts:
    """How the numbers came about, and what the words in the report mean."""
    measuring = answer.plan.measuring
    source = "read from traces" if answer.objective.traced else "measured with tracing off"
    budget = f"{duration(answer.elapsed_s)} of {duration(measuring.budget_s)}"
    return [
        (
            "objective",
            f"{answer.objective.label} ({answer.objective.unit}), {source}; less is better",
        ),
        ("search space", _space(answer)),
        ("baseline", str(answer.baseline)),
        (
            "worlds",
            f"{plural(answer.worlds, 'world')} in {budget}, each of new processes, with "
            f"{duration(measuring.min_time_s)} of timed steps at least after a warm-up",
        ),
        ("blocks", _blocks(answer)),
        (
            "speed-up",
            "baseline time / best time, from pairs of worlds that chose neither; trimmed mean of "
            f"the pairs, with a {measuring.confidence * 100:g} % interval",
        ),
        (
            "epsilon",
            f"{measuring.epsilon * 100:g} %: a smaller difference does not matter{_shown(answer)}",
        ),
        ("traces", _traces(answer)),
        ("order", f"random in each block, from seed {measuring.seed}"),
    ]


def _space(answer: StudyAnswer) -> str:
    axes = [
        f"{dimension}: {', '.join(KNOBS[dimension.knob].format(value) for value in values)}"
        for dimension, values in answer.plan.space.axes
    ]
    return "; ".join(axes)


def _blocks(answer: StudyAnswer) -> str:
    def count(phase: Phase) -> int:
        return len({seen.block for seen in answer.observations if seen.phase == phase})

    parts = []
    if race := count("race"):
        parts.append(f"{plural(race, 'block')} of a race among the settings")
    if pairs := count("confirmation"):
        parts.append(f"{plural(pairs, 'pair')} of worlds of the challenger and the baseline")
    return ", then ".join(parts) or "none"


def _traces(answer: StudyAnswer) -> str:
    traced = sum(not math.isnan(row.tracing_overhead) for row in answer.rows)
    seen = (
        f"{traced} of {len(answer.rows)} settings were traced with their operators, in worlds "
        "that were not timed; calls at once and the parts of a call's time are from there"
    )
    return f"every world that counts was traced; {seen}" if answer.objective.traced else seen


def _shown(answer: StudyAnswer) -> str:
    if answer.epsilon_achieved is None:
        return ""
    behind = f"{answer.epsilon_achieved * 100:.2g} %"
    return f"; no other settings are more than {behind} faster than those recommended"
