"""Calls that failed, and the one that came nearest to its time limit."""

import re
from dataclasses import dataclass

import pandas as pd

from tuner.text import duration, listed, percent, plural
from tuner.trace.model.trace import Trace

MOST_FAILURES = 3  # functions whose calls fail, each with a sentence of its own


@dataclass(frozen=True, kw_only=True)
class SlowestCall:
    """The call that came nearest to its time limit, `timeout_s`."""

    name: str
    took_s: float  # to its end, or to the trace's
    status: str
    timeout_s: float

    @property
    def text(self) -> str:
        """A sentence."""
        limit, took = duration(self.timeout_s), duration(self.took_s)
        verb = "had no answer after" if self.status == "unfinished" else "took"
        part = f"{verb} {took} of {limit} ({percent(self.took_s / self.timeout_s)})"
        if self.took_s > self.timeout_s:
            part = f"took {took}, and had {limit}"
        if self.status == "timed-out":
            part = f"timed out after {limit}"
        return f"The call nearest to its time limit {part}: {self.name}."


def failed_calls(trace: Trace) -> tuple[str, ...]:
    """A sentence on each function whose calls raised or timed out, the most failures first.

    The program may not have waited for these calls, and goes on as if all was well.
    """
    calls = trace.calls
    function = calls["function"].astype(str).where(calls["kind"] != "to_here", "to_here")
    number = function[calls["status"].isin(["raised", "timed-out"])].value_counts()
    sentences = [_failures(name, calls[function == name]) for name in number.index[:MOST_FAILURES]]
    if more := int(number.iloc[MOST_FAILURES:].sum()):
        others = plural(len(number) - MOST_FAILURES, "other function")
        sentences.append(f"{plural(more, 'call')} of {others} failed too.")
    return tuple(sentences)


def _failures(name: str, calls: pd.DataFrame) -> str:
    raised, late = (calls[calls["status"] == status] for status in ("raised", "timed-out"))
    whose, parts = f"of {plural(len(calls), 'call')} of {name} ", []
    if len(raised):
        kinds = raised["error"].map(_exception).value_counts().index
        parts.append(f"{len(raised)} {whose}raised {listed(kinds)}")
    if len(late):
        limits = late["timeout_s"].dropna()
        ends = dict.fromkeys(map(duration, (limits.min(), limits.max()) if len(limits) else ()))
        after = f" after {' to '.join(ends)}" if ends else ""
        parts.append(f"{len(late)} {'' if parts else whose}timed out{after}")
    return f"{listed(parts)}."


def _exception(error: str) -> str:
    named = re.match(r"[^\W\d][\w.]*", error)
    return named[0] if named else "an exception"


def slowest_call(trace: Trace) -> SlowestCall | None:
    """The call that came nearest to its time limit; None if there is none, or no known limit."""
    limit_s = trace.calls["timeout_s"].astype(float)
    ends_ns = trace.calls["end_ns"].fillna(trace.window_ns[1])
    took_s = (ends_ns - trace.calls["start_ns"]).astype(float) / 1e9
    # One that goes on beyond its limit lost its client before: when is not known.
    is_known = trace.calls["end_ns"].notna() | (took_s <= limit_s)
    limit_s = limit_s[(limit_s > 0) & is_known]
    if limit_s.empty:
        return None
    calls, took_s = trace.calls.loc[limit_s.index], took_s[limit_s.index]
    slowest = int((took_s / limit_s).to_numpy().argmax())
    name, status = (str(calls[column].iloc[slowest]) for column in ("name", "status"))
    took, limit = float(took_s.iloc[slowest]), float(limit_s.iloc[slowest])
    return SlowestCall(name=name, took_s=took, status=status, timeout_s=limit)
