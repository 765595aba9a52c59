"""What a person could change in a program's code, each as a change of the program that is replayed.

A row of KINDS is all that there is to a change: what it does to a program, and what must hold for
it. What the trace cannot show to hold is no change.
"""

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal, NamedTuple

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
    Program,
)
from tuner.trace.forecast.replay import Machine
from tuner.trace.forecast.runs import Made, Run, by_frame, runs_of

ChangeKind = Literal["together", "one-call", "faster", "no-lock", "gil", "callers"]
DRIVER = "<driver>"
"""Stands for what the driver does itself, beside the functions that are served."""
LARGE = 1 << 16  # bytes of a request: from here on its way takes as long as its bytes do


@dataclass(frozen=True, kw_only=True)
class Change:
    """A change of a program."""

    kind: ChangeKind
    function: str = ""
    """Of the calls that it is about; DRIVER, or empty for all."""
    site: str = ""
    """The line that issues them; empty for all."""
    number: float = 2.0
    """How many times as fast, or as many callers; of how many calls, 0 where that varies."""

    def is_about(self, function: str, site: str) -> bool:
        """Whether calls of this function that this line issues change."""
        return self.function in ("", function) and self.site in ("", site)


class Changing(NamedTuple):
    """A program that is to change, and what else is known of it."""

    program: Program
    machine: Machine
    made: Made
    fixed_ns: Mapping[int, float]
    """By rank: what a call takes of its caller beside being issued, which looks like its own."""
    bytes: Sequence[float]  # of each call's request
    by_size: Sequence[float]  # how long each answer is on its way for its size
    polling: Mapping[int, float]  # by rank: CPUs that its other threads want throughout


Changed = tuple[Program, Machine] | None


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
    """Issue first, then wait."""
    runs = _runs(of, change)
    if not runs or of.program.permits:
        return None

    def new(ops: Sequence[Op], run: Run) -> list[Op]:
        sent = [op for unit in run.units for op in ops[unit.first : unit.sent]]
        waits = [op for unit in run.units for op in ops[unit.sent : unit.end]]
        drains = [place for place, (kind, _) in enumerate(waits) if kind == DRAIN]
        kept = set(drains[-1:])
        return sent + [op for at, op in enumerate(waits) if op[0] != DRAIN or at in kept]

    calls = list(of.program.calls)
    for make, fetch in (unit.calls for run in runs for unit in run.units if len(unit.calls) > 1):
        # It was under way while the value was made; now it goes there and back after that.
        calls[fetch] = replace(calls[fetch], to_server=_way_ns(calls[make]))
    return _with_runs(replace(of.program, calls=calls), runs, new), of.machine


def _way_ns(call: Call) -> float:
    costs = sum(ns for _, ns in (*call.arrives, *call.returns))
    return call.to_server + call.to_client + costs


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
                ops=[op for each in own for op in of.program.calls[each].ops],
                receives=[op for each in own for op in of.program.calls[each].receives],
                to_client=calls[own[0]].to_client + sum(of.by_size[each] for each in own[1:]),
            )

    def new(ops: Sequence[Op], run: Run) -> list[Op]:
        kept = {own[0] for own in _by_server(of, run).values()}
        fixed = of.fixed_ns.get(_rank(of.program, run.frame), 0.0)
        issues, waits = list[Op](), list[Op]()
        for unit in run.units:
            own, sends = ops[unit.first : unit.sends], ops[unit.sends : unit.sent]
            if unit.calls[0] in kept:
                issues += [*own, *sends]
                waits.append((AWAIT, unit.calls[0]))
            else:
                whole = max(sum(ns for _, ns in own), 1.0)
                stays = max(1.0 - fixed / whole, 0.0)
                issues += [(kind, ns * stays) for kind, ns in own]
        # What is not waited for any more must be merged first.
        return [*[op for op in issues if op[0] != ISSUE], *[op for op in issues if op[0] == ISSUE],
                *waits]  # fmt: skip

    return _with_runs(replace(of.program, calls=calls), runs, new), of.machine


def _faster(of: Changing, change: Change) -> Changed:
    """Do the same in less time; `number` may be infinite."""
    if change.function == DRIVER:
        return _driver_faster(of, change)
    calls, is_other = list(of.program.calls), False
    for number, call in enumerate(calls):
        if change.is_about(call.function, of.made.site[number]) and call.function:
            if not call.is_seen or call.join >= 0:
                return None  # what of its time the function takes is not known
            calls[number] = replace(call, ops=_scaled(call.ops, change.number))
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
        whole = sum(ns for _, ns in own)
        stays = min(fixed, whole) if waited else 0.0
        part = (stays + (whole - stays) / times) / max(whole, 1.0)
        kept += [*((each, ns * part) for each, ns in own), (kind, value)]
        own, waited = [], kind in (AWAIT, DRAIN)
    return kept + _scaled(own, times)


def _no_lock(of: Changing, _: Change) -> Changed:
    """Locks, and turns with operators, are there no more; the work stays."""
    own = [_semaphores(call.ops) for call in of.program.calls]
    has_turns = set().union(*own)
    if not has_turns and not any(k == HOLD_LOCK for c in of.program.calls for k, _ in c.ops):
        return None

    def free(ops: Sequence[Op]) -> list[Op]:
        kept = [op for op in ops if op[0] not in (TAKE, GIVE) or op[1] not in has_turns]
        return [(SLEEP if kind == HOLD_LOCK else kind, value) for kind, value in kept]

    return _each(of.program, free), of.machine


def _semaphores(ops: Sequence[Op]) -> set[float]:
    """Those that one call takes and gives back itself, as it does a lock."""
    return {v for k, v in ops if k == TAKE} & {v for k, v in ops if k == GIVE}


def _no_gil(of: Changing, _: Change) -> Changed:
    """All that needs the GIL needs a CPU alone."""
    return _each(of.program, lambda ops: [
        (COMPUTE if kind == COMPUTE_WITH_GIL else kind, value) for kind, value in ops
    ]), of.machine  # fmt: skip


def _callers(of: Changing, change: Change) -> Changed:
    """Each rank that only calls is there so often; what it calls does the same for each."""
    program, machine, copies = of.program, of.machine, int(change.number) - 1
    servers = {call.server for call in program.calls if not call.is_callback}
    only_call = sorted({root.rank for root in program.roots} - servers)
    if not only_call or copies < 1 or program.permits or program.joins:
        return None
    calls, roots = list(program.calls), list(program.roots)
    names, hosts = list(program.names), list(program.hosts)
    threads, polling = list(machine.threads), list(machine.polling)
    for rank in only_call * copies:
        own = [root for root in program.roots if root.rank == rank]
        number_of: dict[int, int] = {}
        for root in own:
            ops = _copied(program, root.ops, rank, len(names), calls, number_of)
            roots += [replace(root, rank=len(names), is_driver=False, ops=ops)]
        names.append(program.names[rank])
        hosts.append(program.hosts[rank])
        threads.append(machine.threads[rank])
        polling[program.hosts[rank]] += of.polling.get(rank, 0.0)
    bigger = replace(program, names=names, hosts=hosts, calls=calls, roots=roots)
    return bigger, machine._replace(threads=threads, polling=polling)


def _copied(
    program: Program, ops: Sequence[Op], rank: int, copy: int, calls: list[Call],
    number_of: dict[int, int],
) -> list[Op]:  # fmt: skip
    """What a frame does with calls of its own, which are added to `calls`."""
    found = list[Op]()
    for kind, value in ops:
        if kind in (ISSUE, AWAIT):
            number = int(value)
            if number not in number_of:
                number_of[number] = len(calls)
                call = program.calls[number]
                calls.append(call)
                client = copy if call.client == rank else call.client
                follows = [(ISSUE, call.callback)] if call.callback >= 0 else []
                own, then, callback = (
                    _copied(program, each, rank, copy, calls, number_of)
                    for each in (call.ops, call.then, follows)
                )
                server = copy if call.server == rank else call.server
                calls[number_of[number]] = replace(
                    call, client=client, server=server, ops=own, then=then,
                    callback=int(callback[0][1]) if callback else -1,
                )  # fmt: skip
            value = number_of[number]
        found.append((kind, value))
    return found


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


def _rank(program: Program, frame: int) -> int:
    return program.calls[frame].server if frame >= 0 else program.roots[-1 - frame].rank


def _with_runs(
    program: Program, runs: Sequence[Run], new: Callable[[Sequence[Op], Run], list[Op]]
) -> Program:
    """The program with other ops in place of these runs."""
    calls, roots = list(program.calls), list(program.roots)
    for frame, own in by_frame(runs).items():
        ops = calls[frame].ops if frame >= 0 else roots[-1 - frame].ops
        kept, at = list[Op](), 0
        for run in own:
            kept += [*ops[at : run.units[0].first], *new(ops, run)]
            at = run.units[-1].end
        kept += ops[at:]
        if frame >= 0:
            calls[frame] = replace(calls[frame], ops=kept)
        else:
            roots[-1 - frame] = replace(roots[-1 - frame], ops=kept)
    return replace(program, calls=calls, roots=roots)


def _each(program: Program, new: Callable[[Sequence[Op]], list[Op]]) -> Program:
    """The program with other ops everywhere."""
    return replace(
        program,
        calls=[
            replace(
                each,
                ops=new(each.ops),
                then=new(each.then),
                receives=new(each.receives),
                arrives=new(each.arrives),
                returns=new(each.returns),
            )
            for each in program.calls
        ],
        roots=[replace(each, ops=new(each.ops)) for each in program.roots],
    )


def _scaled(ops: Sequence[Op], times: float) -> list[Op]:
    return [(kind, value / times if kind < ISSUE else value) for kind, value in ops]


def _say_together(change: Change) -> str:
    number = f" {change.number:g}" if change.number else ""
    return f"issue the{number} calls of {change.function} together (rpc_async)"


def _say_one_call(change: Change) -> str:
    number = f" {change.number:g}" if change.number else ""
    return f"one call of {change.function} per server for all{number}"


def _say_faster(change: Change) -> str:
    times = "twice" if change.number == 2 else f"{change.number:g} times"
    what = "what the driver does itself," if change.function == DRIVER else change.function
    return f"{what} {times} as fast"


KINDS: Mapping[ChangeKind, Kind] = {
    "together": Kind(_together, _say_together, "if they do not need each other's results"),
    "one-call": Kind(_one_call, _say_one_call, "if they do not need each other's results"),
    "faster": Kind(_faster, _say_faster, ""),
    "no-lock": Kind(
        _no_lock, lambda _: "calls that need not wait for a lock of their server",
        "if what the lock protects can do without it",
    ),
    "gil": Kind(
        _no_gil, lambda _: "an interpreter without a GIL", "beside the same interpreter with one"
    ),
    "callers": Kind(
        _callers, lambda change: f"{change.number:g} times as many callers",
        "if each calls as those do that were traced",
    ),
}  # fmt: skip
"""All kinds of changes."""
