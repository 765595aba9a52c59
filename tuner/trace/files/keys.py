"""PyTorch's names of calls: `rpc_async#function(client -> server)`."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import cast

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from tuner.trace.files.chrome import Ids
from tuner.trace.model.document import CallBody, CallKind
from tuner.trace.model.schema import make_calls

REMOTE_OPERATOR = "#remote_op: "
"""Stands between a call's name and the operator that it ran."""
UNKNOWN_RANK = -1
"""The rank of a process that only its name is known of."""

# RPC names are letters, digits, underscores, hyphens and colons; a function's name is anything.
_CALL = re.compile(r"(rpc_sync|rpc_async|rpc_remote)#(.+)\(([\w:-]+) -> ([\w:-]+)\)")
_TO_HERE = re.compile(r"to_here#\(([\w:-]+)\)->\(([\w:-]+)\)")


@dataclass(frozen=True, kw_only=True)
class Key:
    """What a call's name tells."""

    kind: CallKind
    function: str
    client: str
    server: str

    @property
    def body(self) -> CallBody:
        """What runs on the server, as far as the function's name tells."""
        if self.kind == "to_here":
            return "fetch"
        if self.function.startswith("__torch__."):
            return "script"
        return "builtin" if self.function.startswith("aten::") else "python"


def read_key(name: str) -> Key | None:
    """The parts of a call's name; none if it is the name of something else."""
    if call := _CALL.fullmatch(name):
        kind, function, client, server = call.groups()
        return Key(kind=cast(CallKind, kind), function=function, client=client, server=server)
    if fetch := _TO_HERE.fullmatch(name):
        return Key(kind="to_here", function="", client=fetch[1], server=fetch[2])
    return None


def calls_by_name(
    names: pd.Categorical,
    *,
    client_rank: Ids,
    client_thread: Ids,
    start_ns: Ids,
    end_ns: Ids,
    ranks: Mapping[str, int],
) -> pd.DataFrame:
    """A calls frame of spans whose names are keys; `ranks` by RPC name. Nothing of the servers."""
    names = names.remove_unused_categories()
    keys = [key for key in map(read_key, names.categories) if key]

    def of_each(values: Sequence[str] | Sequence[int]) -> NDArray[np.generic]:
        return np.asarray(values)[names.codes] if values else np.array([], dtype=np.int64)

    order = np.argsort(start_ns, kind="stable")
    ids = np.empty(len(order), dtype=np.int64)
    ids[order] = np.arange(1, len(order) + 1)
    return make_calls(
        {
            "call_id": ids,
            "name": names,
            "kind": of_each([key.kind for key in keys]),
            "body": of_each([key.body for key in keys]),
            "function": of_each([key.function for key in keys]),
            "client": of_each([key.client for key in keys]),
            "server": of_each([key.server for key in keys]),
            "client_rank": client_rank,
            "server_rank": of_each([ranks.get(key.server, UNKNOWN_RANK) for key in keys]),
            "client_thread": client_thread,
            "start_ns": start_ns,
            "end_ns": end_ns,
            "status": np.full(len(names), "ok"),
        }
    )
