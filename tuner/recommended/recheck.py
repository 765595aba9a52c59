"""The plan and the command that measure a recommendation again."""

from typing import Any

from tuner.errors import UsageError
from tuner.recommended.model import Recommendation
from tuner.study.search_commands import command_of, pairs_of


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
    return command_of(_recheck_keys(recommendation), {})


def _recheck_keys(recommendation: Recommendation) -> dict[str, Any]:
    environment, how = recommendation.environment, recommendation.how
    program, chosen = environment.program, recommendation.config
    compared = recommendation.challenger.config if chosen == recommendation.baseline else chosen
    subject = {"workload": environment.workload, "options": environment.options}
    return {
        **(subject if program is None else program.keys()),
        "space": None if compared is None else pairs_of(compared),
        "baseline": pairs_of(recommendation.baseline),
        "objective": recommendation.objective,
        "min_time": how.min_time_s,
        "deadline": how.deadline_s,
        "epsilon": how.epsilon,
        "confidence": recommendation.confidence,
        "require": list(how.require),
        **how.launching.keys(),
        "name": f"{recommendation.study}-check",
    }
