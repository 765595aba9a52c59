"""One world of a study: what was measured, of which trial, and what for."""

from typing import Literal

from pydantic import BaseModel, ConfigDict

from tuner.world.measurement import Outcome

Phase = Literal["calibration", "exploration", "trace", "race"]

CALIBRATION_BLOCK = -1
TRACE_BLOCK = -2
AGAIN = -1
"""Stands for the baseline where a block measures it a second time."""


class Record(BaseModel):
    """One world: whose configuration it ran, in which block, and what came of it."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    trial: int
    block: int
    """From 0; calibrations and traces are no samples, and have the blocks -1 and -2."""
    phase: Phase
    outcome: Outcome
    again: bool = False
    """Whether it is the baseline's second world in its block."""
    group: int | None = None
    """Which group of CPUs or hosts ran it, from 1; None where there are no groups."""

    @property
    def column(self) -> int:
        """Whose world of the block it is: the trial, or -1 for the baseline's second one."""
        return AGAIN if self.again else self.trial
