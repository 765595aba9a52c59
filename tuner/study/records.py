"""What a study has measured so far, and the matrix that decisions are made from."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from pydantic import BaseModel, ConfigDict

from tuner.decide.statistics import FloatArray
from tuner.plan.study_plan import ObjectiveName
from tuner.world.measurement import Measurement, Outcome

Phase = Literal["calibration", "trace", "race", "confirmation"]

CALIBRATION_BLOCK = -1
TRACE_BLOCK = -2


class Record(BaseModel):
    """One world: whose settings it ran, in which block, and what came of it."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    trial: int
    block: int
    """From 0; calibrations and traces are no samples, and stand in blocks -1 and -2."""
    phase: Phase
    outcome: Outcome


@dataclass(frozen=True)
class Objective:
    """A number to make small, and its unit."""

    name: ObjectiveName
    unit: str
    label: str
    traced: bool = False
    """Whether it is read from a trace, so that every world of a study is traced."""


OBJECTIVES: dict[ObjectiveName, Objective] = {
    "step_ms": Objective("step_ms", "ms", "median step time"),
    "step_p99_ms": Objective("step_p99_ms", "ms", "99th percentile of the step time"),
    "cpu_ms_per_step": Objective("cpu_ms_per_step", "ms", "CPU time of all ranks per step"),
    "rpc_cpu_total_ms": Objective("rpc_cpu_total_ms", "ms", "RPC CPU total per step", traced=True),
    "rpc_p99_ms": Objective(
        "rpc_p99_ms", "ms", "99th percentile of the latency of RPC calls", traced=True
    ),
}


def objective_value(objective: ObjectiveName, measurement: Measurement) -> float:
    """The objective of one world, in the objective's unit."""
    match objective:
        case "step_ms":
            return measurement.median_step_s * 1e3
        case "step_p99_ms":
            return measurement.p99_step_s * 1e3
        case "cpu_ms_per_step":
            return cpu_ms_per_step(measurement)
        case "rpc_cpu_total_ms" | "rpc_p99_ms":
            value = None if measurement.trace is None else getattr(measurement.trace, objective)
            if value is None:
                raise ValueError(f"a world without a trace has no {objective}")
            return float(value)


def cpu_ms_per_step(measurement: Measurement) -> float:
    """CPU time of all ranks over the timed part, per step, in milliseconds."""
    return measurement.cpu_s / len(measurement.step_s) * 1e3


def log_matrix(
    records: Sequence[Record],
    objective: ObjectiveName,
    trials: int,
    phases: Sequence[Phase],
) -> FloatArray:
    """log(objective), blocks x trials, for the blocks of `phases`; NaN where nothing was measured.

    Rows are the blocks in order; blocks of other phases have no row.
    """
    wanted = [
        record
        for record in records
        if record.phase in phases and isinstance(record.outcome, Measurement)
    ]
    rows = {block: row for row, block in enumerate(sorted({record.block for record in wanted}))}
    matrix = np.full((len(rows), trials), np.nan)
    for record in wanted:
        assert isinstance(record.outcome, Measurement)
        value = objective_value(objective, record.outcome)
        matrix[rows[record.block], record.trial] = math.log(max(value, 1e-12))
    return matrix
