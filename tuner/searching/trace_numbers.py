"""The numbers of a trace file that a study keeps."""

import math
import re
from collections.abc import Sequence
from pathlib import Path

from tuner.plan.workload_spec import RankSpec
from tuner.trace.analyze.call_times import (
    breakdown,
    outermost,
    outermost_ms,
    rpc_cpu_total_ms,
    rpc_p99_ms,
)
from tuner.trace.analyze.diagnosis import diagnose
from tuner.trace.analyze.parallelism import remote_parallelism
from tuner.trace.files.reader import read_trace
from tuner.trace.model.trace import Trace
from tuner.world.measurement import CallPart, Quantiles, TraceNumbers


def numbers_of(path: Path, ranks: Sequence[RankSpec]) -> TraceNumbers:
    """The numbers of a trace file. UsageError if it is no trace.

    `ranks` have the roles that the diagnosis speaks of; what is none of them has that of its name.
    """
    trace = read_trace(path)
    mean, most = remote_parallelism(trace)
    diagnosis = diagnose(trace, patterns_of(ranks))
    return TraceNumbers(
        rpc_cpu_total_ms=_known(rpc_cpu_total_ms(trace)),
        rpc_p99_ms=_known(rpc_p99_ms(trace)),
        parallelism_mean=_known(mean),
        parallelism_max=_known(most),
        diagnosis=diagnosis.text,
        enough_threads=diagnosis.enough_threads,
        losses=trace.losses,
        calls=len(trace.calls),
        call_ms=Quantiles.of(outermost_ms(trace).tolist()),
        call_parts_ms=_call_parts_ms(trace),
    )


def patterns_of(ranks: Sequence[RankSpec]) -> list[tuple[str, str]]:
    """Pairs of a role and a pattern of its RPC names; see `tuner.roles.role_of`."""
    return [(rank.role, re.escape(rank.name)) for rank in ranks]


def _call_parts_ms(trace: Trace) -> dict[CallPart, float]:
    """Where the time of an outermost call goes, averaged over all of them; empty if not known."""
    table = breakdown(outermost(trace.calls))
    if table.empty:
        return {}
    weights = table["calls"]
    has_cpu = bool(table["on_cpu_us"].notna().all())
    inside: tuple[CallPart, ...] = ("on_cpu", "run_queue", "off_cpu") if has_cpu else ("served",)
    parts: tuple[CallPart, ...] = ("transport", "queue", *inside, "pending")
    return {
        part: float((table[f"{part}_us"] * weights).sum() / weights.sum()) / 1e3 for part in parts
    }


def _known(value: float) -> float | None:
    return None if math.isnan(value) else value
