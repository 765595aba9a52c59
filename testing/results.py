"""Study results written by hand: what the presentation is given."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np

from testing.known import known as known
from testing.specs import for_all, threads, workload_spec
from tuner.decide.gains import Gains, Paired
from tuner.decide.statistics import Interval
from tuner.plan.config import Config
from tuner.plan.draft import draft_plan
from tuner.plan.study_plan import StudyPlan
from tuner.plan.workload_spec import WorkloadSpec
from tuner.study.answer import StudyAnswer
from tuner.study.folder import STUDIES, StudyFolder
from tuner.study.records import ForecastChange
from tuner.study.rows import Observation, TrialDetail, TrialRow
from tuner.trace.forecast.by_callers import ByCallers
from tuner.trace.forecast.forecasts import Forecast
from tuner.world.environment import Environment
from tuner.world.measurement import CallPart, Quantiles

CHANGES = (
    ForecastChange(
        change="together", function="look_up", site="main.py:42", ratio=1 / 6.5, ratio_low=1 / 7.4,
        ratio_high=1 / 5.6, condition="if they do not need each other's results",
        sentence="issue the 16 calls of look_up together (rpc_async)",
    ),
    ForecastChange(
        change="faster", function="look_up", site=None, ratio=1.0, ratio_low=0.85, ratio_high=1.17,
        condition="", sentence="look_up twice as fast",
    ),
)  # fmt: skip
"""What a trace tells of changes of the code: one gains, one may not."""
CALLERS = tuple(
    ByCallers(2 * n, n, Forecast(ratio=n / most, ratio_low=n / most - 0.1, ratio_high=n),
              is_full=n > 2, limit="the lock of server" * (n > 2))
    for n, most in ((1, 1), (2, 1.9), (3, 2.0), (4, 2.0))
)  # fmt: skip
"""And of more callers."""
ENVIRONMENT = Environment(
    torch="2.13.0", python="3.11.9", cpu_model="Abacus 9000", cpu_count=2, memory_gb=7.7,
    kernel="6.1.0",
)  # fmt: skip
NOT_KNOWN = (math.nan, math.nan)
FASTER = Interval(1.5, 1.4, 1.62)


def study_plan(spec: WorkloadSpec | None = None, **keys: Any) -> StudyPlan:
    """A plan over the worker threads; `keys` are those of a plan file."""
    return draft_plan({"workload": "udf", **keys}).finish(spec or workload_spec())


METRICS: dict[str, float] = {
    "cpu_cores": 1.75, "step_p99_ms": 2.75, "cpu_ms_per_step": 3.5, "peak_rss_mb": 201.4,
    "rpc_cpu_total_ms": 8.123, "parallelism_mean": 3.52, "parallelism_max": 4.0,
    "tracing_overhead": 1.24,
}  # fmt: skip


def measured(
    trial: int, config: Config, value: float, ci: tuple[float, float] = NOT_KNOWN, *,
    outcome: str = "completed", tied: bool = False, metrics: Mapping[str, float] | None = None,
) -> TrialRow:  # fmt: skip
    """A trial that ran, with five worlds; `metrics` replace some of METRICS."""
    return TrialRow(
        trial=trial, config=config, outcome=outcome, failure=None, samples=5, worlds_run=6,
        value=value, ci_low=ci[0], ci_high=ci[1], metrics={**METRICS, **(metrics or {})},
        diagnosis=f"What limits {config}.", tied_with_best=tied,
    )  # fmt: skip


def failed(trial: int, config: Config, message: str = "server failed first") -> TrialRow:
    """A trial whose worlds crashed before any was measured."""
    return TrialRow(
        trial=trial, config=config, outcome="crashed", failure=message, samples=0, worlds_run=4,
        worlds_failed=4, value=math.nan, ci_low=math.nan, ci_high=math.nan,
    )  # fmt: skip


def failed_later(
    trial: int, config: Config, value: float, ci: tuple[float, float] = NOT_KNOWN
) -> TrialRow:
    """A trial that failed too often after three worlds were measured, whose numbers are kept."""
    return replace(
        measured(trial, config, value, ci, outcome="deadlocked"), failure="no progress", samples=3,
        worlds_run=12, worlds_failed=8, unreliable=True,
    )  # fmt: skip


_TRIALS = 99  # more than any of these studies has
ROWS = (
    measured(1, threads(4), 2.0, (1.9, 2.1), tied=True),
    measured(2, threads(8), 2.05, (1.95, 2.15), tied=True),
    measured(0, threads(16), 3.0, (2.9, 3.1)),
    measured(3, threads(1), 6.0, (5.5, 6.5), outcome="eliminated"),
    failed(4, threads(32)),
)


def study_result(
    plan: StudyPlan | None = None, folder: Path | None = None, **changes: Any
) -> StudyAnswer:
    """4 threads are better than the baseline's 16, unless `changes` say otherwise.

    Its files are in `folder`, by default where a search puts them. `best` and `challenger` are
    configurations; their trials are found in the rows.
    """
    plan = plan or study_plan()
    fields: dict[str, Any] = {
        "study": plan.name, "files": StudyFolder(folder or STUDIES / plan.name), "plan": plan,
        "environment": ENVIRONMENT, "objective": plan.objective, "best": threads(4),
        "verdict": "better", "speedup": FASTER, "challenger": threads(4),
        "challenger_speedup": FASTER, "epsilon_achieved": 0.02, "blocks": 12, "worlds": 60,
        "resume_budget_s": 140, "elapsed_s": 42.3, "rows": ROWS,
        "paired": paired_by(changes.get("observations", ()), plan),
        "measured_at": datetime(2026, 11, 21, 9, 30, tzinfo=UTC), **changes,
    }  # fmt: skip
    trials = {row.config: row.trial for row in fields["rows"]}
    for name in ("best", "challenger"):
        config = fields.pop(name)
        fields[f"{name}_trial"] = None if config is None else trials.get(config)
    return StudyAnswer(**fields)


def of_two_knobs(step_ms: Mapping[tuple[int, str], float], **changes: Any) -> StudyAnswer:
    """A study of these numbers of threads with these transports, unless changed without a best."""
    rows = tuple(
        measured(trial, for_all(num_worker_threads=count, transports=way), value)
        for trial, ((count, way), value) in enumerate(step_ms.items())
    )
    return study_result(rows=rows, **{"best": None, "challenger": None, **changes})


def paired_by(observations: Sequence[Observation], plan: StudyPlan) -> Gains:
    """Any two trials compared by these worlds, as if no other pair were."""
    blocks = 1 + max((seen.block for seen in observations), default=-1)
    total, count = np.zeros((2, blocks, _TRIALS))
    for seen in observations:
        total[seen.block, seen.trial] += plan.objective.cost(seen.value)
        count[seen.block, seen.trial] += 1
    matrix = np.where(count > 0, total / np.maximum(1, count), np.nan)
    return Gains(matrix, plan.measuring.confidence)


def in_blocks(answer: StudyAnswer, blocks: int = 8) -> StudyAnswer:
    """The study as if its numbers came from so many blocks of one drift, each trial in all of them.

    The ratios of two trials differ a little from block to block.
    """
    seen = [
        Observation(row.trial, block, "race", row.value * (1 + 0.3 * block) * _wobble(row, block))
        for block in range(blocks)
        for row in answer.rows
        if row.is_measured
    ]
    found = replace(answer, observations=tuple(seen), paired=paired_by(seen, answer.plan))
    rows = (replace(row, against_baseline=found.paired.compare(row.trial, 0)) for row in found.rows)
    return replace(found, rows=tuple(rows))


def _wobble(row: TrialRow, block: int) -> float:
    return 1.01 if (block // (1 + row.trial % 3)) % 2 else 0.99


def against(row: TrialRow, estimate: float, low: float, high: float, blocks: int = 5) -> TrialRow:
    """The row, so many times as fast as the baseline."""
    return replace(row, against_baseline=Paired(Interval(estimate, low, high), blocks))


def by_threads(found: Mapping[int, Mapping[str, Any]]) -> StudyAnswer:
    """A study of so many threads, each measured so; 16 threads are the baseline."""
    rows = (measured(0 if n == 16 else n, threads(n), **each) for n, each in found.items())
    return study_result(rows=tuple(rows))


def nothing_ran(folder: Path | None = None, **changes: Any) -> StudyAnswer:
    """Every configuration failed."""
    unknown = ("best", "verdict", "speedup", "challenger", "challenger_speedup", "epsilon_achieved")
    rows = (failed(0, threads(16)), failed(1, threads(4)))
    return study_result(folder=folder, rows=rows, **{**dict.fromkeys(unknown), **changes})


def quantiles(middle: float) -> Quantiles:
    """Times around a median, with a long tail."""
    shares = {"p5": 0.9, "p25": 0.97, "p50": 1.0, "p75": 1.05, "p95": 1.3, "p99": 2.2}
    return Quantiles(**{name: middle * share for name, share in shares.items()})


def detail(step_ms: float) -> TrialDetail:
    """A trial whose trace tells everything."""
    call_ms = step_ms / 2
    shares: dict[CallPart, float] = {
        "transport": 0.2, "queue": 0.3, "on_cpu": 0.35, "run_queue": 0.1, "off_cpu": 0.05,
    }  # fmt: skip
    parts = {part: share * call_ms for part, share in shares.items()}
    return TrialDetail(step_ms=quantiles(step_ms), call_ms=quantiles(call_ms), call_parts_ms=parts)
