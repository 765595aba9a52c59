"""The commands that measure a recommendation, or a whole study, again."""

import shlex
from collections.abc import Iterator, Sequence
from typing import Any

from tuner.errors import UsageError
from tuner.plan.config import Config
from tuner.plan.draft import PROGRAM_DEFAULTS
from tuner.plan.knobs import KNOBS
from tuner.plan.measuring import Measuring
from tuner.plan.program_request import program_keys
from tuner.plan.program_spec import ProgramRequest, ProgramSpec
from tuner.plan.quantities import parse_duration_s
from tuner.plan.study_plan import StudyPlan
from tuner.recommended.model import MeasuredIn, Recommendation


def recheck_plan(recommendation: Recommendation) -> dict[str, Any]:
    """The plan, as a plan file holds it, that compares the configuration with the baseline again.

    Where the baseline itself is recommended, it compares its strongest rival with it.

    Raises:
        UsageError: Nothing was compared with the baseline.
    """
    compared = _compared(recommendation)
    if compared is None:
        raise UsageError(
            f"there is nothing to compare with the baseline: the study {recommendation.study} "
            "recommends it, and measured no rival; search again"
        )
    environment, how = recommendation.environment, recommendation.how
    return {
        **_subject_keys(environment),
        "name": f"{recommendation.study}-check",
        "space": _pairs(compared),
        "baseline": _pairs(recommendation.baseline),
        "objective": recommendation.objective,
        "min_time": how.min_time_s,
        "deadline": how.deadline_s,
        "epsilon": how.epsilon,
        "confidence": recommendation.confidence,
        "require": list(how.require),
        **how.launching.keys(),
    }


def _compared(recommendation: Recommendation) -> Config | None:
    """What is measured beside the baseline: the configuration, or else its strongest rival."""
    if recommendation.config == recommendation.baseline:
        return recommendation.challenger.config
    return recommendation.config


def _subject_keys(environment: MeasuredIn) -> dict[str, Any]:
    program = environment.program
    if program is None:
        return {"workload": environment.workload, "options": environment.options}
    return program_keys(program)


def recheck_arguments(recommendation: Recommendation) -> list[str]:
    """The flags of `tuner.search` that compare the configuration with the baseline again.

    Where the baseline itself is recommended, they compare its strongest rival with it.
    """
    chosen = _compared(recommendation)
    environment = recommendation.environment
    arguments = [*_workload_flags(environment)]
    if chosen is not None:
        arguments += _flags("--space", chosen)
    arguments += _flags("--baseline", recommendation.baseline)
    if recommendation.objective != Measuring().objective_name:
        arguments += ["--objective", recommendation.objective]
    arguments += _measured_alike(recommendation)
    arguments += ["--study", f"{recommendation.study}-check"]
    return [*arguments, *_program_arguments(environment.program)]


def recheck_command(recommendation: Recommendation) -> str:
    """The same as one line for a shell."""
    return shlex.join(["python", "-m", "tuner.search", *recheck_arguments(recommendation)])


def _workload_flags(environment: MeasuredIn) -> Iterator[str]:
    if environment.workload is not None:
        yield from ("--workload", environment.workload)
    for name, value in environment.options.items():
        yield from ("--set", f"{name}={value}")


def _program_arguments(program: ProgramRequest | None) -> Iterator[str]:
    """The flags that say how to run the program, and its command after `--`."""
    if program is None:
        return
    for role, pattern in program.role_patterns:
        yield from ("--role", f"{role}={pattern}")
    if program.expect is not None:
        yield from ("--expect", program.expect)
    if program.metric is not None:
        yield from ("--metric", f"{program.metric.name}={program.metric.pattern}")
        yield from ("--maximize",) if program.metric.maximize else ()
    if program.window_s is not None:
        yield from ("--window", f"{program.window_s!r}s", "--warm-up", f"{program.warm_up_s!r}s")
    if program.cold:
        yield "--cold"
    first, *others = program.commands
    for command in others:
        yield from ("--beside", shlex.join(command))
    yield from ("--", *first)


def _measured_alike(recommendation: Recommendation) -> Iterator[str]:
    """The flags without which the two studies could not be compared; defaults are left out."""
    how, usual = recommendation.how, Measuring()
    for flag, value, default, unit in (
        ("--min-time", how.min_time_s, usual.min_time_s, "s"),
        ("--deadline", how.deadline_s, usual.deadline_s, "s"),
        ("--epsilon", how.epsilon, usual.epsilon, ""),
        ("--confidence", recommendation.confidence, usual.confidence, ""),
    ):
        if value != default:
            yield from (flag, f"{value!r}{unit}")
    for limit in how.require:
        yield from ("--require", limit)
    yield from how.launching.arguments()


def _flags(flag: str, config: Config) -> Iterator[str]:
    for name, value in _pairs(config):
        yield from (flag, f"{name}={value}")


def _pairs(config: Config) -> list[tuple[str, str]]:
    """Knobs with their values, as the command line gives them."""
    return [(str(dim), KNOBS[dim.knob].format(value)) for dim, value in config.items]


def search_command(plan: StudyPlan, naming: Sequence[str]) -> str:
    """One line for a shell that searches for what this plan searches for.

    Args:
        plan: The plan.
        naming: The flags that say where its study is.
    """
    subject, how, usual = plan.subject, plan.measuring, Measuring()
    program = subject if isinstance(subject, ProgramSpec) else None
    deadline_s, objective = usual.deadline_s, usual.objective_name
    if program is not None:
        deadline_s = parse_duration_s(PROGRAM_DEFAULTS["deadline"])
        objective = program.objective_name
    arguments = []
    if not isinstance(subject, ProgramSpec):
        arguments += ["--workload", subject.reference]
        for name, option in subject.options.items():
            arguments += ["--set", f"{name}={option}"]
    for dimension, values in plan.space.axes:
        texts = map(KNOBS[dimension.knob].format, values)
        arguments += ["--space", f"{dimension}={','.join(texts)}"]
    # The plan that is shipped for a workload may have another baseline than PyTorch's defaults.
    baseline = {
        dimension: value
        for dimension, value in plan.baseline.items
        if program is None or value != program.default_of(dimension.role, dimension.knob)
    }
    arguments += _flags("--baseline", Config.of(baseline))
    objectives = ",".join(filter(None, (how.objective_name, how.second_objective_name)))
    for limit in how.require:
        arguments += ["--require", str(limit)]
    for flag, value, default, text in (
        ("--objective", objectives, objective, objectives),
        ("--budget", how.budget, None, how.budget),
        ("--max-blocks", how.max_blocks, None, str(how.max_blocks)),
        ("--epsilon", how.epsilon, usual.epsilon, repr(how.epsilon)),
        ("--confidence", how.confidence, usual.confidence, repr(how.confidence)),
        ("--min-time", how.min_time_s, usual.min_time_s, f"{how.min_time_s!r}s"),
        ("--deadline", how.deadline_s, deadline_s, f"{how.deadline_s!r}s"),
        ("--sampler", how.sampler, usual.sampler, how.sampler),
        ("--seed", how.seed, usual.seed, str(how.seed)),
    ):
        if value != default:
            arguments += [flag, text]
    arguments += [*plan.launching.arguments(), *naming]
    return shlex.join(["python", "-m", "tuner.search", *arguments, *_program_arguments(program)])
