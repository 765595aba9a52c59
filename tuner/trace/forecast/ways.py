"""How long requests and answers are on their way, without the wait for a thread."""

from collections.abc import Sequence
from typing import NamedTuple, Self

import numpy as np
import pandas as pd

from tuner.trace.analyze.path_walk import arrivals, returns
from tuner.trace.analyze.time_spans import floats
from tuner.trace.model.trace import BoolArray, FloatArray, Trace


class Ways(NamedTuple):
    """How long each call of a trace is on its way, by its id, in nanoseconds.

    Of a whole trace: in a part of it, calls that took the threads may be missing.
    """

    to_server: pd.Series
    to_client: pd.Series

    @classmethod
    def of(cls, trace: Trace) -> Self:
        """Those of all calls that have ended."""
        ended = trace.calls["end_ns"].notna()
        ids = trace.calls["call_id"].to_numpy()[ended]
        both = (_to_server_ns(trace), _to_client_ns(trace))
        return cls(*(pd.Series(each[ended], index=ids) for each in both))

    def of_calls(self, call_ids: Sequence[int]) -> tuple[list[float], list[float]]:
        """There, and back, of these calls."""
        return self.to_server.loc[call_ids].tolist(), self.to_client.loc[call_ids].tolist()


def _to_server_ns(trace: Trace) -> FloatArray:
    calls = trace.calls
    start, served = calls["start_ns"].to_numpy(), floats(calls, "server_start_ns")
    issued = np.fmax(np.nan_to_num(floats(calls, "issued_ns")), start)
    issued = np.fmin(issued, floats(calls, "end_ns"))
    served_ns = np.where(np.isnan(served), start, served).astype(np.int64)
    _, waits = arrivals(trace, served_ns, start)
    return _without_wait(trace, np.maximum(served - issued, 0.0), waits)


def _to_client_ns(trace: Trace) -> FloatArray:
    calls = trace.calls
    end = np.where(calls["end_ns"].isna(), calls["start_ns"], floats(calls, "end_ns"))
    answered = floats(calls, "server_end_ns")
    for name in ("answered_ns", "done_ns"):
        answered = np.fmax(answered, floats(calls, name))
    back = np.maximum(end - np.where(np.isnan(answered), end, answered), 0.0)
    end_ns = end.astype(np.int64)
    waits = returns(trace, (end - back).astype(np.int64), end_ns) < end_ns
    return _without_wait(trace, back, waits)


def _without_wait(trace: Trace, took: FloatArray, waits: BoolArray) -> FloatArray:
    """These times; where calls waited for a thread, as long as others of their name took."""
    names = trace.calls["name"].cat.codes.to_numpy()
    for name in np.unique(names[waits]):
        of_name = names == name
        free = took[of_name & ~waits & ~np.isnan(took)]
        usual = np.median(free) if len(free) else np.nanmin(took[of_name])
        took[of_name & waits] = np.minimum(took[of_name & waits], usual)
    return np.asarray(took)
