"""From a study's answer to the recommendation, and to its file `recommended.json`."""

import math
from pathlib import Path

from tuner.errors import UsageError
from tuner.files import written_atomically
from tuner.plan.program_spec import intra_op_threads
from tuner.recommended.document import FORMAT
from tuner.recommended.model import (
    Challenger,
    How,
    Measured,
    MeasuredIn,
    Recommendation,
    Speedup,
    as_json,
)
from tuner.study.answer import StudyAnswer
from tuner.study.rows import TrialRow, ratio_json


def recommendation_of(answer: StudyAnswer, trial: int | None = None) -> Recommendation:
    """That of a trial, or of the best one; UsageError if there is none, or it did not run."""
    row = _best_row(answer) if trial is None else _row_of_trial(answer, trial)
    config, subject, measuring = row.config, answer.plan.subject, answer.plan.measuring
    is_best = row.trial == answer.best_trial
    return Recommendation(
        format=FORMAT,
        study=answer.study,
        trial=row.trial,
        config=config,
        verdict=answer.verdict if is_best else None,
        speedup=Speedup(**ratio_json(answer.speedup if is_best else None)),
        measured=Measured(
            value=_known(row.value),
            ci_low=_known(row.ci_low),
            ci_high=_known(row.ci_high),
            unit=answer.objective.unit,
            worlds=row.samples,
        ),
        challenger=Challenger(
            config=answer.challenger, speedup=Speedup(**ratio_json(answer.challenger_speedup))
        ),
        objective=answer.objective.name,
        confidence=measuring.confidence,
        how=How(
            min_time_s=measuring.min_time_s,
            deadline_s=measuring.deadline_s,
            epsilon=measuring.epsilon,
            require=tuple(map(str, measuring.require)),
            launching=answer.plan.launching,
        ),
        baseline=answer.baseline,
        ranks=subject.ranks,
        environment=MeasuredIn(
            **answer.environment.model_dump(),
            **subject.measured(),
            intra_op_threads=intra_op_threads(subject, config),
            date=answer.measured_at.replace(microsecond=0),
        ),
    )


def _known(number: float) -> float | None:
    return number if math.isfinite(number) else None


def _best_row(answer: StudyAnswer) -> TrialRow:
    if answer.best_trial is not None:
        return answer.by_trial[answer.best_trial]
    if answer.interrupted:
        raise UsageError(
            f"the study {answer.study} recommends nothing yet: finish its search with --resume, or "
            "choose a configuration by --trial N. N is in the column trial of trials.csv"
        )
    why = "the baseline failed, and no block measured another configuration"
    if answer.verdict is None:
        why = "no configuration of its search space could run"
    elif answer.baseline_broken:
        why = "no configuration is known to keep its limits, and to run often enough"
    raise UsageError(f"the study {answer.study} recommends nothing: {why}")


def _row_of_trial(answer: StudyAnswer, trial: int) -> TrialRow:
    if (row := answer.by_trial.get(trial)) is None:
        known = f"its trials are 0 to {max(answer.by_trial)}"
        raise UsageError(f"the study {answer.study} has no trial {trial}; {known}")
    if row.failure is not None:
        often = f"fails in {row.worlds_failed} of {row.worlds_run} worlds"
        what = often if row.worlds_failed < row.worlds_run else "cannot run"
        what = "does less work than the baseline" if row.does_less else what
        raise UsageError(f"trial {trial} ({row.label}) {what}: {row.outcome}: {row.failure}")
    if math.isnan(row.value) and trial != answer.best_trial:
        raise UsageError(f"trial {trial} ({row.label}) was not measured")
    return row


def write_recommended(answer: StudyAnswer, path: Path) -> None:
    """Write `recommended.json`, whole or not at all."""
    content = as_json(recommendation_of(answer))
    with written_atomically(path) as partial:
        partial.write_text(content, encoding="utf-8")
