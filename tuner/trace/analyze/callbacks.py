"""Callbacks as what they are to an analysis: work that a thread of their process does.

A callback that held a worker thread becomes a row of the calls frame, from its process to itself.
It `follows` a call: that one's answer starts it, on the thread that takes the answer, or a callback
of the same call that this thread ran before. Whoever made that call may wait for the callback, too.
Calls and operators inside it are its own. Calls that it did not wait for follow it in turn.
"""

from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd

from tuner.trace.analyze.time_spans import floats
from tuner.trace.model.trace import BoolArray, IntArray, Trace, make_callbacks, make_calls

KIND = "callback"
"""The kind of these rows."""
NAME = "callback "
"""What their functions' names begin with."""
_FIRST = -2  # the number of the first; -1 stands for no call elsewhere
_NOTHING = -1


def with_callbacks(trace: Trace) -> Trace:
    """The trace with a row for each callback that held a thread, and the column `follows`."""
    found = trace.callbacks[trace.callbacks["holds_thread"]]
    if found.empty:
        return trace
    number = _FIRST - np.arange(len(found))
    inside = _Inside(found, number)
    calls, operators = trace.calls, trace.operators
    of_call = inside.of(calls["client_rank"], calls["client_thread"], calls["start_ns"])
    parent = calls["parent_call"].where(
        calls["parent_call"].notna() | (of_call == _NOTHING), pd.array(of_call, dtype="Int64")
    )
    calls = calls.assign(parent_call=parent)
    of_operator = inside.of(operators["rank"], operators["thread"], operators["start_ns"])
    own_operators = operators["call_id"].where(
        operators["call_id"].notna() | (of_operator == _NOTHING),
        pd.array(of_operator, dtype="Int64"),
    )
    rows = _rows(trace, calls, found, number)
    every = make_calls(
        {
            name: [*calls[name], *rows[name]]
            if isinstance(calls[name].dtype, pd.CategoricalDtype)
            else pd.concat([calls[name], rows[name]], ignore_index=True).array
            for name in calls.columns
        }
    )
    follows = pd.Series(rows["follows"].array, index=rows["call_id"].to_numpy())
    end = pd.Series(rows["end_ns"].array, index=rows["call_id"].to_numpy())
    outlives = every["end_ns"] > end.reindex(every["parent_call"].fillna(_NOTHING)).array
    own = pd.Series(follows.reindex(every["call_id"].to_numpy()).array)
    is_own = ~outlives.fillna(False) | are_callbacks(every)
    every = every.assign(follows=own.where(is_own, every["parent_call"]))
    # Whoever made the call that it began with may wait for all that follows.
    _, began_with = chains(every)
    made_by = {name: every[name].array[began_with] for name in ("client_thread", "parent_call")}
    return replace(
        trace,
        calls=every.assign(**made_by),
        operators=operators.assign(call_id=own_operators),
        callbacks=make_callbacks({}),
    )


def chains(calls: pd.DataFrame) -> tuple[IntArray, IntArray]:
    """The place of what each row follows, -1 for nothing; and of the call that it began with."""
    began_with = np.arange(len(calls))
    if "follows" not in calls:
        return np.full(len(calls), _NOTHING, np.int64), began_with
    follows = pd.Index(calls["call_id"]).get_indexer(pd.Index(calls["follows"].fillna(_NOTHING)))
    began_with = np.where(follows < 0, began_with, follows)
    # Twice as far each time: chains may be long.
    while ((further := began_with[began_with]) != began_with).any():
        began_with = further
    return follows.astype(np.int64), began_with


def are_callbacks(calls: pd.DataFrame) -> BoolArray:
    """Which rows of a calls frame stand for callbacks."""
    return calls["call_id"].to_numpy() <= _FIRST


class _Inside:
    """Which callback a thread ran at a time."""

    def __init__(self, callbacks: pd.DataFrame, number: IntArray) -> None:
        self._number = number[np.argsort(callbacks["start_ns"], kind="stable")]
        ordered = callbacks.sort_values("start_ns", kind="stable")
        self._begun = pd.DataFrame(
            {
                "rank": ordered["rank"].to_numpy(),
                "thread": ordered["thread"].to_numpy(),
                "time": ordered["start_ns"].to_numpy(),
                "end": ordered["end_ns"].fillna(np.iinfo(np.int64).max).to_numpy(np.int64),
                "number": self._number,
            }
        )

    def of(self, rank: pd.Series, thread: pd.Series, time: pd.Series) -> IntArray:
        """The callback's number at each place; _NOTHING for none."""
        asked = pd.DataFrame(
            {"rank": rank.to_numpy(), "thread": thread.to_numpy(), "time": time.to_numpy()}
        )
        asked = asked.assign(place=np.arange(len(asked))).sort_values("time", kind="stable")
        last = pd.merge_asof(asked, self._begun, on="time", by=["rank", "thread"])
        is_in = (last["time"] < last["end"]).to_numpy()
        result = np.full(len(asked), _NOTHING, np.int64)
        result[last["place"].to_numpy()[is_in]] = last["number"].to_numpy()[is_in]
        return result


def _rows(
    trace: Trace, calls: pd.DataFrame, callbacks: pd.DataFrame, number: IntArray
) -> pd.DataFrame:
    """The rows of callbacks, in the columns of calls, and what each follows."""
    place = pd.Index(calls["call_id"]).get_indexer(pd.Index(callbacks["call_id"].fillna(_NOTHING)))
    is_known = place >= 0
    of = calls.iloc[np.where(is_known, place, 0)] if len(calls) else calls.reindex([0] * len(place))
    begun = callbacks["start_ns"].to_numpy()
    # The answer left the server, and with it what the callback waits for.
    left = np.fmax(np.fmax(floats(of, "server_end_ns"), floats(of, "answered_ns")),
                   floats(of, "done_ns"))  # fmt: skip
    left = np.where(np.isnan(left), floats(of, "end_ns"), left)
    since = np.clip(np.nan_to_num(left, nan=np.inf), of["start_ns"].to_numpy(), begun)
    since = np.where(is_known, np.minimum(since, begun), begun)
    follows, before = _before(callbacks, number)
    since = np.where(before >= 0, before, since).astype(np.int64)
    call = callbacks["call_id"].where(is_known)
    names = np.array([trace.process(rank).name for rank in callbacks["rank"]], dtype=object)
    function = NAME + callbacks["function"].astype(str)
    is_over = callbacks["end_ns"].notna()
    rank, thread = (callbacks[name].to_numpy() for name in ("rank", "thread"))
    rows = pd.DataFrame(
        {
            "call_id": number,
            "name": [f"{f} ({name})" for f, name in zip(function, names, strict=True)],
            "kind": KIND, "body": "python", "function": function.to_numpy(),
            "client": names, "server": names, "client_rank": rank, "server_rank": rank,
            "client_thread": np.where(is_known, of["client_thread"].to_numpy(), thread),
            "start_ns": since, "issued_ns": since, "end_ns": callbacks["end_ns"].array,
            "status": np.where(is_over, "ok", "unfinished"), "error": "",
            "parent_call": of["parent_call"].where(is_known).array,
            "link": "exact", "server_thread": thread, "server_start_ns": begun,
            "server_end_ns": callbacks["end_ns"].array,
            **{name: callbacks[name].array for name in ("cpu_ns", "run_queue_ns")},
            "follows": np.where(follows != _NOTHING, follows, call.fillna(_NOTHING)),
        }
    )  # fmt: skip
    rows["follows"] = rows["follows"].astype("Int64").where(rows["follows"] != _NOTHING)
    missing: dict[str, Any] = {name: pd.NA for name in calls.columns if name not in rows}
    return rows.assign(**missing)


def _before(callbacks: pd.DataFrame, number: IntArray) -> tuple[IntArray, IntArray]:
    """The callback of the same call that a thread ran before each, and when that one ended."""
    # By rank, thread and start, as the frame is sorted.
    columns = [callbacks[name].fillna(_NOTHING) for name in ("rank", "thread", "call_id")]
    is_same = np.logical_and.reduce(
        [column.to_numpy(np.int64)[1:] == column.to_numpy(np.int64)[:-1] for column in columns]
    ) & callbacks["call_id"].notna().to_numpy()[1:]  # fmt: skip
    end = callbacks["end_ns"].to_numpy(np.int64, na_value=_NOTHING)
    is_same &= end[:-1] != _NOTHING
    follows, ended = (np.full(len(number), _NOTHING, np.int64) for _ in range(2))
    follows[1:][is_same], ended[1:][is_same] = number[:-1][is_same], end[:-1][is_same]
    return follows, ended
