"""The calls frame of a foreign trace, which knows of each call its name and its client's times."""

from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from tuner.trace.files.event_spans import IntArray
from tuner.trace.model.call_names import read_call_name
from tuner.trace.model.columns import UNKNOWN_RANK, make_calls


def calls_by_name(
    names: pd.Categorical,
    *,
    client_rank: IntArray,
    client_thread: IntArray,
    start_ns: IntArray,
    end_ns: IntArray,
    ranks: Mapping[str, int],
) -> pd.DataFrame:
    """The calls frame of spans that all have names of calls; `ranks` is by RPC name."""
    names = names.remove_unused_categories()
    parts = [part for part in map(read_call_name, names.categories) if part]

    def of_each(values: Sequence[str] | Sequence[int]) -> NDArray[np.generic]:
        return np.asarray(values)[names.codes] if values else np.array([], dtype=np.int64)

    order = np.argsort(start_ns, kind="stable")
    ids = np.empty(len(order), dtype=np.int64)
    ids[order] = np.arange(1, len(order) + 1)
    return make_calls(
        {
            "call_id": ids,
            "name": names,
            "kind": of_each([part.kind for part in parts]),
            "body": of_each([part.body for part in parts]),
            "function": of_each([part.function for part in parts]),
            "client": of_each([part.client for part in parts]),
            "server": of_each([part.server for part in parts]),
            "client_rank": client_rank,
            "server_rank": of_each([ranks.get(part.server, UNKNOWN_RANK) for part in parts]),
            "client_thread": client_thread,
            "start_ns": start_ns,
            "end_ns": end_ns,
            "status": np.full(len(names), "ok"),
        }
    )
