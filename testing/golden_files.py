"""Trace files for the readers' tests."""

import json
from pathlib import Path
from typing import Any

import pandas as pd

GOLDEN = Path(__file__).parents[1] / "tests" / "trace" / "golden"
KINETO = (GOLDEN / "kineto_rank0.json", GOLDEN / "kineto_rank1.json")
KINETO_1_9 = GOLDEN / "kineto_1_9.json"
"""As PyTorch 1.8 and 1.9 write it."""
LEGACY = GOLDEN / "legacy.json"
NATIVE = GOLDEN / "native.json"
CALLBACK_WORK, CALLBACK_CALLS = GOLDEN / "callback_work.json", GOLDEN / "callback_calls.json"

SPAN = ("rank", "thread", "name", "start_ns", "end_ns")
"""The columns of operators that readers fill in."""

Events = list[dict[str, Any]]


def operator(**changes: Any) -> dict[str, Any]:
    """An operator as Kineto writes it; a change to None takes the field away."""
    event = {
        **{"ph": "X", "cat": "cpu_op", "name": "aten::mul", "pid": 7, "tid": 7},
        **{"ts": 10.0, "dur": 2.0, "args": {"External id": 1}},
        **changes,
    }
    return {field: value for field, value in event.items() if value is not None}


def write_kineto(path: Path, events: Events, **header: Any) -> Path:
    """A file of Kineto's layout; other keys of its header as given."""
    path.write_text(json.dumps({"schemaVersion": 1, **header, "traceEvents": events}))
    return path


def rows(frame: pd.DataFrame, *columns: str) -> list[tuple[Any, ...]]:
    """The values of these columns, row by row, nulls as None."""
    values = frame[list(columns)].astype(object)
    return list(values.where(values.notna(), None).itertuples(index=False, name=None))
