"""A trace file as the tests look at it: its calls and operators as plain values."""

from collections import Counter
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import msgspec
import pandas as pd

from tuner.trace.files.native_reader import trace_of


class SeenCall(SimpleNamespace):
    """A row of `CALL_COLUMNS`, None for what is not known, and the `operators` that it ran."""

    @property
    def latency_ns(self) -> int:
        return int(self.end_ns - self.start_ns)

    @property
    def served_ns(self) -> int:
        return int(self.server_end_ns - self.server_start_ns)


class SeenTrace:
    """A whole file; calls by start."""

    def __init__(self, path: Path) -> None:
        content = path.read_bytes()
        self.document = msgspec.json.decode(content)
        self.facts: dict[str, Any] = self.document["rpc_tuner"]
        self.frames = trace_of(content, path.name)
        self.operators = [SimpleNamespace(**row) for row in _rows(self.frames.operators)]
        self.calls = [
            SeenCall(**row, operators=[o for o in self.operators if o.call_id == row["call_id"]])
            for row in _rows(self.frames.calls)
        ]

    def named(self, name: str) -> list[SeenCall]:
        """The calls of this name, by start."""
        return [call for call in self.calls if call.name == name]

    def only(self, name: str) -> SeenCall:
        """The one call of this name."""
        (call,) = self.named(name)
        return call

    def names(self) -> Counter[str]:
        """How many calls there are of each name."""
        return Counter(call.name for call in self.calls)


def _rows(frame: pd.DataFrame) -> list[dict[str, Any]]:
    values = frame.astype(object)
    return values.where(values.notna(), None).to_dict("records")  # type: ignore[return-value]
