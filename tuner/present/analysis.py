"""What there is to show of a trace: its tables and its diagnosis as one value, and as JSON."""

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any

import pandas as pd

from tuner.text import whole_percent
from tuner.trace.analyze.call_times import breakdown, latency, main_sites
from tuner.trace.analyze.callbacks import with_callbacks
from tuner.trace.analyze.critical_path import critical_path
from tuner.trace.analyze.deadlock import Deadlock, deadlocks
from tuner.trace.analyze.diagnosis import Diagnosis, diagnose
from tuner.trace.analyze.diagnosis_rules import short_time
from tuner.trace.analyze.failed_calls import SlowestCall, slowest_call
from tuner.trace.analyze.gil_use import GilUse
from tuner.trace.analyze.headroom import LeastThreads, least_threads
from tuner.trace.analyze.recipe_table import recipe_table
from tuner.trace.analyze.server_parallelism import Source, levels, parallelism, thread_use, window
from tuner.trace.model.spans import TraceRank
from tuner.trace.model.trace import Trace

if TYPE_CHECKING:
    from tuner.present.what_if import Answered, Asked
    from tuner.trace.forecast.by_callers import ByCallers
    from tuner.trace.forecast.ranked import ChangeRow

FORMAT = 2
_TABLES = (
    "recipe_table", "latency", "breakdown", "parallelism", "levels", "thread_use", "critical_path",
)  # fmt: skip
SOURCES: dict[Source, str] = {"calls": "serving calls", "operators": "inside operators"}


@dataclass(frozen=True, kw_only=True)
class Analysis:
    """A trace and its tables; times in microseconds."""

    trace: Trace
    recipe_table: pd.DataFrame
    latency: pd.DataFrame
    """With the `site` whose calls took the most time; NaN where none is known."""
    breakdown: pd.DataFrame
    parallelism: pd.DataFrame
    """The rows of both sources; the column `source` says which."""
    levels: pd.DataFrame
    thread_use: pd.DataFrame
    critical_path: pd.DataFrame
    diagnosis: Diagnosis
    least_threads: list[LeastThreads]
    deadlocks: list[Deadlock]
    slowest_call: SlowestCall | None
    what_if: "list[Answered]"
    is_asked: bool
    """Whether somebody asked for these forecasts."""
    changes: "list[ChangeRow]"
    changes_left_out: int
    """Changes that were not forecast, for lack of time."""
    """What could be changed in the program, best first; empty where nobody looked."""
    callers: "list[ByCallers]"
    """What more callers would do; empty where no rank only calls, or nobody looked."""

    @classmethod
    def of(
        cls,
        trace: Trace,
        roles: Sequence[tuple[str, str]] = (),
        asked: "Sequence[Asked]" = (),
        *,
        forecasts_unasked: bool = False,
        finds_changes: bool = False,
    ) -> "Analysis":
        """All tables of a trace, its diagnosis, and forecasts of the configurations asked for, and
        of changes of the program.

        For `roles` see `tuner.roles.role_of`.
        """
        what_if: list[Answered] = []
        changes: list[ChangeRow] = []
        left_out = 0
        callers: list[ByCallers] = []
        diagnosis = diagnose(trace, roles)
        if asked or forecasts_unasked or finds_changes:
            # Late: a space of configurations takes longer to import than most traces to analyse.
            from tuner.present.what_if import agreed, answer, ask_by_default
            from tuner.trace.forecast.by_callers import by_callers
            from tuner.trace.forecast.forecasts import Model
            from tuner.trace.forecast.ranked import rows_of

            model = Model.of(trace, roles)
            if asked or forecasts_unasked:
                what_if = answer(
                    trace, asked or ask_by_default(trace, diagnosis.suggestions), roles, model
                )
                diagnosis, what_if = agreed(diagnosis, what_if, trace)
            if finds_changes:
                changes, left_out = rows_of(trace, model)
                callers = by_callers(trace, model)
        least, whole = least_threads(trace, roles), with_callbacks(trace)
        return cls(
            trace=trace,
            recipe_table=recipe_table(trace),
            latency=latency(whole.calls).join(main_sites(trace.calls)),
            breakdown=breakdown(whole.calls),
            parallelism=_of_both_sources(trace, parallelism),
            levels=_of_both_sources(trace, levels),
            thread_use=_of_both_sources(trace, thread_use),
            critical_path=critical_path(trace),
            diagnosis=diagnosis,
            least_threads=least,
            deadlocks=deadlocks(trace, least, roles),
            slowest_call=slowest_call(trace),
            what_if=what_if,
            is_asked=bool(asked),
            changes=changes,
            changes_left_out=left_out,
            callers=callers,
        )

    @property
    def of_busy_machine(self) -> list[str]:
        """A sentence on what others did while the trace was recorded, if that was much."""
        if not self.trace.is_of_busy_machine:
            return []
        taken = whole_percent(self.trace.others_share or 0.0)
        return [f"The machine was busy: others took {taken} of its CPUs while this was recorded."]

    @property
    def of_deadlocks(self) -> list[str]:
        """A sentence on each deadlock that the trace ends in."""
        known = [each.sentence for each in self.deadlocks]
        return known or [each.text for each in self.least_threads if each.is_deadlock]

    @property
    def of_known_operators(self) -> list[str]:
        """Of what time the operators are known, as a sentence; empty if of all of it."""
        if self.trace.operators_until_ns is None:
            return []
        known_us = (self.trace.operators_until_ns - self.trace.window_ns[0]) / 1e3
        return [f"Operators, and calls with them, are of the first {short_time(known_us)}"]

    def to_json(self) -> dict[str, Any]:
        """The document of `--json`: tables as lists of records, null where a number is unknown."""
        trace, found = self.trace, asdict(self.diagnosis)
        return {
            "format": FORMAT,
            "source": trace.source,
            "ranks": [_rank(trace, each) for each in trace.ranks],
            "world_size": trace.world_size,
            "rank_files": trace.rank_files,
            "base_time_ns": trace.base_time_ns,
            "window_ns": window(trace),
            "steps": trace.steps,
            "call_count": len(trace.calls),
            "operator_count": len(trace.operators),
            "operators_until_ns": trace.operators_until_ns,
            "callback_count": len(trace.callbacks),
            "clock_error_ns": trace.clock_error_ns,
            "tracing_overhead": trace.tracing_overhead,
            "others_share": trace.others_share,
            "losses": trace.losses,
            **{name: _records(getattr(self, name)) for name in _TABLES},
            "diagnosis": {name: found[name] for name in ("rule", "sentences", "suggestions")},
            "least_threads": [
                {**asdict(role), "least": role.least, "at_least": role.at_least}
                for role in self.least_threads
            ],
            "deadlocks": [{**asdict(e), "sentence": e.sentence} for e in self.deadlocks],
            "slowest_call": None if self.slowest_call is None else asdict(self.slowest_call),
            "what_if": [each.to_json() for each in self.what_if],
            "changes": [each.to_json() for each in self.changes],
            "changes_left_out": self.changes_left_out,
            "callers": [each.to_json() for each in self.callers],
        }


def _rank(trace: Trace, rank: TraceRank) -> dict[str, Any]:
    """What is known of a process, with the share of the calls' time in which its GIL is held."""
    found = asdict(replace(rank, gil=(), pauses=()))
    del found["gil"], found["pauses"]
    held = GilUse.of(trace, rank.rank).held_during_calls(trace)
    return {**found, "gil_held": held.share if held.is_known else None}


def _of_both_sources(trace: Trace, table: Callable[[Trace, Source], pd.DataFrame]) -> pd.DataFrame:
    parts = pd.concat({source: table(trace, source) for source in SOURCES}, names=["source"])
    return parts.reset_index("source").reset_index(drop=True)


def _records(table: pd.DataFrame) -> list[dict[str, Any]]:
    frame = table if table.index.name is None else table.reset_index()
    rows = frame.astype(object).where(frame.notna(), None).itertuples(index=False, name=None)
    return [dict(zip(frame.columns, row, strict=True)) for row in rows]
