"""What limits the driver's steps: the large shares of the critical path, where they are sure.

A share is a limit if it is LARGE, if it is COMPARABLE with the largest one, and if the lower end
of its interval is at least SURE. What is a little less is said beside the limits: the next trace
may show it as one. What the trace does not show may be anything: it is no limit itself, nothing
smaller than it is one, and how much of the time that is, and why, is said too.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

from tuner.roles import role_of
from tuner.text import listed, plural, whole_percent
from tuner.trace.analyze import callbacks
from tuner.trace.analyze.critical_path import SURE, CriticalPath, Share
from tuner.trace.analyze.diagnosis_rules import few_named, waits_for
from tuner.trace.model.trace import Trace

LARGE = 0.2
COMPARABLE = 0.35  # of the largest share
BESIDE = 0.15
MOST_LIMITS = 3  # where more shares than these are large, none stands out
NAMED = 0.1
"""What has less than this of the time of a limit's first process, or function, is not named."""
MOST_SHOWN = 3
"""Shares that are said where none is a limit, and processes that are the limit together."""
SHOWN = 0.05  # smaller shares are not worth a word
FEW_CALLS = 20  # where what fewer calls waited for is not known, they are too few to judge
UNSEEN = "unseen"
WIRE = ("to_server", "to_client")
PICKLING = ("request", "answer", "receive")
MANY_TENSORS = 100
"""In an answer: each of so many is pickled, sent and unpickled on its own, which takes most of the
time."""
_PHRASES = {
    "caller": "waited for no call",
    "backward": "was in dist_autograd.backward",
    "issue": "waited while {p} pickled requests of {fs}",
    "wire": "waited for calls on their way, mostly {f} to {p}",
    "run_queue": "waited for functions without a free CPU, mostly {f} on {p}",
    "queue": "waited while {cs} queued for a thread of {p}",
    "answer_queue": "waited while answers of {fs} queued for a thread of {p}",
    "pickling": "waited while answers of {fs} were pickled and unpickled",
    "tensors": "waited while answers of {fs} were pickled, sent and unpickled",
    "requests": "waited while requests of {fs} were unpickled on {p}",
    "calls-hold-gil": "waited while calls of {fs} held the GIL of {p}",
    "main-holds-gil": "waited while the main thread of {p} held its GIL",
    "others-hold-gil": "waited while other threads of {p} held its GIL",
    "dispatch": "waited while {p} did not begin {fs} though a thread was free",
    "on_cpu": "waited while {fs} {was} on the CPU on {p}",
    "off_cpu": "waited while {fs} {was} off the CPU on {p}",
    "served": "waited while {fs} ran on {p}",
    "pending": "waited for results of {fs} that were not complete yet on {p}",
    UNSEEN: "waited for {fs} on {p}. The trace does not show how {it} served",
}
_NAMES = {
    "pickling": "Pickling is the limit",
    "requests": "Pickling is the limit",
    "tensors": "The number of tensors is the limit",
    "caller": "The caller is the limit",
    "backward": "The backward pass is the limit",
    "wire": "Communication is the limit",
    "run_queue": "The logical CPUs are the limit",
}
GIL_KINDS = {"calls": "calls-hold-gil", "main": "main-holds-gil", "others": "others-hold-gil"}
_NUMBERS = {2: "Two", 3: "Three"}
_WITHOUT_PYTHON = {
    "builtin": "Builtin operators run without Python",
    "script": "TorchScript functions run without Python",
    "fetch": "PyTorch answers to_here without Python",
}


@dataclass(frozen=True, kw_only=True)
class Limit:
    """A kind of waiting, and what waited: processes that do the same."""

    kind: str
    """A part of the path; `wire` for the way there and back; `pickling` of answers; `tensors`, the
    same with their way, of answers that hold many; `requests` that are unpickled; or who holds the
    GIL."""
    processes: tuple[str, ...]  # those with much of the time, the largest share first
    functions: tuple[str, ...]
    share: Share

    def phrase(self, driver: str) -> str:
        """What the driver did: `waited for calls of f that waited for a thread of p`."""
        # The function of a fetch has no name.
        names = [name or "to_here" for name in self.functions]
        several, first = few_named(names), self.processes[0]
        if self.kind == "issue" and self.processes == (driver,):
            return f"pickled requests of {several}"
        was, it = ("was", "it was") if len(names) == 1 else ("were", "they were")
        process = first if self.kind in ("wire", "run_queue") else few_named(self.processes)
        are_callbacks = all(name.startswith(callbacks.NAME) for name in names)
        queued = several if are_callbacks else f"calls of {several}"
        return _PHRASES[self.kind].format(
            f=names[0], fs=several, cs=queued, p=process, was=was, it=it
        )

    @property
    def is_gil(self) -> bool:
        """Whether it is a GIL that is waited for."""
        return self.kind in GIL_KINDS.values()

    @property
    def name(self) -> str:
        """The beginning of a sentence about this limit alone."""
        all_of_them = "The callers" if self.kind == "issue" else "The servers"
        who = listed(self.processes) if len(self.processes) <= MOST_SHOWN else all_of_them
        number = "is" if len(self.processes) == 1 else "are"
        if self.is_gil:
            return f"The GIL of {few_named(self.processes)} is the limit"
        return _NAMES.get(self.kind, f"{who} {number} the limit")


def off_cpu(*, has_pools: bool) -> str:
    """What it means to be off the CPU."""
    return f"Off the CPU means asleep, or waiting for {waits_for(has_pools=has_pools)}."


def shares_of_path(path: CriticalPath, roles: Sequence[tuple[str, str]] = ()) -> list[Limit]:
    """All shares, the largest first: by kind of waiting, and by what waited.

    A server that is short of threads is so whatever its calls run: all functions of a process are
    taken together, and processes of one role that have a function in common.
    """
    kind = _kinds(path)
    alike = _alike(path.rows, roles).mask(kind.isin([*_NAMES]), 0)
    found = [_limit(path, str(name), rows.index) for (name, _), rows in kind.groupby([kind, alike])]
    return sorted(found, key=lambda limit: -limit.share.share)


def _kinds(path: CriticalPath) -> pd.Series:
    """The kind of waiting of each row of the path."""
    rows = path.rows
    kinds = dict.fromkeys(WIRE, "wire") | dict.fromkeys(PICKLING, "pickling")
    kind = rows["part"].replace(kinds | {"request": "requests"})
    # The way of many tensors belongs to the answer that has them.
    of_answer = rows["part"].isin(["answer", "to_client", "receive"])
    kind = kind.mask(of_answer & (rows["tensors"] >= MANY_TENSORS), "tensors")
    time_ns = path.time_ns.sum(axis=0)
    for process, found in path.gil.items():
        waits = (rows["part"] == "gil") & (rows["process"] == process)
        kind = kind.mask(waits, GIL_KINDS[found.by])
        if found.by == "calls" and time_ns[waits].sum() >= BESIDE * time_ns.sum():
            # A call that runs holds it: it is what the others wait for.
            kind = kind.mask((rows["part"] == "on_cpu") & (rows["process"] == process),
                             GIL_KINDS["calls"])  # fmt: skip
    return kind


def limits_of(shares: list[Limit]) -> list[Limit]:
    """Those shares that are limits, the largest first; none where nothing stands out."""
    seen = [part for part in shares if part.kind != UNSEEN]
    unseen = sum(part.share.share for part in shares if part.kind == UNSEEN)
    least = max([LARGE, unseen, *(COMPARABLE * limit.share.share for limit in seen)])
    limits = [limit for limit in seen if limit.share.share >= least and limit.share.low >= SURE]
    return limits if len(limits) <= MOST_LIMITS else []


def said(driver: str, calls: int, shares: list[Limit], limits: list[Limit]) -> str:
    """What limits the steps of the driver, which made so many calls."""
    seen = [part for part in shares if part.kind != UNSEEN and part not in limits]
    beside = "".join(
        f" For another {limit.share.text} it {limit.phrase(driver)}."
        for limit in seen
        if limit.share.share >= BESIDE and limit.share.is_known
    )
    if len(limits) == 1:
        (only,) = limits
        of_time = f"for {only.share.text} of the time, {driver} {only.phrase(driver)}"
        return f"{only.name}: {of_time}.{beside}"
    if limits:
        several = "".join(f" For {limit.share.text} it {limit.phrase(driver)}." for limit in limits)
        return f"{_NUMBERS[len(limits)]} things limit {driver}.{several}{beside}"
    if seen and not seen[0].share.is_known:
        few = f"it made only {plural(calls, 'call')}, too few to say what limits it"
        why = few if calls < FEW_CALLS else "what it waited for differs too much over the time"
        return f"No clear limit of {driver}: {why}."
    largest = (
        f" For {limit.share.text} of the time it {limit.phrase(driver)}."
        for limit in seen[:MOST_SHOWN]
        if limit.share.share >= SHOWN and limit.share.is_known
    )
    return f"No clear limit of {driver}.{''.join(largest)}"


def _alike(rows: pd.DataFrame, roles: Sequence[tuple[str, str]]) -> pd.Series:
    """A number for each row: the same for those that a process, or a function of a role, joins."""
    # Of these the process is the one that calls.
    side = rows["part"].isin(["issue", "answer_queue"]).astype(str)
    role = [role_of(process, roles) for process in rows["process"]]
    process, processes = pd.factorize(side + rows["process"])
    # Not by that which has no name, such as a fetch.
    name = rows["function"].where(rows["function"] != "", rows["process"])
    function, functions = pd.factorize(pd.MultiIndex.from_arrays([side, role, name]))
    size = len(processes) + len(functions)
    joined = coo_array((np.ones(len(rows)), (process, len(processes) + function)), (size, size))
    return pd.Series(connected_components(joined, directed=False)[1][process])


def _limit(path: CriticalPath, kind: str, places: pd.Index) -> Limit:
    time_ns = path.time_ns[:, places]
    rows = path.rows.loc[places].assign(time=time_ns.sum(axis=0))
    times = [
        rows.groupby(name)["time"].sum().sort_values(ascending=False)
        for name in ("process", "function")
    ]
    processes, functions = (tuple(taken.index[taken >= NAMED * taken.iloc[0]]) for taken in times)
    share = path.share(time_ns.sum(axis=1))
    return Limit(kind=kind, processes=processes, functions=functions, share=share)


def unseen_shares(trace: Trace, driver: str, shares: list[Limit]) -> tuple[str, ...]:
    """How much of the time the trace does not explain, of which servers, and why."""
    sentences = []
    for limit in shares:
        share = limit.share.text if limit.share.is_known else "an unknown share"
        if limit.share.share < SHOWN:
            continue
        if limit.kind == "backward":
            what = "What the ranks compute and send in dist_autograd.backward"
            sentences.append(f"{what}, for {share} of the time, is not recorded.")
        elif limit.kind == UNSEEN:
            calls = trace.calls
            here = calls["server"].isin(limit.processes) & calls["function"].isin(limit.functions)
            sentences.append(f"For {share} of the time, {driver} {limit.phrase(driver)}.")
            sentences += why_unseen(trace, calls[here])
    return tuple(sentences)


def unseen_calls(trace: Trace, path: CriticalPath) -> tuple[str, ...]:
    """Which calls the driver had under way, where it is not known how they were served."""
    calls, driver = trace.calls, trace.process(path.driver.rank).name
    rows = path.rows.assign(share=path.time_ns.sum(axis=0) / path.time_ns.sum())
    rows = rows[(rows["part"] == UNSEEN) & (rows["share"] >= SHOWN)].nlargest(MOST_SHOWN, "share")
    if rows.empty:
        return ()
    names = rows[["function", "process"]].itertuples(index=False)
    what = [f"{function or 'to_here'} on {server}" for function, server in names]
    most, *others = map(whole_percent, rows["share"])
    more = [f"for {share} {part}" for share, part in zip(others, what[1:], strict=True)]
    here = calls["server"].isin(rows["process"]) & calls["function"].isin(rows["function"])
    if calls.loc[here, "kind"].isin(["rpc_sync", "to_here"]).all():
        waited = listed([f"waited for {what[0]}", *more])
        return (f"For {most} of the time, {driver} {waited}.",)
    it = "it" if len(what) == 1 else "them"
    is_path = listed([f"the critical path is {what[0]}", *more])
    return (
        f"For {most} of the time, {is_path}: {driver} waited for {it}, or ran Python meanwhile.",
    )


def why_unseen(trace: Trace, calls: pd.DataFrame) -> list[str]:
    """Why the trace does not show how some of these calls were served, as sentences.

    None where the trace does not say.
    """
    unseen = calls[calls["server_end_ns"].isna()]
    bodies, servers = (set(unseen[column].astype(str)) for column in ("body", "server"))
    reasons = []
    for body, reason in _WITHOUT_PYTHON.items():
        if body in bodies:
            has_all = trace.operators_recorded and trace.operators_until_ns is None
            is_shown = body != "fetch" and not has_all
            reasons.append(f"{reason}{': only a trace with operators shows them' * is_shown}.")
    # `a, b and c ended` is a loss of each of them.
    of_one = rf"([\w:-]+, )*([\w:-]+ and )?({'|'.join(map(re.escape, servers))})(?![\w:-])"
    losses = (loss.split(": ")[0] for loss in trace.losses if servers and re.match(of_one, loss))
    return [*reasons, *(f"{loss}." for loss in losses)]
