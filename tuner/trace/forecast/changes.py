"""What a person could change in a program's code, each as a change of the program that is replayed.

A row of KINDS is all that there is to a change: what it does to a program, and what must hold for
it. What the trace cannot show to hold is no change.
"""

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

from tuner.trace.forecast.ahead import ahead
from tuner.trace.forecast.change import (
    DRIVER,
    LARGE,
    Change,
    Changed,
    ChangeKind,
    Changing,
    each_frame,
    rank_of,
    scaled,
    with_runs,
)
from tuner.trace.forecast.program import (
    AWAIT,
    COMPUTE,
    COMPUTE_WITH_GIL,
    DRAIN,
    GIVE,
    HOLD_LOCK,
    ISSUE,
    SLEEP,
    TAKE,
    Call,
    Op,
    total_ns,
)
from tuner.trace.forecast.runs import Run, runs_of
from tuner.trace.forecast.sending import fetch_once, pickle_once, sending_ns, tensors
from tuner.trace.forecast.sharing import batch, callers, servers, smaller


class Kind(NamedTuple):
    """A kind of change."""

    change: Callable[[Changing, Change], Changed]
    """The program and its machine after it; None where there is nothing to change, or where the
    trace does not show that it can be."""
    say: Callable[[Change], str]
    """What to do, in words."""
    condition: str
    """What must hold for it, in words."""


def changed(of: Changing, change: Change) -> Changed:
    """A program, and its machine, after a change; None where it changes nothing."""
    return KINDS[change.kind].change(of, change)


def _together(of: Changing, change: Change) -> Changed:
    """Issue first, then wait; what is sent in many parts is sent one after another still."""
    runs = _runs(of, change)
    if not runs or of.program.permits:
        return None
    sends = sending_ns(of)

    def issued(ops: Sequence[Op]) -> Iterator[Op]:
        for kind, value in ops:
            if kind == ISSUE and sends.get(int(value)):
                yield COMPUTE, sends[int(value)]
            yield kind, value

    def new(ops: Sequence[Op], run: Run) -> list[Op]:
        sent = [op for unit in run.units for op in issued(ops[unit.first : unit.sent])]
        waits = [op for unit in run.units for op in ops[unit.sent : unit.end]]
        drains = [place for place, (kind, _) in enumerate(waits) if kind == DRAIN]
        kept = set(drains[-1:])
        return sent + [op for at, op in enumerate(waits) if op[0] != DRAIN or at in kept]

    calls = list(of.program.calls)
    for number in sends.keys() & {call for run in runs for call in run.calls}:
        way = max(calls[number].to_server - sends[number], 0.0)
        rest = max(sends[number] - calls[number].to_server, 0.0)
        arrives = [(kind, max(ns - rest, 0.0)) for kind, ns in calls[number].arrives]
        calls[number] = replace(calls[number], to_server=way, arrives=arrives)
    for make, fetch in (unit.calls for run in runs for unit in run.units if len(unit.calls) > 1):
        # It was under way while the value was made; now it goes there and back after that.
        way = _fetching_ns(calls[make], of.made.took_ns[fetch]) * of.awake
        calls[fetch] = replace(calls[fetch], to_server=way)
    return with_runs(replace(of.program, calls=calls), runs, new), of.machine


def _fetching_ns(call: Call, took_ns: float) -> float:
    """How long a value is on its way that a call has made, of a fetch that took so long with that:
    no longer than the call's own way, which may be that of an answer that nobody waited for."""
    made = sum(ns for kind, ns in call.ops if kind < ISSUE)
    return min(call.way_there + call.way_back, max(took_ns - made, 2 * call.way_there))


def _one_call(of: Changing, change: Change) -> Changed:
    """One call for each server, with all bodies; these are issued together."""
    runs = [run for run in _runs(of, change) if all(_can_join(of, call) for call in run.calls)]
    runs = [run for run in runs if len(_by_server(of, run)) < len(run.units)]
    if not runs or of.program.permits:
        return None
    calls = list(of.program.calls)
    for run in runs:
        for own in _by_server(of, run).values():
            calls[own[0]] = replace(
                calls[own[0]],
                ops=[op for call in own for op in of.program.calls[call].ops],
                unpickles=[op for call in own for op in of.program.calls[call].unpickles],
                pickles=[op for call in own for op in of.program.calls[call].pickles],
                receives=[op for call in own for op in of.program.calls[call].receives],
                to_client=calls[own[0]].to_client + sum(of.by_size[call] for call in own[1:]),
            )

    def new(ops: Sequence[Op], run: Run) -> list[Op]:
        kept = {own[0] for own in _by_server(of, run).values()}
        fixed = of.fixed_ns.get(rank_of(of.program, run.frame), 0.0)
        issues, waits = list[Op](), list[Op]()
        for unit in run.units:
            own, sends = ops[unit.first : unit.sends], ops[unit.sends : unit.sent]
            if unit.calls[0] in kept:
                issues += [*own, *sends]
                waits.append((AWAIT, unit.calls[0]))
            else:
                whole = max(total_ns(own), 1.0)
                stays = max(1.0 - fixed / whole, 0.0)
                issues += [(kind, ns * stays) for kind, ns in own]
        # What is not waited for any more must be merged first.
        return [*[op for op in issues if op[0] != ISSUE], *[op for op in issues if op[0] == ISSUE],
                *waits]  # fmt: skip

    return with_runs(replace(of.program, calls=calls), runs, new), of.machine


def _faster(of: Changing, change: Change) -> Changed:
    """Do the same in less time; `number` may be infinite."""
    if change.function == DRIVER:
        return _driver_faster(of, change)
    calls, is_other = list(of.program.calls), False
    for number, call in enumerate(calls):
        if change.is_about(call.function, of.made.site[number]) and call.function:
            if not call.is_seen or call.join >= 0:
                return None  # what of its time the function takes is not known
            calls[number] = replace(call, ops=scaled(call.ops, change.number))
            is_other |= calls[number].ops != call.ops
    return (replace(of.program, calls=calls), of.machine) if is_other else None


def _driver_faster(of: Changing, change: Change) -> Changed:
    roots = list(of.program.roots)
    for place, root in enumerate(roots):
        if root.is_driver:
            fixed = of.fixed_ns.get(root.rank, 0.0)
            roots[place] = replace(root, ops=_less_between(root.ops, fixed, change.number))
    return replace(of.program, roots=roots), of.machine


def _less_between(ops: Sequence[Op], fixed: float, times: float) -> list[Op]:
    """What a root does in less time between its calls, but for what any call takes of it."""
    kept, own = list[Op](), list[Op]()
    waited = False
    for at, (kind, value) in enumerate(ops):
        follows = ops[at + 1][0] if at + 1 < len(ops) else -1
        if kind < ISSUE and not (kind == COMPUTE_WITH_GIL and follows in (ISSUE, AWAIT)):
            own.append((kind, value))
            continue
        whole = total_ns(own)
        stays = min(fixed, whole) if waited else 0.0
        part = (stays + (whole - stays) / times) / max(whole, 1.0)
        kept += [*((each, ns * part) for each, ns in own), (kind, value)]
        own, waited = [], kind in (AWAIT, DRAIN)
    return kept + scaled(own, times)


def _no_lock(of: Changing, _: Change) -> Changed:
    """Locks, and turns with operators, are there no more; the work stays."""
    own = [_semaphores(call.ops) for call in of.program.calls]
    has_turns = set().union(*own)
    if not has_turns and not any(k == HOLD_LOCK for c in of.program.calls for k, _ in c.ops):
        return None

    def free(ops: Sequence[Op]) -> list[Op]:
        kept = [op for op in ops if op[0] not in (TAKE, GIVE) or op[1] not in has_turns]
        return [(SLEEP if kind == HOLD_LOCK else kind, value) for kind, value in kept]

    return each_frame(of.program, free), of.machine


def _semaphores(ops: Sequence[Op]) -> set[float]:
    """Those that one call takes and gives back itself, as it does a lock."""
    return {v for k, v in ops if k == TAKE} & {v for k, v in ops if k == GIVE}


def _no_gil(of: Changing, _: Change) -> Changed:
    """All that needs the GIL needs a CPU alone."""
    return each_frame(of.program, lambda ops: [
        (COMPUTE if kind == COMPUTE_WITH_GIL else kind, value) for kind, value in ops
    ]), of.machine  # fmt: skip


def _runs(of: Changing, change: Change) -> list[Run]:
    runs = runs_of(of.program, of.made)
    return [run for run in runs if change.is_about(run.function, run.site)]


def _can_join(of: Changing, number: int) -> bool:
    """Whether one call can do what this one and others do."""
    call = of.program.calls[number]
    is_plain = call.is_seen and call.callback < 0 and call.join < 0 and not call.then
    is_plain = is_plain and call.lasts <= 0 and of.made.kind[number] in ("rpc_sync", "rpc_async")
    return is_plain and of.bytes[number] < LARGE


def _by_server(of: Changing, run: Run) -> dict[int, list[int]]:
    found = defaultdict[int, list[int]](list)
    for call in run.calls:
        found[of.program.calls[call].server].append(call)
    return found


def _say_together(change: Change) -> str:
    number = f" {change.number:g}" if change.number else ""
    return f"issue the{number} calls of {change.function} together (rpc_async)"


def _say_one_call(change: Change) -> str:
    number = f" {change.number:g}" if change.number else ""
    return f"one call of {change.function} per server for all{number}"


def _say_batch(change: Change) -> str:
    number = f"{change.number:g} " if change.number else ""
    times = f", in {change.times:g} times the time of one" if change.times else ""
    return f"{number}calls of {change.function} served as one{times} (async_execution)"


def _say_bytes(change: Change) -> str:
    part = "half" if change.number == 2 else f"1/{change.number:g} of"
    return f"{part} the bytes of {change.function}"


def _say_faster(change: Change) -> str:
    times = "twice" if change.number == 2 else f"{change.number:g} times"
    what = "what the driver does itself," if change.function == DRIVER else change.function
    return f"{what} {times} as fast"


def _say_tensors(change: Change) -> str:
    each = "request" if change.site else "answer"
    number = f" {change.number:,.0f}" if change.number else ""
    return f"send the{number} tensors of each {each} of {change.function} as one (torch.stack)"


def _say_fetch_once(change: Change) -> str:
    return f"keep the value of to_here: it is fetched {change.number:g} times"


def _say_no_sleep(change: Change) -> str:
    part = f" ({change.number:.0f} % of time)" if change.number else ""
    return f"no sleep of the driver{part}"


KINDS: Mapping[ChangeKind, Kind] = {
    "together": Kind(_together, _say_together, "if they do not need each other's results"),
    "one-call": Kind(_one_call, _say_one_call, "if they do not need each other's results"),
    "ahead": Kind(
        ahead, lambda change: f"issue {change.function} before the work of the step before (ahead)",
        "if the arguments do not depend on that work",
    ),
    "tensors": Kind(tensors, _say_tensors, "if the tensors can be made as one"),
    "pickle-once": Kind(
        pickle_once,
        lambda change: f"pickle the argument of {change.function} once for its {change.number:g} "
        "receivers", "if it is the same object for all",
    ),
    "fetch-once": Kind(fetch_once, _say_fetch_once, "if the value does not change meanwhile"),
    "faster": Kind(_faster, _say_faster, ""),
    "bytes": Kind(smaller, _say_bytes, "if its requests and answers can be so much smaller"),
    "batch": Kind(batch, _say_batch, "if one call of it can do what several callers ask for"),
    "no-lock": Kind(
        _no_lock, lambda _: "calls that need not wait for a lock of their server",
        "if what the lock protects can do without it",
    ),
    "gil": Kind(
        _no_gil, lambda _: "an interpreter without a GIL", "beside the same interpreter with one"
    ),
    "callers": Kind(
        callers, lambda change: f"{change.number:g} times as many callers",
        "if each calls as those do that were traced",
    ),
    "servers": Kind(
        servers, lambda change: f"{change.number:g} servers in place of each",
        "if calls can go to any of them (no shared state)",
    ),
    "no-sleep": Kind(
        lambda *_: None, _say_no_sleep, "if the driver need not wait there"
    ),  # a change of the trace, before it is a program: `no_sleep`
}  # fmt: skip
"""All kinds of changes."""
