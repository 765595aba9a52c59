"""Calls that a frame makes one after another and waits for, each before it issues the next."""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from tuner.trace.forecast.program import AWAIT, COMPUTE_WITH_GIL, DRAIN, ISSUE, Op, Program

LITTLE = 0.5  # of the time of a call: a caller that does more between two calls may need the result
LONGER = 3.0  # what a caller does between two runs takes so many times what it does within one


class Made(NamedTuple):
    """Of each call of a program, by its number: what the trace knows of how it was made."""

    kind: Sequence[str]
    site: Sequence[str]  # the file and line that issues it; empty where that is not known
    took_ns: Sequence[float]


class Unit(NamedTuple):
    """A call of a frame, and the wait for it: places among the ops of the frame."""

    first: int  # where what the caller does before it begins
    sends: int  # where what issuing it takes begins
    sent: int  # behind its ISSUE
    end: int  # behind the wait
    calls: tuple[int, ...]  # it, or a `remote` and the `to_here` of its value


class Run(NamedTuple):
    """Calls of one function that a frame makes one after another."""

    frame: int  # a call, or -1 - the place of a root
    function: str
    site: str
    units: Sequence[Unit]

    @property
    def calls(self) -> list[int]:
        """All of them."""
        return [call for unit in self.units for call in unit.calls]


def runs_of(program: Program, made: Made) -> list[Run]:
    """Those of all frames, of two calls or more."""
    found = []
    for frame, ops in frames(program):
        by_label = _labelled(program, made, ops, frame < 0)
        for (function, site), units in by_label:
            found += [Run(frame, function, site, part) for part in _parted(ops, units, made)]
    return found


def frames(program: Program) -> Iterator[tuple[int, Sequence[Op]]]:
    """What frames do that issue calls: roots, and served functions."""
    for place, root in enumerate(program.roots):
        yield -1 - place, root.ops
    for number, call in enumerate(program.calls):
        if any(kind == ISSUE for kind, _ in call.ops):
            yield number, call.ops


def own_ns(ops: Sequence[Op], unit: Unit) -> float:
    """What the caller does itself before it begins to issue the call of a unit."""
    return sum(ns for _, ns in ops[unit.first : unit.sends])


_Label = tuple[str, str]


def _labelled(
    program: Program, made: Made, ops: Sequence[Op], is_root: bool
) -> Iterator[tuple[_Label, list[Unit]]]:
    """Units that follow each other, of one function and site."""
    label: _Label | None = None
    units: list[Unit] = []
    for unit in _units(made, ops, is_root):
        of = None if unit is None else (program.calls[unit.calls[0]].function,
                                        made.site[unit.calls[0]])  # fmt: skip
        if of != label or (units and unit and unit.first != units[-1].end):
            if label is not None and len(units) > 1:
                yield label, units
            label, units = of, []
        if unit is not None:
            units.append(unit)
    if label is not None and len(units) > 1:
        yield label, units


def _units(made: Made, ops: Sequence[Op], is_root: bool) -> Iterator[Unit | None]:
    """Each call that is waited for before the next is issued; None for anything else."""
    first = sent = sends = 0
    calls: list[int] = []
    for place, (kind, value) in enumerate(ops):
        if kind == ISSUE:
            if not calls:
                sent = place + 1
                costs = is_root and place > first and ops[place - 1][0] == COMPUTE_WITH_GIL
                sends = place - costs
            calls.append(int(value))
        elif kind == DRAIN or (kind == AWAIT and calls and value == calls[-1]):
            follows = ops[place + 1 : place + 2]
            if kind == AWAIT and follows and follows[0][0] == ISSUE and _is_remote(made, calls):
                continue  # the `to_here` of what it makes
            fits = _fits(made, calls)
            yield Unit(first, sends, sent, place + 1, tuple(calls)) if fits else None
            first, calls = place + 1, []
        elif kind == AWAIT and (not calls or value not in calls):
            yield None
            first, calls = place + 1, []
    if calls:
        yield None


def _is_remote(made: Made, calls: Sequence[int]) -> bool:
    return [made.kind[call] for call in calls] == ["rpc_remote"]


def _fits(made: Made, calls: Sequence[int]) -> bool:
    """Whether these are one call that needs no value which an earlier one has made."""
    return [made.kind[call] for call in calls] in (
        ["rpc_sync"], ["rpc_async"], ["rpc_remote", "to_here"],
    )  # fmt: skip


def _parted(ops: Sequence[Op], units: Sequence[Unit], made: Made) -> Iterator[Sequence[Unit]]:
    """Those between which the caller does little, and no more than usual."""
    gaps = [own_ns(ops, unit) for unit in units[1:]]
    took = float(np.median([sum(made.took_ns[call] for call in unit.calls) for unit in units]))
    most = min(LITTLE * took, LONGER * float(np.median(gaps)))
    part = [units[0]]
    for unit, gap in zip(units[1:], gaps, strict=True):
        if gap > most:
            if len(part) > 1:
                yield part
            part = []
        part.append(unit)
    if len(part) > 1:
        yield part


def by_frame(runs: Sequence[Run]) -> dict[int, list[Run]]:
    """The runs of each frame, in order."""
    found = defaultdict[int, list[Run]](list)
    for run in runs:
        found[run.frame].append(run)
    return found


def usual_number(runs: Sequence[Run], function: str, site: str) -> int:
    """How many calls most of them are in, one after another; 0 where that varies."""
    numbers = [len(r.units) for r in runs if (r.function, r.site) == (function, site)]
    usual = max(set(numbers), key=lambda number: (number * numbers.count(number), number))
    is_usual = numbers.count(usual) > 1 and usual * numbers.count(usual) >= sum(numbers) / 2
    return usual if is_usual else 0
