"""What a study takes from a trace."""

import math
from pathlib import Path

from tuner.trace.analysis import rpc_cpu_total_ms, rpc_p99_ms
from tuner.trace.diagnosis import diagnose
from tuner.trace.events import read_trace
from tuner.trace.parallelism import remote_parallelism
from tuner.world.measurement import TraceNumbers


def numbers_of(path: Path) -> TraceNumbers:
    """The numbers of a trace file. UsageError if it is no trace."""
    trace = read_trace(path)
    mean, most = remote_parallelism(trace)
    return TraceNumbers(
        rpc_cpu_total_ms=_known(rpc_cpu_total_ms(trace)),
        rpc_p99_ms=_known(rpc_p99_ms(trace)),
        parallelism_mean=_known(mean),
        parallelism_max=_known(most),
        diagnosis=diagnose(trace).text,
        losses=trace.losses,
    )


def _known(value: float) -> float | None:
    return None if math.isnan(value) else value
