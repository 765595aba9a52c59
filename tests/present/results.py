"""Study results written by hand: what the presentation is given."""

import math
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from tests.plan.specs import threads, workload_spec
from tuner.decide.records import OBJECTIVES
from tuner.decide.result import StudyAnswer, TrialRow
from tuner.decide.statistics import Interval
from tuner.plan.settings import Settings
from tuner.plan.study_plan import StudyPlan, draft_plan
from tuner.plan.workload_spec import WorkloadSpec
from tuner.world.environment import Environment

ENVIRONMENT = Environment(
    torch="2.13.0",
    python="3.11.9",
    cpu_model="Abacus 9000",
    cpu_count=2,
    memory_gb=7.7,
    kernel="6.1.0",
)
FASTER = Interval(1.5, 1.4, 1.62)


def study_plan(out: Path, spec: WorkloadSpec | None = None, **keys: Any) -> StudyPlan:
    """A plan over the worker threads; `keys` are those of a plan file."""
    return draft_plan({"workload": "udf", "out": str(out), **keys}).finish(spec or workload_spec())


def measured(
    trial: int,
    settings: Settings,
    value: float,
    ci: tuple[float, float] = (math.nan, math.nan),
    *,
    outcome: str = "completed",
    tied: bool = False,
) -> TrialRow:
    """Settings that ran, five worlds of them."""
    return TrialRow(
        trial=trial,
        label=str(settings),
        settings=settings.to_json(),
        outcome=outcome,
        failure=None,
        samples=5,
        value=value,
        ci_low=ci[0],
        ci_high=ci[1],
        cpu_cores=1.75,
        peak_rss_mb=201.4,
        rpc_cpu_total_ms=8.123,
        parallelism_mean=3.52,
        parallelism_max=4.0,
        observer_effect=1.24,
        diagnosis=f"What limits {settings}.",
        tied_with_best=tied,
    )


def failed(trial: int, settings: Settings, message: str = "server failed first") -> TrialRow:
    """Settings whose worlds crashed, before any was measured."""
    return TrialRow(
        trial=trial,
        label=str(settings),
        settings=settings.to_json(),
        outcome="crashed",
        failure=message,
        samples=0,
        value=math.nan,
        ci_low=math.nan,
        ci_high=math.nan,
        cpu_cores=math.nan,
        peak_rss_mb=math.nan,
    )


ROWS = (
    measured(1, threads(4), 2.0, (1.9, 2.1), tied=True),
    measured(2, threads(8), 2.05, (1.95, 2.15), tied=True),
    measured(0, threads(16), 3.0, (2.9, 3.1)),
    measured(3, threads(1), 6.0, (5.5, 6.5), outcome="eliminated"),
    failed(4, threads(32)),
)


def study_result(plan: StudyPlan, **changes: Any) -> StudyAnswer:
    """4 threads are better than the baseline's 16, unless `changes` say otherwise."""
    fields: dict[str, Any] = {
        "study": plan.name,
        "plan": plan,
        "environment": ENVIRONMENT,
        "objective": OBJECTIVES[plan.measuring.objective],
        "baseline": plan.baseline,
        "best": threads(4),
        "verdict": "better",
        "speedup": FASTER,
        "challenger": threads(4),
        "challenger_speedup": FASTER,
        "epsilon_achieved": 0.02,
        "blocks": 12,
        "worlds": 60,
        "elapsed_s": 42.3,
        "measured_at": datetime(2026, 11, 21, 9, 30, tzinfo=UTC),
        "rows": ROWS,
    }
    return StudyAnswer(**{**fields, **changes})


def nothing_ran(plan: StudyPlan) -> StudyAnswer:
    """Every settings failed."""
    return study_result(
        plan,
        best=None,
        verdict=None,
        speedup=None,
        challenger=None,
        challenger_speedup=None,
        epsilon_achieved=None,
        rows=(failed(0, threads(16)), failed(1, threads(4))),
    )
