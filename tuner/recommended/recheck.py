"""The commands that measure a recommendation, or a whole study, again."""

from collections.abc import Mapping
from typing import Any

from tuner.errors import UsageError
from tuner.plan.config import Config
from tuner.plan.keys import search_arguments
from tuner.plan.knobs import KNOBS
from tuner.plan.measuring import usual_measuring
from tuner.plan.study_plan import StudyPlan
from tuner.recommended.model import Recommendation
from tuner.text import command


def recheck_plan(recommendation: Recommendation) -> dict[str, Any]:
    """The plan that compares it with the baseline again; UsageError if nothing was compared."""
    keys = _recheck_keys(recommendation)
    if keys["space"] is None:
        raise UsageError(
            f"there is nothing to compare with the baseline: the study {recommendation.study} "
            "recommends it, and measured no rival. Search again"
        )
    return keys


def recheck_command(recommendation: Recommendation) -> str:
    """One line for a shell that compares the same; without a rival it names no space."""
    return _command(_recheck_keys(recommendation), {})


def _recheck_keys(recommendation: Recommendation) -> dict[str, Any]:
    environment, how = recommendation.environment, recommendation.how
    program, chosen = environment.program, recommendation.config
    compared = recommendation.challenger.config if chosen == recommendation.baseline else chosen
    subject = {"workload": environment.workload, "options": environment.options}
    return {
        **(subject if program is None else program.keys()),
        "space": None if compared is None else _pairs(compared),
        "baseline": _pairs(recommendation.baseline),
        "objective": recommendation.objective,
        "min_time": how.min_time_s,
        "deadline": how.deadline_s,
        "epsilon": how.epsilon,
        "confidence": recommendation.confidence,
        "require": list(how.require),
        **how.launching.keys(),
        "name": f"{recommendation.study}-check",
    }


def _pairs(config: Config) -> list[tuple[str, str]]:
    """Knobs with their values, as the command line gives them."""
    return [(str(dim), KNOBS[dim.knob].format(value)) for dim, value in config.items]


def search_command(plan: StudyPlan, place: Mapping[str, str | None]) -> str:
    """One line for a shell that searches for what this plan does; `place` has its study's keys."""
    keys = {
        **plan.keys(),
        "space": [
            (str(dimension), ",".join(map(KNOBS[dimension.knob].format, values)))
            for dimension, values in plan.space.axes
        ],
        "baseline": _pairs(plan.subject.named_baseline(plan.baseline)),
        "budget": plan.measuring.budget,
    }
    del keys["name"]
    return _command({**keys, **place}, {"objective": plan.subject.objective_name})


def _command(keys: Mapping[str, Any], usual: Mapping[str, Any]) -> str:
    """One line that asks for these keys, but for those that are `usual` or have their default."""
    defaults = usual_measuring(of_program="programs" in keys).keys()
    arguments = search_arguments(keys, {**defaults, **usual})
    return command("search", *arguments)
