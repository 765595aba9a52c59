"""What a trace is: two frames and the facts about its ranks. The one place that declares it.

Times are int64 nanoseconds since the trace's base, on one clock for all ranks. The words in the
columns are declared with the file's, in `tuner.trace.model.document`.
"""

from dataclasses import dataclass
from typing import Literal

import numpy as np
import pandas as pd

from tuner.trace.model.document import TraceRank

CALL_COLUMNS: dict[str, str] = {
    "call_id": "int64",  # unique in the trace
    "name": "category",  # PyTorch's key: rpc_async#function(client -> server)
    "kind": "category",  # CallKind
    "body": "category",  # CallBody
    "function": "category",  # the function's qualified name
    "client": "category",  # RPC name
    "server": "category",  # RPC name
    "client_rank": "int64",
    "server_rank": "int64",  # -1 where a foreign trace names the server only
    "client_thread": "int64",  # the kernel's thread id
    "start_ns": "int64",  # the client begins the call
    "issued_ns": "Int64",  # the client has handed it to the transport
    "end_ns": "Int64",  # the client's future is complete; null: never, as far as the trace goes
    "status": "category",  # CallStatus, as the client saw it
    "error": "str",  # the exception's type and first line; empty if none
    "parent_call": "Int64",  # the served call within which the client made this one
    "link": "category",  # Link
    "server_thread": "Int64",
    "server_start_ns": "Int64",  # the function begins on the server
    "server_end_ns": "Int64",  # the function leaves its thread
    "done_ns": "Int64",  # the future of an async_execution function is complete
    "cpu_ns": "Int64",  # on-CPU time of the server's thread in the function
    "run_queue_ns": "Int64",  # time that thread was runnable and waited for a core
}

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


@dataclass(frozen=True, kw_only=True)
class Trace:
    """One world's calls and operators on one clock. Build with `make_calls`, `make_operators`."""

    calls: pd.DataFrame
    """One row per call, CALL_COLUMNS, by start."""
    operators: pd.DataFrame
    """One row per operator on any thread, OPERATOR_COLUMNS, by rank, thread, start."""
    ranks: tuple[TraceRank, ...]
    source: Literal["rpc-tuner", "kineto", "legacy"]
    base_time_ns: int = 0
    """Unix time of the frames' zero."""
    window_ns: tuple[int, int] = (0, 0)
    """From when to when the trace was taken."""
    operators_recorded: bool = True
    """Whether operators were asked for at all."""
    steps: int | None = None
    """Steps of the workload in the window, where it was a workload's."""
    clock_error_ns: int = 0
    """Times of different ranks are comparable to within this; 0 on one host."""
    tracing_overhead: float | None = None
    """Traced step time over untraced step time."""
    losses: tuple[str, ...] = ()
    """What the trace lacks, each as a sentence."""

    def rank_named(self, name: str) -> TraceRank | None:
        """The rank with this RPC name."""
        return next((rank for rank in self.ranks if rank.name == name), None)


def make_calls(columns: dict[str, object]) -> pd.DataFrame:
    """A calls frame from its columns; one that is missing is null, or empty text, throughout."""
    return _typed(columns, CALL_COLUMNS).sort_values("start_ns", kind="stable", ignore_index=True)


def make_operators(columns: dict[str, object]) -> pd.DataFrame:
    """An operators frame from its columns; one that is missing is null, or empty, throughout."""
    frame = _typed(columns, OPERATOR_COLUMNS)
    return frame.sort_values(["rank", "thread", "start_ns"], kind="stable", ignore_index=True)


def _typed(columns: dict[str, object], declared: dict[str, str]) -> pd.DataFrame:
    if unknown := sorted(set(columns) - set(declared)):
        raise ValueError(f"no such columns: {', '.join(unknown)}")
    rows = len(next(iter(columns.values()), ()))  # type: ignore[arg-type]
    typed: dict[str, pd.Series] = {}
    for name, dtype in declared.items():
        if name in columns:
            typed[name] = pd.Series(columns[name], dtype=dtype)
        elif dtype == "int64" and rows:
            raise ValueError(f"the column {name} has to be given")
        else:
            typed[name] = _missing(rows, dtype)
    return pd.DataFrame(typed)


def _missing(rows: int, dtype: str) -> pd.Series:
    """A column of nulls, or of empty text; of numbers that cannot be null, without rows."""
    if dtype == "Int64":
        empty = pd.arrays.IntegerArray(np.zeros(rows, np.int64), np.ones(rows, bool))
        return pd.Series(empty)
    if dtype == "category":
        return pd.Series(pd.Categorical.from_codes(np.zeros(rows, np.int64), pd.Index([""])))
    return pd.Series([""] * rows if dtype == "str" else [], dtype=dtype)
