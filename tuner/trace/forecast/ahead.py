"""Calls of a loop that are issued a step ahead: before the work that follows the results of the
step before, instead of after it."""

import math
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise

import numpy as np

from tuner.trace.forecast.change import Change, Changed, Changing, rank_of, with_runs
from tuner.trace.forecast.program import (
    AWAIT,
    COMPUTE_WITH_GIL,
    COMPUTES,
    DRAIN,
    ISSUE,
    Op,
    Program,
)
from tuner.trace.forecast.replay import Machine
from tuner.trace.forecast.runs import Made, Run, Unit, frames

FEW = 5  # steps, which are no loop
WORTH = 0.1  # of the time of its calls: less work between two steps hides nothing
LONGER = 3.0  # than what a call takes of its caller beside
REGULAR = 0.5  # of the steps have as many calls as is usual
SLICE_NS = 3e6  # so long one that computes keeps its CPU, and what sends waits for it
_Label = tuple[str, str]


def ahead(of: Changing, change: Change) -> Changed:
    """Each step's calls are issued when those of the step before have ended."""
    loops = dict[int, Run]()
    for loop in loops_of(of.program, of.made, of.fixed_ns):  # of a frame the longest comes first
        if change.is_about(loop.function, loop.site):
            loops.setdefault(loop.frame, loop)
    if not loops or of.program.permits:
        return None
    calls = list(of.program.calls)
    for loop in loops.values():
        for number in loop.calls:
            # Each is waited for by itself, whatever else is under way.
            calls[number] = replace(calls[number], is_blocking=True)

    most = SLICE_NS if are_full(of.machine) else math.inf

    def new(ops: Sequence[Op], loop: Run) -> list[Op]:
        found = list[Op]()
        for place, unit in enumerate(loop.units):
            sends, waits = ops[unit.sends : unit.sent], ops[unit.sent : unit.end]
            before = ops[loop.units[place - 1].end if place else unit.first : unit.sends]
            alone, beside = _parted(before, of.of_work, most) if place else (list(before), [])
            found += [*alone, *sends, *beside]
            found += [*waits, *((AWAIT, call) for call in unit.calls)]
        return found

    return with_runs(replace(of.program, calls=calls), [*loops.values()], new), of.machine


def are_full(machine: Machine) -> bool:
    """Whether threads that poll, and one that computes, want all logical CPUs of a host."""
    pairs = zip(machine.polling, machine.cpus, strict=True)
    return any(polling + 1 >= cpus for polling, cpus in pairs)


def _parted(ops: Sequence[Op], parts: float, most: float) -> tuple[list[Op], list[Op]]:
    """What a caller does before its calls, and beside them: what computes takes the CPUs, and the
    GIL, that these need, too, so that, of so many nanoseconds at most, only a part may be beside
    them."""
    alone, beside = list[Op](), list[Op]()
    for kind, ns in ops:
        if kind not in COMPUTES:
            beside.append((kind, ns))
            continue
        before = min(ns, most) * (1 - 1 / parts)
        most -= min(ns, most)
        alone += [(kind, before)] * (before > 0)
        beside.append((kind, ns - before))
    return alone, beside


def loops_of(program: Program, made: Made, fixed_ns: Mapping[int, float]) -> list[Run]:
    """Steps of calls that one line makes, each waited for, with work between; the longest first.

    `fixed_ns`: by rank, what a call takes of its caller beside being issued.
    """
    found = []
    for frame, ops in frames(program):
        by_label = defaultdict[_Label, list[Unit]](list)
        for label, unit in _steps(program, made, ops, frame < 0):
            by_label[label].append(unit)
        least = LONGER * fixed_ns.get(rank_of(program, frame), 0.0)
        found += [
            Run(frame, *label, units)
            for label, units in by_label.items() if _is_worth(ops, units, made, least)
        ]  # fmt: skip
    return sorted(found, key=lambda run: -sum(made.took_ns[call] for call in run.calls))


def _is_worth(ops: Sequence[Op], units: Sequence[Unit], made: Made, least: float) -> bool:
    if len(units) < FEW:
        return False
    sizes = [len(unit.calls) for unit in units]
    usual = max(set(sizes), key=sizes.count)
    between = [
        sum(_lasts(op, made) for op in ops[one.end : other.sends]) for one, other in pairwise(units)
    ]
    took = float(np.median([max(made.took_ns[call] for call in unit.calls) for unit in units]))
    is_regular = sizes.count(usual) >= REGULAR * len(sizes)
    return is_regular and float(np.median(between)) > max(WORTH * took, least)


def _lasts(op: Op, made: Made) -> float:
    kind, value = op
    return made.took_ns[int(value)] if kind == AWAIT else value if kind < ISSUE else 0.0


def _steps(
    program: Program, made: Made, ops: Sequence[Op], is_root: bool
) -> Iterator[tuple[_Label, Unit]]:
    """Calls of one function and line that follow each other, and the wait for all of them."""
    label: _Label | None = None
    first = sends = sent = 0
    calls = list[int]()
    for place, (kind, value) in enumerate(ops):
        if kind == ISSUE:
            number = int(value)
            call = program.calls[number]
            own = call.function, made.site[number]
            is_plain = made.kind[number] in ("rpc_sync", "rpc_async") and call.callback < 0
            if own != label or not calls:
                label, calls = own if is_plain else None, []
                costs = is_root and place > first and ops[place - 1][0] == COMPUTE_WITH_GIL
                sends = place - costs
            calls.append(number)
            sent = place + 1
        elif kind == AWAIT or (kind == DRAIN and value == 0):
            is_of_all = kind == DRAIN or (calls == [int(value)])
            if label is not None and calls and is_of_all:
                yield label, Unit(first, sends, sent, place + 1, tuple(calls))
            first, label, calls = place + 1, None, []
