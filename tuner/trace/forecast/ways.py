"""How long requests and answers are on their way, without the wait for a thread."""

from collections.abc import Sequence
from typing import NamedTuple, Self

import numpy as np
import pandas as pd

from tuner.trace.analyze.path_walk import arrivals, returns
from tuner.trace.analyze.time_spans import floats
from tuner.trace.model.trace import BoolArray, FloatArray, IntArray, Trace

UNHINDERED = 0.05  # the quantile of those of its name that a call has which waits for no GIL


class Ways(NamedTuple):
    """How long each call of a trace is on its way, by its id, in nanoseconds.

    Of a whole trace: in a part of it, calls that took the threads may be missing.
    """

    to_server: pd.Series
    to_client: pd.Series
    least_to_server: pd.Series  # of the quickest of its name, which waited for no GIL
    least_to_client: pd.Series

    @classmethod
    def of(cls, trace: Trace) -> Self:
        """Those of all calls that have ended."""
        there, least_there = _to_server_ns(trace)
        back, least_back = _to_client_ns(trace)
        ended = trace.calls["end_ns"].notna().to_numpy()
        ids = trace.calls["call_id"].to_numpy()[ended]
        every = (there, back, least_there, least_back)
        return cls(*(pd.Series(way[ended], index=ids) for way in every))

    def of_calls(
        self, call_ids: IntArray, waits_for_gil: Sequence[bool]
    ) -> tuple[list[float], list[float]]:
        """There, and back, of these calls, without the wait for a thread, or for the GIL."""
        there, back, least_there, least_back = (way.reindex(call_ids).to_numpy() for way in self)
        return (
            np.where(waits_for_gil, np.fmin(there, least_there), there).tolist(),
            np.where(waits_for_gil, np.fmin(back, least_back), back).tolist(),
        )


def _to_server_ns(trace: Trace) -> tuple[FloatArray, FloatArray]:
    calls = trace.calls
    start, served = calls["start_ns"].to_numpy(), floats(calls, "server_start_ns")
    issued = np.fmax(np.nan_to_num(floats(calls, "issued_ns")), start)
    issued = np.fmin(issued, floats(calls, "end_ns"))
    served_ns = np.where(np.isnan(served), start, served).astype(np.int64)
    _, waits = arrivals(trace, served_ns, start)
    return _without_wait(trace, np.maximum(served - issued, 0.0), waits)


def _to_client_ns(trace: Trace) -> tuple[FloatArray, FloatArray]:
    calls = trace.calls
    end = np.where(calls["end_ns"].isna(), calls["start_ns"], floats(calls, "end_ns"))
    answered = floats(calls, "server_end_ns")
    for name in ("answered_ns", "done_ns"):
        answered = np.fmax(answered, floats(calls, name))
    back = np.maximum(end - np.where(np.isnan(answered), end, answered), 0.0)
    end_ns = end.astype(np.int64)
    waits = returns(trace, (end - back).astype(np.int64), end_ns) < end_ns
    return _without_wait(trace, back, waits)


def _without_wait(
    trace: Trace, took: FloatArray, waits: BoolArray
) -> tuple[FloatArray, FloatArray]:
    """These times; where calls waited for a thread, as long as others of their name took. And the
    least of each name."""
    names = pd.factorize(trace.calls["name"])[0]
    by_name = pd.Series(took).groupby(names)
    least = by_name.transform("quantile", UNHINDERED).to_numpy(np.float64)
    free = pd.Series(np.where(waits, np.nan, took)).groupby(names).transform("median")
    usual = np.where(free.isna(), by_name.transform("min"), free)
    return np.where(waits, np.fmin(took, usual), took), least
