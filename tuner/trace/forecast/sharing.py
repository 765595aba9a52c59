"""Changes of who calls, of who serves, and of how many calls are served as one."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pandas as pd

from tuner.trace.analyze.time_spans import floats
from tuner.trace.forecast.change import Change, Changed, Changing, scaled
from tuner.trace.forecast.program import AWAIT, ISSUE, Batch, Call, Op, Program
from tuner.trace.forecast.replay import Machine


def callers(of: Changing, change: Change) -> Changed:
    """Each rank that only calls is there so often; what it calls does the same for each."""
    program, only_call, copies = of.program, callers_of(of.program), int(change.number) - 1
    if not only_call or copies < 1 or program.permits or program.joins:
        return None
    bigger, machine, added = _with_ranks(of, only_call * copies)
    calls, roots = list(program.calls), list(program.roots)
    for copy, rank in added.items():
        number_of: dict[int, int] = {}
        for root in program.roots:
            if root.rank == rank:
                ops = _copied(program, root.ops, rank, copy, calls, number_of)
                roots += [replace(root, rank=copy, is_driver=False, ops=ops)]
    return replace(bigger, calls=calls, roots=roots), machine


def callers_of(program: Program) -> list[int]:
    """The ranks that only call."""
    return sorted({root.rank for root in program.roots} - _servers(program))


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
    added = dict(enumerate(ranks, len(program.names)))
    return bigger, machine._replace(threads=threads, polling=polling), added


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
        if call.function and change.is_about(call.function, of.made.site[number]) and any(parts):
            there, back = (1 - part * (1 - 1 / change.number) for part in parts)
            calls[number] = replace(
                call, to_server=call.to_server * there, to_client=call.to_client * back,
                arrives=scaled(call.arrives, 1 / there), returns=scaled(call.returns, 1 / back),
                receives=scaled(call.receives, 1 / back),
            )  # fmt: skip
            is_other = True
    return (replace(of.program, calls=calls), of.machine) if is_other else None


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
