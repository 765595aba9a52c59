"""A trace: two frames, their columns, and facts about it and its ranks.

Times are int64 nanoseconds since the trace's base, on one clock for all ranks. The words that the
columns hold (CallKind, CallBody, CallStatus, Link) are in `tuner.trace.model.spans`.
"""

from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from tuner.text import first_of
from tuner.trace.model.spans import Facts, TraceRank

IntArray = NDArray[np.int64]
FloatArray = NDArray[np.float64]
BoolArray = NDArray[np.bool_]

Recorder = Literal["rpc-tuner", "kineto", "legacy"]  # what recorded a trace
RECORDERS: dict[Recorder, str] = {  # their names in sentences
    "rpc-tuner": "rpc-tuner",
    "kineto": "torch.profiler (Kineto)",
    "legacy": "the legacy profiler",
}
RankSource = Literal["file", "calls", "order"]  # how it is known which rank a file is of
RANKS_BY: dict[RankSource, str] = {  # the same in sentences
    "file": "as the files say",
    "calls": "by the names in their calls",
    "order": "by the order of the files' names",
}
CALL_COLUMNS: dict[str, str] = {
    "call_id": "int64",  # unique in the trace
    "name": "category",  # as in PyTorch: rpc_async#function(client -> server)
    "kind": "category",  # CallKind
    "body": "category",  # CallBody
    "function": "category",  # the function's qualified name
    "site": "category",  # who issues it: file and line of the program; empty if not known
    "defined": "category",  # where the served function is defined; empty if not known
    "client": "category",  # RPC name
    "server": "category",  # RPC name
    "client_rank": "int64",
    "server_rank": "int64",  # UNKNOWN_RANK where only its name is known
    "client_thread": "int64",  # the kernel's thread id
    "start_ns": "int64",  # the client begins the call
    "issued_ns": "Int64",  # the client has handed it to the transport
    "end_ns": "Int64",  # the client's future is complete; null: not within the trace
    "status": "category",  # CallStatus, as the client saw it
    "error": "str",  # the exception's type and first line; empty if none
    "timeout_s": "Float64",  # after how long PyTorch fails the call; 0 for never
    "request_bytes": "Int64",  # of what was sent: pickle and tensors
    "request_tensors": "Int64",  # how many tensors are in that
    "same_as": "Int64",  # an earlier call of the same RRef, or with the same large pickle
    "parent_call": "Int64",  # the call that the client was serving when it made this one
    "link": "category",  # Link
    "server_thread": "Int64",
    "server_start_ns": "Int64",  # the function begins on the server
    "server_end_ns": "Int64",  # the function leaves its thread
    "answered_ns": "Int64",  # the thread has pickled the answer
    "answer_tensors": "Int64",  # how many tensors are in that answer
    "answer_bytes": "Int64",  # the bytes of these tensors
    "arrived_ns": "Int64",  # a thread begins to unpickle the request; only if that takes long
    "unpickled_ns": "Int64",  # it has unpickled it
    "received_ns": "Int64",  # the client begins to unpickle the answer; only if that takes long
    "done_ns": "Int64",  # the future of an async_execution function is complete
    "cpu_ns": "Int64",  # on-CPU time of the server's thread in the function
    "run_queue_ns": "Int64",  # time that thread was runnable and waited for a CPU
    "slices": "Int64",  # how often that thread was given a CPU in the function
}
UNKNOWN_RANK = -1  # the rank of a server of which the trace knows the name only
OPERATOR_COLUMNS: dict[str, str] = {
    "rank": "int64",
    "thread": "int64",
    "name": "category",  # aten::mul
    "start_ns": "int64",
    "end_ns": "int64",
    "call_id": "Int64",  # the call that ran it
    "call_name": "category",  # that call's name; empty for an operator that no call ran
    "link": "category",  # Link
}
CALLBACK_COLUMNS: dict[str, str] = {
    "rank": "int64",
    "thread": "int64",
    "function": "category",  # the function's qualified name
    "call_id": "Int64",  # the call whose end ran it; null where that is not known
    "holds_thread": "bool",  # a worker thread; else it ran inside other code, and is part of that
    "start_ns": "int64",
    "end_ns": "Int64",  # null: it was still running
    "cpu_ns": "Int64",
    "run_queue_ns": "Int64",
}
_MISSING: dict[str, dict[str, Any]] = {
    "int64": {"dtype": "int64"},
    "Int64": {"data": pd.NA, "dtype": "Int64"},
    "Float64": {"data": pd.NA, "dtype": "Float64"},
    "str": {"data": "", "dtype": "str"},
    "category": {"data": "", "dtype": pd.CategoricalDtype([""])},
    "bool": {"data": False, "dtype": "bool"},
}
"""What a column holds that is not given; one of plain integers has no rows."""


@dataclass(frozen=True, kw_only=True)
class RankFile:
    """The file of a rank."""

    rank: int
    file: str
    by: RankSource


@dataclass(frozen=True, kw_only=True)
class Trace(Facts):
    """The calls and the operators of one world, on one clock."""

    calls: pd.DataFrame
    """One row per call, by start: `tuner.trace.model.trace.CALL_COLUMNS`."""
    operators: pd.DataFrame
    """One row per operator on any thread, by rank, thread and start: `OPERATOR_COLUMNS`."""
    source: Recorder
    """What has recorded it."""
    world_size: int | None = None
    """The number of ranks of the run, if its files say it: some may not be here."""
    callbacks: pd.DataFrame = field(default_factory=lambda: make_callbacks({}))
    """One row per callback of a future, by rank, thread and start: `CALLBACK_COLUMNS`."""
    rank_files: tuple[RankFile, ...] = ()
    """The file of each rank; empty where one file has all ranks by its format."""

    def with_operators(self) -> "Trace":
        """The part of it whose operators are known: all of it, or what had ended by then."""
        until_ns = self.operators_until_ns
        if until_ns is None:
            return self
        calls, operators = self.calls, self.operators
        ended = pd.Series(True, index=calls.index)
        for edge in ("end_ns", "answered_ns", "server_end_ns", "done_ns"):
            ended &= (calls[edge] <= until_ns).fillna(edge != "end_ns").astype(bool)
        return replace(
            self,
            calls=calls[ended].reset_index(drop=True),
            operators=operators[operators["end_ns"] <= until_ns].reset_index(drop=True),
            window_ns=(self.window_ns[0], max(self.window_ns[0], until_ns)),
            operators_until_ns=None,
        )

    def process(self, rank: int) -> TraceRank:
        """What is known of the process of this rank, if only its number."""
        # Most often each is at its own place: of many ranks, not all are looked at.
        if 0 <= rank < len(self.ranks) and self.ranks[rank].rank == rank:
            return self.ranks[rank]
        unknown = TraceRank(rank=rank, name=f"rank {rank}")
        return next((known for known in self.ranks if known.rank == rank), unknown)

    def files_of_ranks(self, most: int) -> list[str]:
        """Which of several files is which rank, and how that is known: at most one sentence."""
        files = {file.file for file in self.rank_files}
        is_short = len({Path(file).name for file in files}) == len(files)
        known: dict[str, list[str]] = {}
        for rank in self.rank_files if len(files) > 1 else ():
            name = Path(rank.file).name if is_short else rank.file
            known.setdefault(RANKS_BY[rank.by], []).append(f"{rank.rank} is {name}")
        said = [f"{first_of(ranks, most)}, {how}" for how, ranks in known.items()]
        return [f"Ranks: {'; '.join(said)}."] if said else []


def make_calls(columns: dict[str, object]) -> pd.DataFrame:
    """A calls frame from columns of CALL_COLUMNS, sorted by start.

    A column that is not given holds nulls, or empty text. ValueError if a column is unknown,
    KeyError if one of `int64` is not given.
    """
    return _typed(columns, CALL_COLUMNS).sort_values("start_ns", kind="stable", ignore_index=True)


def make_operators(columns: dict[str, object]) -> pd.DataFrame:
    """As `make_calls`, from columns of OPERATOR_COLUMNS; sorted by rank, thread and start."""
    return _by_thread(_typed(columns, OPERATOR_COLUMNS))


def make_callbacks(columns: dict[str, object]) -> pd.DataFrame:
    """As `make_calls`, from columns of CALLBACK_COLUMNS; sorted by rank, thread and start."""
    return _by_thread(_typed(columns, CALLBACK_COLUMNS))


def _by_thread(frame: pd.DataFrame) -> pd.DataFrame:
    return frame.sort_values(["rank", "thread", "start_ns"], kind="stable", ignore_index=True)


def _typed(columns: dict[str, object], declared: dict[str, str]) -> pd.DataFrame:
    if unknown := sorted(set(columns) - set(declared)):
        raise ValueError(f"no such columns: {', '.join(unknown)}")
    rows = len(next(iter(columns.values()), ()))  # type: ignore[arg-type]
    return pd.DataFrame(
        {
            name: pd.Series(columns[name], dtype=dtype)
            if name in columns or (rows and dtype == "int64")
            else pd.Series(**_MISSING[dtype], index=range(rows))
            for name, dtype in declared.items()
        }
    )
