"""How long requests and answers are on their way, without the wait for a thread."""

from collections.abc import Sequence

import numpy as np

from tuner.trace.analyze.path_walk import arrivals, returns
from tuner.trace.analyze.time_spans import floats
from tuner.trace.model.trace import BoolArray, FloatArray, Trace


def to_server_ns(trace: Trace, issued_ns: Sequence[float]) -> FloatArray:
    """How long each call is on its way to its server."""
    calls = trace.calls
    served, issued = floats(calls, "server_start_ns"), np.array(issued_ns)
    start = calls["start_ns"].to_numpy()
    served_ns = np.where(np.isnan(served), start, served).astype(np.int64)
    _, waits = arrivals(trace, served_ns, start)
    return _without_wait(trace, np.maximum(served - issued, 0.0), waits)


def to_client_ns(trace: Trace) -> FloatArray:
    """How long the answer of each call, which has ended, is on its way to the client."""
    calls, end = trace.calls, floats(trace.calls, "end_ns")
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
