"""Planted traces with a known limit of the driver, and with none."""

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from itertools import pairwise
from typing import Any

import numpy as np
import pandas as pd

from testing.synthetic import Part, call, ranks, simulate, trace
from tests.trace.analyze import planted
from tests.trace.analyze.planted import COMPUTE, SLEEP, Rows, repeated, serves, step
from tuner.trace.model.spans import TraceRank
from tuner.trace.model.trace import Trace

ASLEEP: dict[str, Any] = {"cpu_ms": 0, "run_queue_ms": 0}


def with_calls(taken: Trace, *more: dict[str, Any]) -> Trace:
    """The trace with these calls added."""
    calls = pd.concat([taken.calls, trace(more).calls], ignore_index=True)
    return replace(taken, calls=calls)


def a_queue_of_others() -> Trace:
    """Calls of worker2 wait for a thread; those of the driver do not, and wait all the same."""

    def mine(at: float, number: int) -> Rows:
        crowd = [
            (0, i // 2, (i // 2 - 1, i // 2),
             {"client_rank": 2, "thread": 11 + i % 2, "function": "crowd", **ASLEEP})
            for i in range(2, 12)
        ]  # fmt: skip
        own = (5, 10, (9 if number else 5.1, 10), {"thread": 12, **ASLEEP})
        return step(own, (5, 10, (5, 10), {"client_rank": 2, **ASLEEP}), *crowd)(at, number)

    return repeated(mine, steps=20, processes=ranks(3, threads=2))


def of_durations(*, steps: int | None) -> Trace:
    """Steps of one call each that is served for 3 ms, a few of them long; the rest is its way."""
    durations_ms = [4, 4, 40, 4.5, 5] * 4
    starts = np.cumsum([0.0, *durations_ms])
    calls = [
        call(i, at, at + lasts, served_ms=(at, at + 3), cpu_ms=3, run_queue_ms=0)
        for i, (at, lasts) in enumerate(zip(starts, durations_ms, strict=False))
    ]
    return trace(calls, processes=ranks(), window_ms=(0, float(starts[-1])), steps=steps)


def idle_before(*, steps: int | None) -> Trace:
    """Calls for 200 ms, after a time without any."""
    short = step((0, 9, (1, 8), {}))
    return replace(repeated(short, steps=20, window_ms=(-1800, 200)), steps=steps)


def three_in_turn() -> Trace:
    """Three ranks call worker0 for 200 ms each, one after another; the last one is the slowest."""
    calls = [
        call(20 * rank + i, at, at + lasts, served_ms=(at, at + lasts), client_rank=rank,
             server_rank=0)
        for rank, lasts in ((1, 8), (2, 8), (3, 10))
        for i in range(20)
        for at in [500 * rank + 10 * i]
    ]  # fmt: skip
    return trace(calls, processes=ranks(4), window_ms=(0, 2000))


LOST = (
    "worker2 ended suddenly, by a signal or os._exit: the trace has the calls",
    "worker1 and worker2 were still serving 2 calls when the trace ended",
    "worker2 answered 10 calls from worker0 without a server's span",
    "worker21 recorded nothing: 3 calls to it have no server's side",
    "the kernel under worker2 does not tell how long threads wait",
)


def with_losses() -> Trace:
    """Two calls in turn, of which only the first one's server kept what it recorded."""
    lost = (4, 10, None, {"server_rank": 2, "function": "look_up"})
    return repeated(step((0, 4, (0.5, 3.5), ASLEEP), lost), losses=LOST)


def served_once(body: str, **facts: Any) -> Trace:
    """Ten calls that are seen, and forty of which the trace has the client's side."""
    columns: dict[str, Any] = {"body": body}
    if body == "fetch":
        columns |= {"kind": "to_here", "function": ""}
    unseen = [(2 * i, 2 * i + 2, None, columns) for i in range(1, 5)]
    return repeated(step((0, 1, (0, 1), {}), *unseen), **facts)


def seen_in_part(*lost: dict[str, Any]) -> Trace:
    taken = repeated(step((0, 10, (0, 9), {})))
    return with_calls(taken, *lost) if lost else taken


def of_two_servers(*names: str) -> Trace:
    """The agent waits for the two others in turn."""
    processes = tuple(TraceRank(rank=i, name=name) for i, name in enumerate(("agent", *names)))

    def acts(at: float, number: int) -> Rows:
        env = 1 + number // 100 % 2
        columns = {"client": "agent", "server": processes[env].name, "server_rank": env}
        return step((0, 10, (1, 9), {"function": "act", **columns}))(at, number)

    return repeated(acts, steps=100, processes=processes)


def in_two_phases() -> Trace:
    """Sixty calls of one function, and then sixty of another one."""
    taken = simulate([Part("sleep", 10)], threads=2, at_once=60, steps=2)
    function = pd.Series(np.where(taken.calls["call_id"] < 60, "look_up", "score"))
    return replace(taken, calls=taken.calls.assign(function=function.astype("category")))


def pickles(size: int | None) -> Trace:
    """A caller sends a large object to three others, and pickles it for each of them."""
    columns = {"function": "set_up", "request_bytes": size}
    calls = [
        (3 * i, 9.9, (9.7, 9.8), {"issued_ms": 3 * i + 2.8, "server_rank": 1 + i, **columns})
        for i in range(3)
    ]
    return repeated(step(*calls), steps=12)


def one_is_long(calls: int) -> Trace:
    """One of the calls takes as long as all the others together, and does something else."""
    starts = np.cumsum([0, *(calls - 1 if i == 3 else 1 for i in range(calls))])
    rows = [
        call(i, at, until, served_ms=(at, until if i == 3 else at), **ASLEEP)
        for i, (at, until) in enumerate(pairwise(starts.tolist()))
    ]
    return trace(rows, processes=ranks())


def a_caller(cpu_s: float | None, run_queue_s: float | None, **columns: Any) -> Trace:
    """A caller that waits for no call for 90 % of a tenth of a second."""
    times: dict[str, Any] = {"main_cpu_s": cpu_s, "main_run_queue_s": run_queue_s}
    driver = TraceRank(rank=0, name="worker0", pid=1, **times)
    return repeated(step((0, 1, (0, 1), {})), processes=(driver, *ranks()[1:]), **columns)


def raises(call_id: int, error: str, **columns: Any) -> dict[str, Any]:
    return call(call_id, 0, 9, status="raised", error=error, **columns)


DRIVERS: dict[str, Callable[[], Trace]] = {
    # Too little to judge by.
    "no calls": trace,
    "9 calls": serves(SLEEP, 1, 3, steps=3),
    "10 calls": serves(SLEEP, 1, 5, steps=2),
    "3 calls whose clients gave up": lambda: trace(
        [call(i, i, i + 1, served_ms=(i, i), status="timed-out") for i in range(3)]
    ),
    "a server of which too little is known": lambda: with_calls(
        simulate(SLEEP, threads=1, at_once=4),
        *(call(1000 + i, i, i + 0.1, client_rank=2) for i in range(11)),
    ),
    "fetches are nothing to know": lambda: with_calls(
        simulate(SLEEP, threads=1, at_once=4),
        *(call(1000 + i, i, i + 0.1, kind="to_here", body="fetch") for i in range(11)),
    ),
    "one long call of 12": partial(one_is_long, 12),
    "one long call of 30": partial(one_is_long, 30),
    "scripts only": lambda: trace([call(i, i, i + 1, body="script") for i in range(50)]),
    "5 of 55 calls are shown": lambda: trace(
        [call(100 + i, i, i + 1, served_ms=(i, i + 1)) for i in range(5)]
        + [call(i, i, i + 1) for i in range(50)]
    ),
    "a server whose records are lost is no limit": with_losses,
    "unseen builtins": partial(served_once, "builtin"),
    "unseen scripts": partial(served_once, "script"),
    "unseen scripts with operators": partial(served_once, "script", operators_recorded=True),
    "unseen fetches": partial(served_once, "fetch"),
    # Limits alone, together, and none.
    "the caller": serves(COMPUTE, 4, 1, think_ms=30, steps=20),
    "the wire": serves([Part("cpu", 0.1)], 4, 1, way_ms=2, steps=20),
    "computing": serves(COMPUTE, 4, 4),
    "caller and computing": serves(COMPUTE, 4, 1, think_ms=5, steps=20),
    "wire and sleep": serves(SLEEP, 4, 1, way_ms=2.5, steps=20),
    "queue and sleep": serves(SLEEP, 1, 2, steps=20),
    "computing and run queue": partial(planted.waits_for_a_cpu, 0.5),
    "four quarters": partial(repeated, planted.of_four_quarters),
    "processes named alike are one limit": partial(of_two_servers, "env1", "env2"),
    "processes of a role are one limit": partial(of_two_servers, "east", "west"),
    "two functions of two servers are two": partial(repeated, planted.two_functions, steps=20),
    "all functions of a server wait for its threads": in_two_phases,
    "a server that merely waits is no limit": partial(repeated, planted.a_chain_of_three),
    "pickling 27 MB": partial(pickles, 27_000_000),
    "pickling 300 bytes": partial(pickles, 300),
    "pickling": partial(pickles, None),
    # Steps, and the time without calls.
    "disturbed steps of a workload": partial(of_durations, steps=20),
    "steps of a program are not disturbed": partial(of_durations, steps=None),
    "a program with few calls": partial(idle_before, steps=None),
    "a workload with few calls": partial(idle_before, steps=20),
    "calls of others beside the driver's": three_in_turn,
    # Spare threads.
    "spare threads of a server seen throughout": seen_in_part,
    "spare threads of a server seen in part": partial(seen_in_part, call(9, 0, 1, client_rank=2)),
    "a queue that is not the driver's": a_queue_of_others,
    # The caller.
    "a caller that computes": partial(a_caller, 0.08, 0.001),
    "a caller that waits for a CPU": partial(a_caller, 0.01, 0.06),
    "a caller that sleeps": partial(a_caller, 0.005, 0.0),
    "a caller whose run queue is unknown": partial(a_caller, 0.08, None),
    "a caller that computed before": lambda: replace(
        a_caller(1.5, 0.0, window_ms=(-1500, 100)), steps=None
    ),
    "a caller in operators": partial(a_caller, 0.08, 0.0, operators=planted.in_operators),
    "a caller in operators, maybe": partial(a_caller, None, 0.0, operators=planted.in_operators),
    # Failures, and time limits.
    "half of the calls raise": lambda: trace(
        [call(i, 0, 9, function="store", timeout_s=5.0) for i in range(50)]
        + [raises(50 + i, f"KeyError('{i}')", function="store", timeout_s=5.0) for i in range(50)]
    ),
    "a call that raises beside a limit": lambda: with_calls(
        simulate(SLEEP, threads=1, at_once=4), raises(999, "KeyError(1)")
    ),
}
"""What limits a driver, but for the rules on servers and the knobs that help."""
