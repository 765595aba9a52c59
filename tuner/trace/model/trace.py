"""A trace: two frames, and facts about it and its ranks."""

from dataclasses import dataclass
from typing import Literal

import pandas as pd

from tuner.trace.model.facts import TraceRank

Recorder = Literal["rpc-tuner", "kineto", "legacy"]
"""What recorded a trace."""
RECORDERS: dict[Recorder, str] = {
    "rpc-tuner": "rpc-tuner",
    "kineto": "torch.profiler (Kineto)",
    "legacy": "the legacy profiler",
}
"""Their names in sentences."""


RankSource = Literal["file", "calls", "order"]
"""How it is known which rank a file is of."""
RANKS_BY: dict[RankSource, str] = {
    "file": "as the files say",
    "calls": "by the names in their calls",
    "order": "by the order of the files' names",
}
"""The same in sentences."""


@dataclass(frozen=True, kw_only=True)
class RankFile:
    """The file of a rank."""

    rank: int
    file: str
    by: RankSource


@dataclass(frozen=True, kw_only=True)
class Trace:
    """The calls and the operators of one world, on one clock."""

    calls: pd.DataFrame
    """One row per call, by start: `tuner.trace.model.columns.CALL_COLUMNS`."""
    operators: pd.DataFrame
    """One row per operator on any thread, by rank, thread and start: `OPERATOR_COLUMNS`."""
    ranks: tuple[TraceRank, ...]
    """What is known of each process."""
    source: Recorder
    """What has recorded it."""
    base_time_ns: int = 0
    """Unix time of the frames' zero."""
    window_ns: tuple[int, int] = (0, 0)
    """When recording began and ended."""
    operators_recorded: bool = True
    """Whether operators were recorded at all."""
    steps: int | None = None
    """Steps of the workload in the window; None where no workload was traced."""
    clock_error_ns: int = 0
    """Times of different ranks are comparable to within this; 0 on one host."""
    tracing_overhead: float | None = None
    """Traced step time over untraced step time."""
    losses: tuple[str, ...] = ()
    """What the trace lacks, each as a sentence."""
    rank_files: tuple[RankFile, ...] = ()
    """The file of each rank; empty where one file has all ranks by its format."""

    def process(self, rank: int) -> TraceRank | None:
        """The process of this rank; None if the trace has no facts about it."""
        return next((known for known in self.ranks if known.rank == rank), None)
