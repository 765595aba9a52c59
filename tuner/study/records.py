"""What a study has measured so far, and the matrix that decisions are made from."""

import math
from collections.abc import Sequence
from typing import Literal

import numpy as np
from pydantic import BaseModel, ConfigDict

from tuner.decide.statistics import FloatArray
from tuner.plan.objectives import Objective
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


def log_matrix(
    records: Sequence[Record],
    objective: Objective,
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
        value = objective.value(record.outcome)
        matrix[rows[record.block], record.trial] = math.log(max(value, 1e-12))
    return matrix
