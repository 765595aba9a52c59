"""The deadlocks that a trace ends in: whose threads wait, for what, and how many are needed."""

from collections.abc import Sequence
from dataclasses import dataclass

import pandas as pd

from tuner.roles import role_of
from tuner.text import plural
from tuner.trace.analyze.diagnosis_rules import few_named
from tuner.trace.analyze.headroom import LeastThreads
from tuner.trace.model.trace import Trace

_HOW = {
    "to_here": "in to_here for {what}",
    "rpc_sync": "in a nested rpc_sync for {what}",
    "rpc_async": "in wait() for {what}",
}
"""How a served call waits, by the kind of its own call; what surely blocks the thread is first."""


@dataclass(frozen=True, kw_only=True)
class Deadlock:
    """A process, each of whose worker threads waits for an answer, which needs one of them."""

    process: str
    threads: int
    functions: tuple[str, ...]
    """What its threads serve, the most frequent first."""
    waits: tuple[str, ...]
    """How they wait, and for what, the most frequent first."""
    needs: int
    """With fewer threads, the calls that were under way may deadlock again."""

    @property
    def sentence(self) -> str:
        """The chain of what waits for what, and what to do."""
        is_one = self.threads == 1
        who = "the only worker thread" if is_one else f"all {self.threads} worker threads"
        chain = f"{who} of {self.process} {'waits' if is_one else 'wait'}"
        return (
            f"Deadlock: {chain}, inside {few_named(self.functions)}, {few_named(self.waits)}. "
            f"Each answer needs a free thread of {self.process}: "
            f"use {plural(self.needs, 'thread')} or more (num_worker_threads)."
        )


def deadlocks(
    trace: Trace, least: Sequence[LeastThreads], roles: Sequence[tuple[str, str]] = ()
) -> list[Deadlock]:
    """The deadlock of each process of a role that `least` says is in one; for `roles` see
    `tuner.roles.role_of`."""
    stuck = {role.role for role in least if role.is_deadlock}
    found = []
    for rank in trace.ranks:
        if role_of(rank.name, roles) in stuck and rank.num_worker_threads:
            waiting, what = _waiting(trace.calls, rank.name)
            if len(waiting) >= rank.num_worker_threads:
                functions = waiting["function"].astype(str).value_counts()
                found.append(
                    Deadlock(
                        process=rank.name,
                        threads=rank.num_worker_threads,
                        functions=tuple(functions.index),
                        waits=tuple(pd.Series(what).value_counts().index),
                        needs=1 + _under_way(trace.calls, rank.name, list(functions.index)),
                    )
                )
    return found


def _waiting(calls: pd.DataFrame, server: str) -> tuple[pd.DataFrame, list[str]]:
    """The calls that a process still serves and that wait for own ones, and how each does."""
    is_open = calls["server_start_ns"].notna() & calls["server_end_ns"].isna()
    served = calls[(calls["server"] == server) & is_open]
    inside = calls[calls["parent_call"].isin(served["call_id"])]
    how = [_how(inside[inside["parent_call"] == call]) for call in served["call_id"]]
    return served[[bool(found) for found in how]], [*filter(None, how)]


def _how(own: pd.DataFrame) -> str:
    """How a served call waits, by the calls that it made; empty if it waits for none of them."""
    is_open = own["end_ns"].isna()
    for kind, how in _HOW.items():
        waited = own[is_open & (own["kind"] == kind)]
        if len(waited):
            # What to_here fetches is the answer of a function that was called before.
            is_alike = own["server"].isin(waited["server"]) & (own["kind"] == "rpc_remote")
            named = own[is_alike] if kind == "to_here" else waited
            functions = list(dict.fromkeys(named["function"].astype(str)))
            servers = few_named(list(dict.fromkeys(waited["server"].astype(str))))
            return how.format(what=f"{few_named(functions) or 'a value'} on {servers}")
    return ""


def _under_way(calls: pd.DataFrame, server: str, functions: Sequence[str]) -> int:
    """How many calls of these functions a process had when the trace ended, queued ones too: also
    those whose clients no longer wait."""
    mine = calls[(calls["server"] == server) & calls["function"].isin(functions)]
    return int(mine["server_end_ns"].isna().sum())
