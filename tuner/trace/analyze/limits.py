"""What limits the driver's steps: the large shares of the critical path, where they are sure.

A share is a limit if it is LARGE, if it is COMPARABLE with the largest one, and if the lower end
of its interval is at least SURE. What is less than that, but not much, is said beside the limits.
So if one trace of a configuration names a share that is about LARGE, and the next one does not, the
next one still tells of it.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import pandas as pd

from tuner.roles import role_of
from tuner.text import first_of, listed, whole_percent
from tuner.trace.analyze.critical_path import CriticalPath
from tuner.trace.analyze.path.steps import Share

LARGE = 0.2
COMPARABLE = 0.35
"""Of the largest share."""
SURE = 0.1
BESIDE = 0.15
MOST_LIMITS = 3
"""Where more shares than these are large, none stands out."""
MOST_SHOWN = 3
"""Shares that are said where none of them is a limit, and processes that are named."""
SHOWN = 0.05
"""Smaller shares are not worth a word."""

WIRE = ("issue", "to_server", "to_client")
_PHRASES = {
    "caller": "waited for no call",
    "wire": "waited for calls on their way, most of {f} to {p} (pickling, transport, waking a "
    "thread)",
    "run_queue": "waited for functions that were ready to run but had no CPU, mostly {f} on {p}",
    "queue": "waited for calls of {f} that waited for a thread of {p}",
    "dispatch": "waited for calls of {f} that {p} had not begun though a thread was free",
    "on_cpu": "waited while {f} was on the CPU on {p}",
    "off_cpu": "waited while {f} was off the CPU on {p} (asleep, or waiting for I/O, a lock or "
    "the GIL)",
    "served": "waited while {f} ran on {p}",
    "pending": "waited for results of {f} that were not complete yet on {p}",
    "unseen": "waited for {f} on {p}, and the trace does not show how it was served",
}
_NAMES = {
    "caller": "The caller is the limit",
    "wire": "Communication is the limit",
    "run_queue": "Too few free logical CPUs are the limit",
}


@dataclass(frozen=True, kw_only=True)
class Limit:
    """A kind of waiting, and what waited: processes of one role, in one function."""

    kind: str
    """A part of the path; `wire` for the way there and back."""
    processes: tuple[str, ...]
    """The largest share first."""
    function: str
    share: Share

    @property
    def phrase(self) -> str:
        """What the driver did: `waited for calls of f that waited for a thread of p`."""
        few = first_of(self.processes, MOST_SHOWN)
        where = few if len(self.processes) > MOST_SHOWN else listed(self.processes)
        if self.kind in ("wire", "run_queue"):
            where = self.processes[0]
        return _PHRASES[self.kind].format(f=self.function or "calls", p=where)

    @property
    def name(self) -> str:
        """The beginning of a sentence about this limit alone."""
        who = listed(self.processes) if len(self.processes) <= MOST_SHOWN else "The servers"
        number = "is" if len(self.processes) == 1 else "are"
        return _NAMES.get(self.kind, f"{who} {number} the limit")


def shares_of_path(path: CriticalPath, roles: Sequence[tuple[str, str]] = ()) -> list[Limit]:
    """All shares, the largest first: by kind of waiting, role and function.

    Processes of one role are taken together; for `roles` see `tuner.roles.role_of`.
    """
    rows = path.rows
    role = [role_of(process, roles) for process in rows["process"]]
    keys = [
        (part, "", "") if part in ("caller", "run_queue") else (part, role, function)
        for part, role, function in zip(rows["part"], role, rows["function"], strict=True)
    ]
    keys = [("wire", "", "") if key[0] in WIRE else key for key in keys]
    found = [
        _limit(path, key[0], pd.Series([each == key for each in keys])) for key in sorted(set(keys))
    ]
    return sorted(found, key=lambda limit: -limit.share.share)


def limits_of(shares: list[Limit]) -> list[Limit]:
    """Those shares that are limits, the largest first; none where nothing stands out."""
    least = max([LARGE, *(COMPARABLE * each.share.share for each in shares)])
    limits = [each for each in shares if each.share.share >= least and each.share.low >= SURE]
    return limits if len(limits) <= MOST_LIMITS else []


def said(driver: str, shares: list[Limit], limits: list[Limit]) -> str:
    """One sentence on what limits the steps of the driver."""
    others = [each for each in shares if each.share.share >= BESIDE and each not in limits]
    beside = "".join(f"; for another {share_text(each.share)} it {each.phrase}" for each in others)
    if len(limits) == 1:
        (only,) = limits
        of_time = f"for {share_text(only.share)} of the time, {driver} {only.phrase}"
        return f"{only.name}: {of_time}{beside}."
    if limits:
        number = {2: "Two", 3: "Three"}[len(limits)]
        each_one = listed(f"for {share_text(each.share)} it {each.phrase}" for each in limits)
        return f"{number} things limit {driver}: {each_one}{beside}."
    largest = [each for each in shares[:MOST_SHOWN] if each.share.share >= SHOWN]
    several = "; ".join(
        f"for {share_text(each.share)} of the time it {each.phrase}" for each in largest
    )
    return f"No clear limit of {driver}: {several}."


def share_text(share: Share) -> str:
    """`74 % (71-77 %)`; `74 %` where the interval is no wider than that."""
    middle, low, high = (whole_percent(each) for each in share)
    if low == middle == high:
        return middle
    return f"{middle} ({low.removesuffix(' %')}-{high})"


def _limit(path: CriticalPath, kind: str, mask: pd.Series) -> Limit:
    """The rows of the mask as one."""
    rows = path.rows[mask].assign(time=path.time_ns[:, mask.to_numpy()].sum(axis=0))
    # Of the wire, what a call is issued to matters, not who issues it.
    there = rows[rows["part"] != "issue"] if (rows["part"] != "issue").any() else rows
    processes, functions = (
        there.groupby(name)["time"].sum().sort_values(ascending=False).index.tolist()
        for name in ("process", "function")
    )
    return Limit(
        kind=kind, processes=tuple(processes), function=functions[0], share=path.share(mask)
    )
