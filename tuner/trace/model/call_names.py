"""PyTorch's names of calls: `rpc_async#function(client -> server)`."""

import re
from dataclasses import dataclass
from typing import cast

from tuner.trace.model.spans import CallBody, CallKind, ClientSpan

REMOTE_OPERATOR = "#remote_op: "
"""Stands between a call's name and the name of an operator that it ran."""

# RPC names are letters, digits, underscores, hyphens and colons; a function's name is anything.
_CALL = re.compile(r"(rpc_sync|rpc_async|rpc_remote)#(.+)\(([\w:-]+) -> ([\w:-]+)\)")
_TO_HERE = re.compile(r"to_here#\(([\w:-]+)\)->\(([\w:-]+)\)")


@dataclass(frozen=True, kw_only=True)
class CallName:
    """The parts of a call's name."""

    kind: CallKind
    function: str
    client: str
    server: str

    @property
    def body(self) -> CallBody:
        """What runs on the server, as far as the function's name says."""
        if self.kind == "to_here":
            return "fetch"
        if self.function.startswith("__torch__."):
            return "script"
        return "builtin" if self.function.startswith("aten::") else "python"


def call_name(span: ClientSpan, client: str) -> str:
    """The name that PyTorch's own profiler would give the call."""
    if span.kind == "to_here":
        return f"to_here#({client})->({span.server})"
    return f"{span.kind}#{span.function}({client} -> {span.server})"


def read_call_name(name: str) -> CallName | None:
    """The parts of a call's name; None if it is the name of something else."""
    if call := _CALL.fullmatch(name):
        kind, function, client, server = call.groups()
        return CallName(kind=cast(CallKind, kind), function=function, client=client, server=server)
    if fetch := _TO_HERE.fullmatch(name):
        return CallName(kind="to_here", function="", client=fetch[1], server=fetch[2])
    return None
