"""The recommended configuration: `recommended.json`, other exports of it, and lines to paste."""

import math
from pathlib import Path
from typing import Any

import orjson

from tuner.decide.statistics import Interval
from tuner.errors import UsageError
from tuner.files import written_atomically
from tuner.plan.config import Config
from tuner.plan.knobs import INTRA_OP_THREADS
from tuner.recommended.json_and_toml import as_json
from tuner.recommended.model import (
    FORMAT,
    Challenger,
    How,
    Measured,
    MeasuredIn,
    Recommendation,
    Speedup,
    known,
)
from tuner.study.answer import StudyAnswer, TrialRow


def recommendation_of(result: StudyAnswer, trial: int | None = None) -> Recommendation:
    """What is recommended, or the settings of a trial, with what they rest on.

    UsageError if the study recommends nothing, or if the trial has not run.
    """
    row = _best_row(result) if trial is None else _row_of_trial(result, trial)
    config, spec = Config.from_json(row.config), result.plan.workload
    is_best, measuring = config == result.best, result.plan.measuring
    return Recommendation(
        format=FORMAT,
        study=result.study,
        trial=row.trial,
        config=config,
        verdict=result.verdict if is_best else None,
        speedup=_speedup(result.speedup if is_best else None),
        measured=Measured.of(
            row.value, row.ci_low, row.ci_high, unit=result.objective.unit, worlds=row.samples
        ),
        challenger=Challenger(
            config=result.challenger, speedup=_speedup(result.challenger_speedup)
        ),
        objective=result.objective.name,
        confidence=measuring.confidence,
        how=How(
            min_time_s=measuring.min_time_s,
            deadline_s=measuring.deadline_s,
            epsilon=measuring.epsilon,
        ),
        baseline=result.baseline,
        ranks=spec.ranks,
        environment=MeasuredIn(
            **result.environment.model_dump(),
            workload=spec.reference,
            options=spec.options,
            intra_op_threads={
                role: config.for_role(role).get(INTRA_OP_THREADS.name, spec.intra_op_threads)
                for role in spec.roles
            },
            date=result.measured_at.replace(microsecond=0),
        ),
    )


def _best_row(result: StudyAnswer) -> TrialRow:
    if (row := result.row_of(result.best)) is not None:
        return row
    if result.interrupted:
        raise UsageError(
            f"the study {result.study} recommends nothing yet: finish it by its search with "
            "--resume, or choose settings by --trial N, the column trial of trials.csv"
        )
    raise UsageError(
        f"the study {result.study} recommends nothing: no settings of its search space could run"
    )


def _row_of_trial(result: StudyAnswer, trial: int) -> TrialRow:
    row = next((row for row in result.rows if row.trial == trial), None)
    if row is None:
        last = max(row.trial for row in result.rows)
        raise UsageError(
            f"the study {result.study} has no trial {trial}; its trials are 0 to {last}"
        )
    if row.failure is not None:
        raise UsageError(f"trial {trial} ({row.label}) cannot run: {row.outcome}: {row.failure}")
    if math.isnan(row.value) and row.label != str(result.best):
        raise UsageError(f"trial {trial} ({row.label}) was not measured")
    return row


def _speedup(found: Interval | None) -> Speedup:
    if found is None:
        return Speedup()
    return Speedup(
        estimate=known(found.estimate), ci_low=known(found.low), ci_high=known(found.high)
    )


def recommended_document(result: StudyAnswer) -> dict[str, Any]:
    """The content of `recommended.json` as data. The result must have a best."""
    return recommendation_of(result).model_dump(mode="json")


def write_recommended(result: StudyAnswer, path: Path) -> None:
    """Write `recommended.json`, whole or not at all."""
    content = as_json(recommendation_of(result))
    with written_atomically(path) as partial:
        partial.write_text(content, encoding="utf-8")


def recommended_for(path: Path) -> str | None:
    """The name of the study whose answer lies there; None if there is none to read."""
    try:
        document = orjson.loads(path.read_bytes())
    except (OSError, orjson.JSONDecodeError):
        return None
    name = document.get("study") if isinstance(document, dict) else None
    return name if isinstance(name, str) else None
