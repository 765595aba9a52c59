"""Changes of who calls, and of who serves."""

from collections.abc import Sequence
from dataclasses import replace

from tuner.trace.forecast.change import Change, Changed, Changing
from tuner.trace.forecast.program import AWAIT, ISSUE, Call, Op, Program


def callers(of: Changing, change: Change) -> Changed:
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
