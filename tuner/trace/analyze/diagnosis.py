"""What limits a program's steps: sentences that follow from the shares of its critical path.

The first sentence names the limits, or the largest shares where nothing stands out: `limits`. Where
a limit lies on a server, more sentences say why, and whether more threads help. Those follow from
what the trace shows of that server, by the first rule of `RULES` that fits. Causes come before
their effects: with full CPUs everything takes longer, also the waits for locks and threads; and
threads that wait for each other, or sleep, make calls queue. So a queue is put down to the number
of threads only where no cause before it explains it.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Literal, NamedTuple

from tuner.text import duration, plural, whole_percent
from tuner.trace.analyze.caller import caller_meanwhile
from tuner.trace.analyze.critical_path import CriticalPath, find_critical_path
from tuner.trace.analyze.evidence import Evidence, gather
from tuner.trace.analyze.limits import Limit, limits_of, said, shares_of_path
from tuner.trace.analyze.parallelism import server_name, window
from tuner.trace.analyze.rules.blocked_threads import blocked_threads
from tuner.trace.analyze.rules.cpus_full import cpus_full, taken_by_others
from tuner.trace.analyze.rules.gil_or_lock import gil_or_lock
from tuner.trace.analyze.rules.queueing import queueing
from tuner.trace.analyze.rules.thresholds import short_of_threads
from tuner.trace.model.trace import Trace

Rule = Literal[
    "cpus-full", "gil-or-lock", "blocked-threads", "queueing", "calls", "caller", "wire",
    "no-clear-limit",
]  # fmt: skip
"""What limits the steps; `calls`: the served functions themselves, whatever the configuration."""
RULES: tuple[tuple[Rule, Callable[[Evidence], tuple[str, ...]]], ...] = (
    ("cpus-full", cpus_full),
    ("gil-or-lock", gil_or_lock),
    ("blocked-threads", blocked_threads),
    ("queueing", queueing),
)

ENOUGH_CALLS = 10
"""Fewer served calls are too few to judge by."""
MOSTLY = 0.8
"""Where the time from a program's first call to its last is less of the run, that is said."""
KNOWN_SHARE = 0.8
"""The share of the calls to a server that must be known from start to end to speak for all."""


@dataclass(frozen=True, kw_only=True)
class Diagnosis:
    """What limits the driver of a trace."""

    rule: Rule
    """The first limit's."""
    sentences: tuple[str, ...]
    limits: tuple[Limit, ...] = ()
    """The shares of the critical path that are limits, the largest first."""
    enough_threads: tuple[str, ...] = ()
    """The servers that more threads do not help, as the sentences say."""

    @property
    def text(self) -> str:
        """The sentences as one paragraph."""
        return " ".join(self.sentences)


class _Why(NamedTuple):
    """Why something is a limit."""

    rule: Rule
    sentences: tuple[str, ...]
    enough_threads: tuple[str, ...] = ()
    """The server, where more threads do not help."""


def diagnose(trace: Trace, roles: Sequence[tuple[str, str]] = ()) -> Diagnosis:
    """Says what limits the driver, by the critical path of its steps.

    Args:
        trace: Any trace; one without servers' spans has "no clear limit".
        roles: Pairs of a role and a pattern of its RPC names; see `tuner.roles.role_of`.

    Returns:
        The limits, and sentences on them: which they are, and why.
    """
    path = find_critical_path(trace)
    doubt = _doubt(trace)
    if doubt or path is None:
        why = doubt or "holds no calls that ended"
        return Diagnosis(rule="no-clear-limit", sentences=(f"No clear limit: the trace {why}.",))
    shares = shares_of_path(path, roles)
    limits = limits_of(shares)
    whys = [_why(trace, path, limit) for limit in limits]
    first = said(server_name(trace, path.driver.rank), shares, limits)
    # Two limits of one server have one explanation.
    more = dict.fromkeys(sentence for why in whys for sentence in why.sentences)
    return Diagnosis(
        rule=whys[0].rule if whys else "no-clear-limit",
        sentences=(first, *more, *_disturbed(path, roles), *_beside_calls(trace, path)),
        limits=tuple(limits),
        enough_threads=tuple(dict.fromkeys(name for why in whys for name in why.enough_threads)),
    )


def explain(found: Evidence) -> tuple[Rule, tuple[str, ...]]:
    """Why calls to a server take as long as they do, by the first rule that fits."""
    if found.means.calls >= ENOUGH_CALLS and found.served_calls >= KNOWN_SHARE * found.calls:
        for rule, said_by in RULES:
            if sentences := said_by(found):
                return rule, sentences
    return "calls", ()


def _doubt(trace: Trace) -> str:
    """Why the trace is too little to judge by; empty if it is not."""
    calls = trace.calls
    served = int((calls["server_end_ns"].notna() & calls["end_ns"].notna()).sum())
    if calls.empty:
        return "holds no calls"
    if not served:
        return "does not show how any call was served"
    return f"holds only {plural(served, 'answered call')}" if served < ENOUGH_CALLS else ""


def _disturbed(path: CriticalPath, roles: Sequence[tuple[str, str]]) -> tuple[str, ...]:
    """That steps were left out, and what filled most of their time."""
    disturbed, steps = len(path.disturbed_ns), len(path.disturbed_ns) + len(path.time_ns)
    if not disturbed:
        return ()
    largest = shares_of_path(replace(path, time_ns=path.disturbed_ns), roles)[0]
    verb, whose = ("is", "its") if disturbed == 1 else ("are", "their")
    return (
        f"{disturbed} of {plural(steps, 'step')} {verb} left out, since {whose} time is more than "
        f"twice that of the fast ones: for {whole_percent(largest.share.share)} of it, the driver "
        f"{largest.phrase}.",
    )


def _beside_calls(trace: Trace, path: CriticalPath) -> tuple[str, ...]:
    """That much of a program's time lies before its first call, or after its last."""
    opened, closed = window(trace)
    calls_s = (path.total_ns.sum() + path.disturbed_ns.sum()) / 1e9
    whole_s = (closed - opened) / 1e9
    if trace.steps is not None or calls_s >= MOSTLY * whole_s:
        return ()
    return (
        f"All of that is about the {duration(calls_s)} from the first call to the end of the last "
        f"one, {whole_percent(calls_s / whole_s)} of the {duration(whole_s)} recorded: the rest "
        "holds no call, and no option of RPC changes it.",
    )


def _why(trace: Trace, path: CriticalPath, limit: Limit) -> _Why:
    """The rule of a limit, and the sentences that explain it."""
    if limit.kind == "caller":
        return _Why("caller", (caller_meanwhile(trace, path.driver, limit.share.share),))
    if limit.kind == "wire":
        return _Why("wire", ())
    if limit.kind in ("pending", "unseen"):
        return _Why("calls", ())
    calls = trace.calls
    server = calls.loc[calls["server"] == limit.processes[0], "server_rank"]
    found = gather(trace, int(server.iloc[0]))
    rule, sentences = explain(found)
    if rule == "calls":
        spare = _spare_threads(found)
        if limit.kind == "run_queue":
            rule, sentences = "cpus-full", (*taken_by_others(found), *spare)
        else:
            sentences = spare
        is_enough = bool(spare)
    else:
        hardly_waited = rule == "blocked-threads" and not short_of_threads(found)
        is_enough = hardly_waited or rule in ("cpus-full", "gil-or-lock")
    return _Why(rule, sentences, (found.server,) if is_enough else ())


def _spare_threads(found: Evidence) -> tuple[str, ...]:
    most = found.use.parallelism_max
    if found.threads is None or most >= found.threads:
        return ()
    at_work = f"At most {most} of the {found.threads} threads of {found.server}"
    return (f"{at_work} were at work at a time: more do not help.",)
