"""How long a step takes, and how many calls are served, by the number of callers."""

import math
import time
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from tuner.trace.forecast.change import Change
from tuner.trace.forecast.forecasts import Forecast, Model, WhatIf
from tuner.trace.forecast.program import COMPUTE_WITH_GIL, COMPUTES, HOLD_LOCK, Op, Program
from tuner.trace.forecast.replay import Machine
from tuner.trace.forecast.sharing import callers_of
from tuner.trace.model.trace import Trace

TIMES = (2, 3, 4, 6, 8, 12)  # as many callers as were traced
MOST_CALLS = 150  # of the trace: 12 times as many are replayed, too
MOST_WHOLE = 1000  # of one without a place to cut
BEYOND = 2  # forecasts from where on more callers do not help
GROWS = 0.2  # log(throughput) over log(callers): where it grows by less, something is full
IN_USE = 0.5  # of the time: what is in use for less does not limit


class ByCallers(NamedTuple):
    """What so many callers would do, over what those that were traced did."""

    callers: int
    times: float  # as many as were traced
    found: Forecast  # how long a step takes
    is_full: bool = False  # whether more of them are not served faster
    limit: str = ""  # what they have no more of then; empty where that is not known

    @property
    def throughput(self) -> tuple[float, float, float]:
        """How many calls are served in the same time, with its interval."""
        found = self.found
        ratios = (found.ratio, found.ratio_high, found.ratio_low)
        return tuple(self.times / ratio for ratio in ratios)  # type: ignore[return-value]

    def to_json(self) -> dict[str, Any]:
        """As in the document of `record` and `analyze`."""
        names = ("ratio", "ratio_low", "ratio_high")
        numbers = dict(zip(("throughput", "throughput_low", "throughput_high"), self.throughput,
                           strict=True))  # fmt: skip
        ratios = {name: getattr(self.found, name) for name in names}
        return {"callers": self.callers, **ratios, **numbers, "is_full": self.is_full,
                "limit": self.limit or None}  # fmt: skip


def read_callers(rows: Sequence[Mapping[str, Any]]) -> tuple[ByCallers, ...]:
    """What `to_json` has written, of all of them."""
    return tuple(
        ByCallers(
            row["callers"], row["callers"] / rows[0]["callers"],
            Forecast(**{name: row[name] for name in ("ratio", "ratio_low", "ratio_high")}),
            row["is_full"], row["limit"] or "",
        )
        for row in rows
    )  # fmt: skip


def by_callers(trace: Trace, model: Model | str, until_s: float = math.inf) -> list[ByCallers]:
    """Of more and more callers, until more do not help, or the time by `time.monotonic` is over;
    nothing where there is no forecast."""
    if isinstance(model, str) or not (number := len(callers_of(model.programs[0]))):
        return []
    if len(model.part.calls) > MOST_CALLS:
        model = Model.of(trace, model.roles, MOST_CALLS)
        if isinstance(model, str) or len(model.part.calls) > MOST_WHOLE:
            return []
    model = replace(model, rest=0.0)  # what comes after the last call is no step
    found = [ByCallers(number, 1.0, Forecast(ratio=1.0, ratio_low=1.0, ratio_high=1.0))]
    full = len(TIMES)
    for times in TIMES:
        if len(found) > full + BEYOND or time.monotonic() > until_s:
            break
        forecast = model.forecast(WhatIf(changes=[Change(kind="callers", number=times)]))
        if forecast.why_not:
            break
        found.append(ByCallers(number * times, times, forecast))
        before, after = found[-2:]
        grows = math.log(after.throughput[0] / before.throughput[0])
        if grows < GROWS * math.log(after.times / before.times) and full == len(TIMES):
            full = len(found) - 2
    if full == len(TIMES):
        return found if len(found) > 1 else []
    callers = [Change(kind="callers", number=found[full].times)] * (full > 0)
    ended = model.changeable.after(callers)
    limit = most_used(*ended) if ended else ""
    return [*found[:full], *(point._replace(is_full=True, limit=limit) for point in found[full:])]


def most_used(program: Program, machine: Machine, took_ns: float) -> str:
    """What is in use for most of this time, in words; empty where nothing is for much of it."""
    used = defaultdict[tuple[str, int], float](float)
    names, hosts = program.names, program.hosts

    def use(rank: int, ops: Sequence[Op], serves: bool) -> None:
        for kind, ns in ops:
            if kind in COMPUTES:
                used["the logical CPUs", hosts[rank]] += ns / machine.cpus[hosts[rank]]
            if kind == COMPUTE_WITH_GIL:
                used["the GIL of", rank] += ns
            if kind == HOLD_LOCK:
                used["the lock of", rank] += ns
            if kind <= HOLD_LOCK and serves:
                used["the threads of", rank] += ns / machine.threads[rank]

    for root in program.roots:
        use(root.rank, root.ops, serves=False)
    for call in program.calls:
        for rank, ops in ((call.server, [*call.arrives, *call.unpickles, *call.ops, *call.pickles]),
                          (call.client, [*call.returns, *call.receives])):  # fmt: skip
            use(rank, ops, serves=True)
    (what, place), ns = max(used.items(), key=lambda entry: entry[1], default=(("", 0), 0.0))
    if ns < IN_USE * took_ns or math.isinf(took_ns):
        return ""
    return what if what == "the logical CPUs" else f"{what} {names[place]}"
