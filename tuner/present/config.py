"""The recommended configuration: `recommended.json`, other exports of it, and lines to paste."""

import math
from pathlib import Path
from typing import Any, Literal

import orjson

from tuner.decide.result import StudyAnswer, TrialRow
from tuner.decide.statistics import Interval
from tuner.errors import UsageError
from tuner.files import written_atomically
from tuner.plan.knobs import INTRA_OP_THREADS
from tuner.plan.settings import Settings
from tuner.plan.workload_spec import WorkloadSpec
from tuner.present.numbers import counted, three_digits
from tuner.present.wording import verdict_sentence
from tuner.recommended.code import literal, options_call, table
from tuner.recommended.files import as_json, as_toml
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
from tuner.recommended.snippet import as_python

ExportFormat = Literal["json", "toml", "python"]


def exported(result: StudyAnswer, form: ExportFormat, trial: int | None = None) -> str:
    """The recommended settings, or those of a trial, in a form that a program loads.

    UsageError if there are none.
    """
    recommendation = recommendation_of(result, trial)
    match form:
        case "json":
            return as_json(recommendation)
        case "toml":
            return as_toml(recommendation)
        case "python":
            return as_python(recommendation, _sentence(result, recommendation))


def recommendation_of(result: StudyAnswer, trial: int | None = None) -> Recommendation:
    """What is recommended, or the settings of a trial, with what they rest on.

    UsageError if the study recommends nothing, or if the trial has not run.
    """
    row = _best_row(result) if trial is None else _row_of_trial(result, trial)
    settings, spec = Settings.from_json(row.settings), result.plan.workload
    is_best, measuring = settings == result.best, result.plan.measuring
    return Recommendation(
        format=FORMAT,
        study=result.study,
        trial=row.trial,
        settings=settings,
        verdict=result.verdict if is_best else None,
        speedup=_speedup(result.speedup if is_best else None),
        measured=Measured.of(
            row.value, row.ci_low, row.ci_high, unit=result.objective.unit, worlds=row.samples
        ),
        challenger=Challenger(
            settings=result.challenger, speedup=_speedup(result.challenger_speedup)
        ),
        objective=result.objective.name,
        confidence=measuring.confidence,
        how=How(
            timed_part_s=measuring.timed_part_s,
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
                role: settings.for_role(role).get(INTRA_OP_THREADS.name, spec.intra_op_threads)
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


def _sentence(result: StudyAnswer, recommendation: Recommendation) -> str:
    """The verdict; of settings chosen by hand, what they are."""
    if recommendation.settings == result.best:
        return verdict_sentence(result)
    measured = recommendation.measured
    assert measured.value is not None
    advice = (
        "the study has no verdict yet"
        if result.best is None
        else f"the study's own verdict is: {verdict_sentence(result)}"
    )
    return (
        f"Chosen by hand: {recommendation.settings}, {three_digits(measured.value)} "
        f"{measured.unit} in {counted(measured.worlds, 'world')}, by {result.objective.label}; "
        f"{advice.removesuffix('.')}."
    )


def recommended_document(result: StudyAnswer) -> dict[str, Any]:
    """The content of `recommended.json` as data. The result must have a best."""
    return recommendation_of(result).model_dump(mode="json")


def write_recommended(result: StudyAnswer, path: Path) -> None:
    """Write `recommended.json`, whole or not at all."""
    content = exported(result, "json")
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


def init_rpc_lines(settings: Settings, spec: WorkloadSpec) -> str:
    """Python lines that start RPC with these settings, one options object per different role."""
    by_role = {
        role: {INTRA_OP_THREADS.name: spec.intra_op_threads, **settings.for_role(role)}
        for role in spec.roles
    }
    options = {role: options_call(values) for role, values in by_role.items()}
    threads = {role: values[INTRA_OP_THREADS.name] for role, values in by_role.items()}
    lines = ["import torch", "import torch.distributed.rpc as rpc", ""]
    if len(set(threads.values())) == 1:
        lines.append(f"torch.set_num_threads({next(iter(threads.values()))})  # as measured")
    else:
        lines.append(f"torch.set_num_threads({literal(threads)}[role])  # as measured")
    if len(set(options.values())) == 1:
        lines.append(f"options = {next(iter(options.values()))}")
    else:
        lines += ["options = {"]
        lines += [f"    {part}," for part in table(options.items()).parts]
        lines += ["}[role]"]
    lines.append(
        "rpc.init_rpc(name, rank=rank, world_size=world_size, rpc_backend_options=options)"
    )
    return "\n".join(lines)
