"""What limits a program's steps: sentences that follow from the shares of its critical path.

The first sentence names the limits, or the largest shares where nothing stands out. Where a limit
lies on a server, more sentences say why, and whether more threads help, by the first rule of
`RULES` that fits. Causes come before their effects: with full CPUs everything takes longer, also
the waits for locks and threads; and threads that wait for each other, or sleep, make calls queue.
What the trace does not show is no cause: it is said to be missing.

Calls that failed are told before all that, and the call nearest to its time limit apart from it.
"""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Literal, NamedTuple

from tuner.text import duration, plural, whole_percent
from tuner.trace.analyze import diagnosis_rules as rules
from tuner.trace.analyze import path_limits
from tuner.trace.analyze.callbacks import are_callbacks, with_callbacks
from tuner.trace.analyze.critical_path import CriticalPath, find_critical_path
from tuner.trace.analyze.failed_calls import failed_calls
from tuner.trace.analyze.gil_use import FULL
from tuner.trace.analyze.own_time import Told, pauses, told
from tuner.trace.analyze.path_limits import Limit, shares_of_path, why_unseen
from tuner.trace.analyze.path_walk import Driver
from tuner.trace.analyze.pools import Pools, competing_pools
from tuner.trace.analyze.server_evidence import Evidence, gather
from tuner.trace.analyze.server_parallelism import window, window_length_ns
from tuner.trace.analyze.suggestions import (
    THREADS,
    Suggestion,
    fewer_intra_op_threads,
    more_threads,
    shorter_switch_interval,
    suggest,
)
from tuner.trace.analyze.time_spans import Spans, parents
from tuner.trace.model.trace import Trace

Rule = Literal[
    "cpus-full", "gil-or-lock", "blocked-threads", "queueing", "calls", "caller", "backward",
    "pickling", "wire", "no-clear-limit",
]  # fmt: skip
"""What limits the steps; `calls`: the served functions themselves, whatever the configuration."""
RULES: tuple[tuple[Rule, Callable[[Evidence], tuple[str, ...]]], ...] = (
    ("cpus-full", rules.cpus_full),
    ("gil-or-lock", rules.gil_or_lock),
    ("blocked-threads", rules.blocked_threads),
    ("queueing", rules.queueing),
)
ENOUGH_CALLS = 10  # fewer served calls are too few to judge by
MOSTLY = 0.8
"""Where the time from a program's first call to its last is less of the run, that is said."""
SMALL_BYTES = 10_000
"""Of smaller requests, what a call costs anyway takes the time, and not its data."""
KNOWN_SHARE = 0.8
"""The share of the calls to a server that must be known from start to end to speak for all."""
MOST_OF_OWN_TIME = 0.5  # what takes this share of the caller's own time is what it does
LEAST_NAMED_SHARE = 0.05  # an operator is named if it takes this share of the time
_SAYS_THREADS = re.compile(r"(?:: |, but )more (?:threads )?(?:do not )?help\.")
_OF_THREADS = re.compile(
    r"[^.]*(?:[Mm]ore (?:threads )?(?:do not )?help|--space num_worker_threads)[^.]*\.(?: |$)"
)
"""What a sentence says of more threads beside what it says of a server; and sentences on them."""


@dataclass(frozen=True, kw_only=True)
class Diagnosis:
    """What limits the driver of a trace."""

    rule: Rule  # of the first limit
    sentences: tuple[str, ...]
    limits: tuple[Limit, ...] = ()  # the largest first
    enough_threads: tuple[str, ...] = ()  # the servers that more threads do not help
    suggestions: tuple[Suggestion, ...] = ()
    """The knobs that may help; the sentences name them and their flags, too."""

    @property
    def text(self) -> str:
        """The sentences as one paragraph."""
        return " ".join(self.sentences)

    @property
    def wants_threads(self) -> bool:
        """Whether more threads help, without a condition."""
        return ": more threads help." in self.text

    @property
    def denies_threads(self) -> bool:
        """Whether more threads of no server that is a limit help."""
        servers = {process for limit in self.limits for process in limit.processes}
        return bool(servers) and servers <= {*self.enough_threads} and not self.wants_threads

    def without_threads(self) -> "Diagnosis":
        """The same, without a word on whether more threads help."""
        left = (_OF_THREADS.sub("", _SAYS_THREADS.sub(".", each)) for each in self.sentences)
        others = tuple(suggestion for suggestion in self.suggestions if suggestion.knob != THREADS)
        sentences = tuple(sentence.strip() for sentence in left if sentence.strip())
        return replace(self, sentences=sentences, suggestions=others, enough_threads=())

    def without_knob(self, knob: str) -> "Diagnosis":
        """The same, without a word on a knob that may help."""
        others = tuple(suggestion for suggestion in self.suggestions if suggestion.knob != knob)
        dropped = [each.sentence for each in self.suggestions if each.knob == knob]
        sentences = tuple(sentence for sentence in self.sentences if sentence not in dropped)
        return replace(self, sentences=sentences, suggestions=others)


class _Why(NamedTuple):
    rule: Rule
    sentences: tuple[str, ...] = ()
    enough_threads: tuple[str, ...] = ()  # the server, where more threads do not help
    suggestion: Suggestion | None = None


def diagnose(trace: Trace, roles: Sequence[tuple[str, str]] = ()) -> Diagnosis:
    """What limits the driver, and why, by the critical path of its steps.

    A trace without servers' spans has "no clear limit". For `roles` see `tuner.roles.role_of`.
    """
    recorded, trace = trace, with_callbacks(trace)
    path = find_critical_path(trace)
    failures, doubt, *because = failed_calls(recorded), *_doubt(recorded)
    pools = competing_pools(recorded)
    fewer = () if pools is None else (fewer_intra_op_threads(pools),)
    # What makes everything take longer is told first.
    competing = tuple(suggestion.sentence for suggestion in fewer)
    own = path.driver if path else None
    paused = pauses(recorded, own) if own else []
    does = told(recorded, own, paused)
    if doubt or path is None:
        clear = f"No clear limit: the trace {doubt or 'holds no calls that ended'}."
        known: tuple[str, ...] = ()
        # Our own traces say why they do not show it. Of others this is all there is to say.
        if path is not None and trace.source != "rpc-tuner":
            known = (*path_limits.unseen_calls(trace, path), *_beside_calls(trace, path))
        if does.share >= MOST_OF_OWN_TIME:
            sentences = (*failures, *competing, f"The caller is the limit: {does.text}.")
            return Diagnosis(rule="caller", sentences=sentences, suggestions=fewer)
        # What is known comes first.
        sentences = (*failures, *competing, *does.said, *known, clear, *because)
        return Diagnosis(rule="no-clear-limit", sentences=sentences, suggestions=fewer)
    driver, shares = trace.process(path.driver.rank).name, shares_of_path(path, roles)
    limits = path_limits.limits_of(shares)
    meanwhile = told(recorded, own, paused, in_its_calls=True)
    whys = [_why(trace, path, limit, pools, meanwhile) for limit in limits]
    # A knob is named once, with the largest limit that it may help with.
    by_knob = {suggestion.knob: suggestion for suggestion in fewer}
    for why in whys:
        if why.suggestion is not None:
            by_knob.setdefault(why.suggestion.knob, why.suggestion)
    made = int((~are_callbacks(path.driver.calls)).sum())
    limit = path_limits.said(driver, made, shares, limits)
    is_explained = any(why.rule in ("blocked-threads", "gil-or-lock") for why in whys)
    off_cpu = path_limits.off_cpu(has_pools=any(rank.pool_cpu_s for rank in trace.ranks))
    return Diagnosis(
        rule=whys[0].rule if whys else "no-clear-limit",
        sentences=(
            *failures,
            *competing,
            *(does.said if not any(each.kind == "caller" for each in limits) else ()),
            limit,
            *([off_cpu] if "off the CPU" in limit and not is_explained else []),
            # Two limits of one server have one explanation.
            *dict.fromkeys(sentence for why in whys for sentence in why.sentences),
            *(suggestion.sentence for suggestion in by_knob.values() if suggestion not in fewer),
            *path_limits.unseen_shares(trace, driver, shares),
            *_disturbed(path, driver, roles),
            *_beside_calls(recorded, path),
        ),
        limits=tuple(limits),
        enough_threads=tuple(dict.fromkeys(name for why in whys for name in why.enough_threads)),
        suggestions=tuple(by_knob.values()),
    )


def explain(found: Evidence) -> tuple[Rule, tuple[str, ...]]:
    """Why calls to a server take as long as they do, by the first rule that fits."""
    if found.means.calls >= ENOUGH_CALLS and found.served_calls >= KNOWN_SHARE * found.calls:
        for rule, said_by in RULES:
            if sentences := said_by(found):
                return rule, sentences
    return "calls", ()


def _doubt(trace: Trace) -> tuple[str, ...]:
    """What makes the trace too little to judge by, empty if nothing does; and sentences on why."""
    calls, has_ended = trace.calls, trace.calls["end_ns"].notna()
    number, served = int(has_ended.sum()), int((calls["server_end_ns"].notna() & has_ended).sum())
    if calls.empty:
        return ("holds no calls",)
    if not served:
        return "does not show how any call was served", *why_unseen(trace, calls)
    if served >= ENOUGH_CALLS:
        return ("",)
    ended = f"{plural(number, 'call')} that ended"
    if number < ENOUGH_CALLS:
        return (f"holds only {ended}",)
    return f"shows how only {served} of the {ended} were served", *why_unseen(trace, calls)


def _disturbed(
    path: CriticalPath, driver: str, roles: Sequence[tuple[str, str]]
) -> tuple[str, ...]:
    """That steps were left out, and what filled most of their time."""
    number = len(path.disturbed_ns)
    if not number:
        return ()
    largest = shares_of_path(replace(path, time_ns=path.disturbed_ns), roles)[0]
    verb, they = ("is", "it") if number == 1 else ("are", "they")
    return (
        f"{number} of {plural(number + len(path.time_ns), 'step')} {verb} left out: {they} took "
        "more than twice as long as the fast ones.",
        f"For {whole_percent(largest.share.share)} of that time, {driver} "
        f"{largest.phrase(driver)}.",
    )


def _beside_calls(trace: Trace, path: CriticalPath) -> tuple[str, ...]:
    """That much of a program's time lies before its driver's first call, or after its last."""
    calls_s, whole_s = path.length_s, window_length_ns(trace) / 1e9
    if trace.steps is not None or calls_s >= MOSTLY * whole_s:
        return ()
    calls, own = trace.calls, path.driver.calls
    ends = calls["end_ns"].fillna(window(trace)[1])
    outside = (calls["start_ns"] < own["start_ns"].min()) | (ends > own["end_ns"].max())
    of_whole = f"That is {whole_percent(calls_s / whole_s)} of the {duration(whole_s)} recorded."
    span = "to the end of the last one"
    rest = "The rest holds no call, and no option of RPC changes it"
    if number := int(outside.sum()):
        span = f"of {trace.process(path.driver.rank).name} to the end of its last one"
        lie = "lies" if number == 1 else "lie"
        rest = f"{number} of {plural(len(calls), 'call')} {lie} outside of it"
    about = f"All of that is about the {duration(calls_s)} from the first call"
    return f"{about} {span}.", f"{of_whole} {rest}."


def _why(
    trace: Trace, path: CriticalPath, limit: Limit, pools: Pools | None, meanwhile: Told
) -> _Why:
    match limit.kind:
        case "caller":
            sentence = _caller_meanwhile(trace, path, limit.share.share, meanwhile)
            return _Why("caller", (sentence,))
        case "backward":
            return _Why("backward")
        case "issue":
            return _Why("pickling", _pickled(trace, limit))
        case "pickling" | "tensors" | "requests":
            return _Why("pickling", _answers_pickled(trace, limit))
        case "pending":
            return _Why("calls")
    if limit.is_gil:
        return _gil_held(trace, path, limit)
    calls = trace.calls
    of_it = (calls["server"] == limit.processes[0]) & calls["server_end_ns"].notna()
    if not of_it.any():
        return _Why("calls")
    found = gather(trace, int(calls.loc[of_it, "server_rank"].iloc[0]))
    if pools is not None and pools.host == trace.process(found.rank).host:
        # They are also why calls wait for threads, for what holds a lock, or to be sent.
        return _Why("cpus-full")
    why = _Why("wire") if limit.kind == "wire" else _why_on_server(limit.kind, found)
    is_full = why.rule == "cpus-full"
    suggestion = suggest(trace, path, limit.kind, found, is_cpus_full=is_full)
    if suggestion is None and "more threads help" in " ".join(why.sentences).lower():
        suggestion = more_threads(found)
    return why._replace(suggestion=suggestion)


def _why_on_server(kind: str, found: Evidence) -> _Why:
    rule, sentences = explain(found)
    if kind == "dispatch" and rule in ("blocked-threads", "queueing"):
        # These explain calls that find no thread free, or have one at once.
        rule = "calls"
    server, most = (found.server,), found.use.parallelism_max
    if rule != "calls":
        hardly_waited = rule == "blocked-threads" and not rules.short_of_threads(found)
        is_enough = hardly_waited or rule == "gil-or-lock" or rules.DO_NOT_HELP in sentences[0]
        return _Why(rule, sentences, server if is_enough else ())
    others = rules.taken_by_others(found) if kind == "run_queue" else ()
    rule = "cpus-full" if kind == "run_queue" else rule
    # Of calls that the trace does not show, more threads may have been at work.
    if found.threads is None or most >= found.threads or found.served_calls < found.calls:
        return _Why(rule, others)
    at_work = f"At most {most} of the {found.threads} threads of {found.server}"
    return _Why(rule, (*others, f"{at_work} were at work at a time: more do not help."), server)


def _gil_held(trace: Trace, path: CriticalPath, limit: Limit) -> _Why:
    """Who holds the GIL of a process, and what helps."""
    process, held = limit.processes[0], path.gil[limit.processes[0]]
    share = whole_percent(held.held.share)
    is_full = held.is_full
    if held.by != "calls" and held.held.share >= FULL:
        served = trace.calls[trace.calls["server_end_ns"].notna()]
        servers = dict(zip(served["server"].astype(str), served["server_rank"], strict=True))
        is_server = process in servers
        is_full = not is_server or not rules.short_of_threads(gather(trace, servers[process]))
    full = f": {rules.DO_NOT_HELP}" if is_full else ""
    sentence = f"It was held for {share} of the time{full}."
    enough = (process,) if is_full else ()
    if held.by == "calls":
        what = rules.few_named(held.functions)
        sentences = (
            f"They compute in Python, one at a time. {sentence}",
            f"Make {what} faster, or serve {'it' if len(held.functions) == 1 else 'them'} from "
            "several processes.",
        )
        return _Why("gil-or-lock", sentences, enough)
    helps = "Let that compute for less time in Python, or in another process."
    return _Why("gil-or-lock", (sentence, helps), enough, shorter_switch_interval())


def _answers_pickled(trace: Trace, limit: Limit) -> tuple[str, ...]:
    """What is pickled for so long, and what helps."""
    calls = trace.calls[trace.calls["function"].isin(limit.functions)]
    if limit.kind == "requests":
        return ("No option of RPC makes that faster: send tensors instead of Python objects.",)
    names = rules.few_named(limit.functions)
    if limit.kind == "tensors":
        number = round(calls["answer_tensors"].mean())
        return (
            f"{limit.processes[0]} pickles answers of {names}: {number:,} tensors each.",
            "Each tensor is pickled, sent and unpickled on its own: answer with one that holds "
            "them all.",
        )
    return (
        f"{limit.processes[0]} pickles answers of {names}, and their callers unpickle them.",
        "No option of RPC makes that faster: answer with tensors instead of Python objects.",
    )


def _pickled(trace: Trace, limit: Limit) -> tuple[str, ...]:
    """How large the requests are that take the time, and what helps."""
    calls = trace.calls
    ours = calls["client"].isin(limit.processes) & calls["function"].isin(limit.functions)
    size = calls.loc[ours, "request_bytes"].dropna().astype(float)
    is_small = len(size) > 0 and size.mean() < SMALL_BYTES
    less = "send the data once, send tensors instead of Python objects, or make fewer"
    helps = f"No option of RPC makes that faster: {'make fewer and larger' if is_small else less}"
    if size.empty:
        return (f"{helps} calls.",)
    mean = rules.scaled(size.mean(), ("bytes", "kB", "MB"))
    return f"These are {plural(len(size), 'request')} of {mean} each.", f"{helps} calls."


def _caller_meanwhile(trace: Trace, path: CriticalPath, own_share: float, does: Told) -> str:
    """Whether the caller's thread computes, waits for a CPU, or neither; and its busiest operator.

    `own_share` is the share of the time in which it waits for no call, `does` what it does between
    its calls. What is known of its CPU times and operators is of the whole trace: it says nothing
    of that time if it is only a part.
    """
    driver, seconds = path.driver, window_length_ns(trace) / 1e9
    process = trace.process(driver.rank)
    if does.share * seconds >= MOST_OF_OWN_TIME * own_share * path.length_s > 0:
        return f"Meanwhile {does.text}."
    unknown = f"The trace does not tell whether {process.name} computes meanwhile"
    if path.length_s < MOSTLY * seconds:
        return f"{unknown}: its CPU time is known of the whole recording only."
    busiest = _busiest_operator(trace, driver)
    if not driver.is_main_of(process) or process.main_cpu_s is None or seconds <= 0:
        return f"{unknown}.{busiest}"
    said = f"sleeps, or waits for {rules.waits_for(has_pools=bool(process.pool_cpu_s))}."
    if process.main_cpu_s / seconds >= MOST_OF_OWN_TIME * own_share:
        said = f"computes.{busiest}"
    elif (process.main_run_queue_s or 0.0) / seconds >= MOST_OF_OWN_TIME * own_share:
        said = "waits for a free CPU."
    return f"Meanwhile {process.name} {said} Its {rules.main_thread_used(process, seconds)}."


def _busiest_operator(trace: Trace, driver: Driver) -> str:
    """A sentence on the outermost operator with the most time; empty if it has little."""
    trace = trace.with_operators()
    operators, whole_ns = trace.operators, window_length_ns(trace)
    is_mine = (operators["rank"] == driver.rank) & (operators["thread"] == driver.thread)
    mine = operators[is_mine]
    if mine.empty or whole_ns <= 0:
        return ""
    outer = mine[parents(Spans.of(mine)) < 0]
    by_name = (outer["end_ns"] - outer["start_ns"]).groupby(outer["name"], observed=True).sum()
    share = float(by_name.max()) / whole_ns
    if share < LEAST_NAMED_SHARE:
        return ""
    return f" Its busiest operator is {by_name.idxmax()}, with {whole_percent(share)} of the time."
