"""Changes of who calls, of who serves, and of how many calls are served as one."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pandas as pd

from tuner.trace.analyze.time_spans import floats
from tuner.trace.forecast.change import Change, Changed, Changing, scaled
from tuner.trace.forecast.program import (
    AWAIT,
    COMPUTE_WITH_GIL,
    DRAIN,
    ISSUE,
    Batch,
    Op,
    Program,
)
from tuner.trace.forecast.replay import Machine

END: Op = (-1, 0.0)  # of what a frame does
MANY = 2  # calls that one rank makes for each that it serves: then it is there to call


def callers(of: Changing, change: Change) -> Changed:
    """So many times the ranks of `callers_of`; who calls them does the same for each."""
    program, group = of.program, callers_of(of.program)
    number = round(len(group) * change.number)
    if not group or not number or number == len(group) or program.permits:
        return None
    if any(call.then or call.lasts > 0 for call in program.calls if call.server in group):
        return None  # whether their own threads need CPUs meanwhile is not known
    if any(_keeps_some_under_way(program, root.ops, group) for root in program.roots):
        return None  # of how many it would keep then is not known
    if number < len(group):
        return _without(of, set(group[number:]))
    copied = [group[place % len(group)] for place in range(number - len(group))]
    bigger, machine, added = _with_ranks(of, copied)
    new = _Copies(program)
    roots = [replace(each, ops=new.beside(each.ops, added)) if each.rank not in group else each
             for each in program.roots]  # fmt: skip
    for copy, rank in added.items():
        for root in program.roots:
            if root.rank == rank:
                ops = new.of(root.ops, rank, copy)
                roots += [replace(root, rank=copy, is_driver=False, ops=ops)]
    return replace(bigger, calls=new.calls, roots=roots, joins=new.joins), machine


def callers_of(program: Program) -> list[int]:
    """The ranks that only call, the driver's first. If there is none but the driver's, those of
    which one that calls them has each serve a call in which it makes others, if there are any."""
    drivers = {root.rank for root in program.roots if root.is_driver}
    only_call = {root.rank for root in program.roots} - _servers(program)
    found = [] if only_call - drivers else _calling_servers(program, drivers)
    return found or sorted(only_call, key=lambda rank: (rank not in drivers, rank))


def _calling_servers(program: Program, drivers: set[int]) -> list[int]:
    pairs = [(call.client, call.server) for call in program.calls if call.client != call.server]
    made, served = (Counter(pair[end] for pair in pairs) for end in (0, 1))
    called = sorted({*served} - drivers)
    found = [rank for rank in called if made[rank] >= served[rank]]
    if len(found) == 1 and made[found[0]] < MANY * served[found[0]]:
        return []  # it passes calls on
    is_between = any({*pair} <= {*found} for pair in pairs)
    return [] if is_between else found


def _keeps_some_under_way(program: Program, ops: Sequence[Op], servers: Sequence[int]) -> bool:
    calls = (program.calls[int(value)] for kind, value in ops if kind == ISSUE)
    is_open = any(kind == DRAIN and value > 0 for kind, value in ops)
    return is_open and any(call.server in servers for call in calls)


def _without(of: Changing, ranks: set[int]) -> Changed:
    """The program without these ranks, and without all calls that are made for them."""
    program, polling, joins = of.program, list(of.machine.polling), list(of.program.joins)
    for rank in ranks:
        polling[program.hosts[rank]] -= of.polling.get(rank, 0.0)
    for call in program.calls:
        if call.join >= 0:
            joins[call.join] -= call.client in ranks

    def is_gone(op: Op) -> bool:
        return op[0] in (ISSUE, AWAIT) and program.calls[int(op[1])].server in ranks

    def left(ops: Sequence[Op]) -> list[Op]:
        # With what issuing such a call takes.
        return [
            op for op, following in pairwise((*ops, END)) if not is_gone(op)
            and not (op[0] == COMPUTE_WITH_GIL and following[0] == ISSUE and is_gone(following))
        ]  # fmt: skip

    calls = [replace(call, ops=left(call.ops), then=left(call.then)) for call in program.calls]
    roots = [replace(root, ops=left(root.ops)) for root in program.roots if root.rank not in ranks]
    machine = of.machine._replace(polling=polling)
    return replace(program, calls=calls, roots=roots, joins=joins), machine


def _servers(program: Program) -> set[int]:
    return {call.server for call in program.calls if not call.is_callback}


def _with_ranks(of: Changing, ranks: Sequence[int]) -> tuple[Program, Machine, dict[int, int]]:
    """The program with another rank like each of these, on its host, and of which each is one."""
    program, machine = of.program, of.machine
    polling = list(machine.polling)
    for rank in ranks:
        polling[program.hosts[rank]] += of.polling.get(rank, 0.0)
    bigger = replace(
        program,
        names=[*program.names, *(program.names[rank] for rank in ranks)],
        hosts=[*program.hosts, *(program.hosts[rank] for rank in ranks)],
    )
    threads = [*machine.threads, *(machine.threads[rank] for rank in ranks)]
    switch_ns = machine.switch_ns and [*machine.switch_ns, *(machine.switch_ns[r] for r in ranks)]
    machine = machine._replace(threads=threads, polling=polling, switch_ns=switch_ns)
    return bigger, machine, dict(enumerate(ranks, len(program.names)))


def servers(of: Changing, change: Change) -> Changed:
    """Each rank that only serves is there so often. A caller deals its calls to them in turn, or,
    where it fetches values that they keep, has one of them for itself."""
    program = of.program
    only_serve = sorted(_servers(program) - {root.rank for root in program.roots})
    calls = [call for call in program.calls if call.server in only_serve and call.function]
    if not calls or program.permits or program.joins or not all(each.is_seen for each in calls):
        return None
    copies = int(change.number)
    bigger, machine, added = _with_ranks(of, only_serve * (copies - 1))
    like = {rank: [rank, *(copy for copy, of_ in added.items() if of_ == rank)]
            for rank in only_serve}  # fmt: skip
    keeps = {call.server for call in program.calls if not call.function}
    calls, dealt, order = list(program.calls), Counter[tuple[int, int]](), dict[int, int]()
    todo = [(root.ops, root.rank, root.rank) for root in program.roots]
    for ops, rank, now in todo:  # what a frame of this rank does, which is now on that one
        for number in (int(value) for kind, value in ops if kind == ISSUE):
            call = calls[number]
            server = now if call.server == rank else call.server
            if call.server in like and call.server != rank:
                # Each caller begins with another one.
                turn = order.setdefault(now, len(order)) + dealt[now, call.server]
                server = like[call.server][turn % copies]
                dealt[now, call.server] += call.server not in keeps
            calls[number] = replace(call, client=now, server=server)
            todo += [(each, call.server, server) for each in (call.ops, call.then)]
            if call.callback >= 0:
                todo.append(([(ISSUE, call.callback)], rank, now))
    is_other = any(new.server != old.server for new, old in zip(calls, program.calls, strict=True))
    return (replace(bigger, calls=calls), machine) if is_other else None


def batch(of: Changing, change: Change) -> Changed:
    """So many calls are served as one, which takes so many times as long as one of them."""
    calls, batches = list(of.program.calls), list(of.program.batches)
    place_of: dict[tuple[str, int], int] = {}
    for number, call in enumerate(calls):
        if call.function and call.function == change.function and not call.is_callback:
            is_plain = call.is_seen and call.join < 0 and call.lasts <= 0 and not call.then
            if not is_plain or any(kind >= ISSUE for kind, _ in call.ops) or call.batch >= 0:
                return None  # what of it would be done once is not known
            place = place_of.setdefault((call.function, call.server), len(batches))
            if place == len(batches):
                batches.append(Batch(int(change.number), change.times))
            calls[number] = replace(call, batch=place)
    return (replace(of.program, calls=calls, batches=batches), of.machine) if place_of else None


def callers_at_once(calls: pd.DataFrame) -> dict[str, int]:
    """By function: how many processes usually wait for the same server when one calls it."""
    found = dict[str, int]()
    calls = calls.assign(function=calls["function"].astype(str))
    for function, own in calls.groupby("function"):
        numbers = list[int]()
        for _, of_server in own.groupby("server_rank"):
            at = floats(of_server, "start_ns")
            number = np.zeros(len(at), int)
            for _, mine in of_server.groupby("client_rank"):
                begun, ended = (np.sort(floats(mine, name)) for name in ("start_ns", "end_ns"))
                open_ = np.searchsorted(begun, at, "right") - np.searchsorted(ended, at, "right")
                number += open_ > 0
            numbers += number.tolist()
        found[str(function)] = int(np.median(numbers))
    return found


def smaller(of: Changing, change: Change) -> Changed:
    """What a call's way takes for its size, in so many times less."""
    calls, is_other = list(of.program.calls), False
    for number, parts in enumerate(zip(*of.size_parts, strict=True)):
        call = calls[number]
        is_about = change.is_about(call.function, of.made.site[number])
        # Many tensors take their time by their number.
        if call.function and is_about and any(parts) and not of.messages[number].has_many:
            there, back = (1 - part * (1 - 1 / change.number) for part in parts)
            calls[number] = replace(
                call, to_server=call.to_server * there, to_client=call.to_client * back,
                arrives=scaled(call.arrives, 1 / there), returns=scaled(call.returns, 1 / back),
                receives=scaled(call.receives, 1 / back),
            )  # fmt: skip
            is_other = True
    return (replace(of.program, calls=calls), of.machine) if is_other else None


class _Copies:
    """Copies of calls that other ranks make or serve, behind those of the program."""

    def __init__(self, program: Program) -> None:
        self.calls, self.joins = list(program.calls), list(program.joins)
        self._program = program
        self._number_of: dict[tuple[int, int], int] = {}
        """Of a call's copy, by the call and the rank that the copy is for."""

    def of(self, ops: Sequence[Op], rank: int, copy: int) -> list[Op]:
        """What a frame does with calls of its own, where this rank is that one."""
        return [
            (kind, self._call(int(value), rank, copy) if kind in (ISSUE, AWAIT) else value)
            for kind, value in ops
        ]

    def beside(self, ops: Sequence[Op], added: Mapping[int, int]) -> list[Op]:
        """What a frame does that calls each rank `added` as it calls the one that this is like."""
        found = list[Op]()
        for before, op in pairwise((END, *ops)):
            found.append(op)
            if op[0] in (ISSUE, AWAIT):
                server = self._program.calls[int(op[1])].server
                issues = [before] if (before[0], op[0]) == (COMPUTE_WITH_GIL, ISSUE) else []
                for copy, rank in added.items():
                    if rank == server:
                        found += [*issues, *self.of([op], rank, copy)]
        return found

    def _call(self, number: int, rank: int, copy: int) -> int:
        if (number, copy) in self._number_of:
            return self._number_of[number, copy]
        self._number_of[number, copy] = new = len(self.calls)
        call = self._program.calls[number]
        self.calls.append(call)
        if call.join >= 0:
            self.joins[call.join] += 1
        client, server = (copy if end == rank else end for end in (call.client, call.server))
        callback = self._call(call.callback, rank, copy) if call.callback >= 0 else -1
        own, then = (self.of(ops, rank, copy) for ops in (call.ops, call.then))
        self.calls[new] = replace(
            call, client=client, server=server, ops=own, then=then, callback=callback
        )
        return new
