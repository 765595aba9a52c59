"""Small traces with a known limit: rows written by hand, or events of a simulated server."""

import heapq
from collections import deque
from collections.abc import Callable, Generator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import count
from typing import Any, Literal

from tuner.trace.model.spans import TraceRank
from tuner.trace.model.trace import Trace, make_calls, make_operators

ISSUE_MS = 0.001  # how long a simulated caller takes to issue a call


def ns(ms: float) -> int:
    return round(ms * 1_000_000)


def call(
    call_id: int, start_ms: float, end_ms: float | None, *,
    served_ms: tuple[float, float | None] | None = None, thread: int | None = 11,
    cpu_ms: float | None = None, run_queue_ms: float | None = None, **columns: Any,
) -> dict[str, Any]:  # fmt: skip
    """A row of the calls frame: a call from worker0 to worker1, unless columns say otherwise."""
    function = columns.get("function", "udf")
    kind = columns.get("kind", "rpc_async")
    client, server = columns.get("client_rank", 0), columns.get("server_rank", 1)
    began, left = served_ms or (None, None)
    times = {
        "start_ns": start_ms, "issued_ns": start_ms, "end_ns": end_ms, "server_start_ns": began,
        "server_end_ns": left, "done_ns": None, "cpu_ns": cpu_ms, "run_queue_ns": run_queue_ms,
    }  # fmt: skip
    row = {
        "call_id": call_id, "name": f"{kind}#{function}(worker{client} -> worker{server})",
        "kind": kind, "body": "python", "function": function,
        "client": f"worker{client}", "server": f"worker{server}",
        "client_rank": client, "server_rank": server, "client_thread": 1,
        "status": "unfinished" if end_ms is None else "ok", "error": "", "parent_call": None,
        "link": "" if served_ms is None else "exact",
        "server_thread": None if served_ms is None else thread,
        **{name: None if ms is None else ns(ms) for name, ms in times.items()},
    }  # fmt: skip
    return row | columns


def operator(
    name: str, start_ms: float, end_ms: float, *, of: dict[str, Any] | None = None,
    rank: int = 1, thread: int = 11,
) -> dict[str, Any]:  # fmt: skip
    """A row of the operators frame; `of` is the row of the call that ran it."""
    return {
        "rank": rank, "thread": thread, "name": name,
        "start_ns": ns(start_ms), "end_ns": ns(end_ms),
        "call_id": of["call_id"] if of else None, "call_name": of["name"] if of else "",
        "link": "exact" if of else "",
    }  # fmt: skip


def ranks(size: int = 2, *, threads: int | None = 4, **facts: Any) -> tuple[TraceRank, ...]:
    """Alike processes of one machine: worker0, worker1 and so on."""
    facts["num_worker_threads"] = threads
    return tuple(TraceRank(rank=rank, name=f"worker{rank}", **facts) for rank in range(size))


def trace(
    calls: Sequence[dict[str, Any]] = (), operators: Sequence[dict[str, Any]] = (), *,
    processes: tuple[TraceRank, ...] | None = None, window_ms: tuple[float, float] = (0, 0),
    **facts: Any,
) -> Trace:  # fmt: skip
    """A trace of these rows; without operators, it is one that did not record them."""
    facts.setdefault("operators_recorded", bool(operators))
    return Trace(
        calls=make_calls(_columns(calls)),
        operators=make_operators(_columns(operators)),
        ranks=ranks() if processes is None else processes,
        source="rpc-tuner", window_ns=(ns(window_ms[0]), ns(window_ms[1])),
        **{"base_time_ns": 0, **facts},
    )  # fmt: skip


def _columns(rows: Sequence[dict[str, Any]]) -> dict[str, object]:
    return {name: [row[name] for row in rows] for name in rows[0]} if rows else {}


@dataclass(frozen=True)
class Part:
    """One thing that a served function does, for so many milliseconds."""

    kind: Literal["cpu", "gil", "operator", "lock", "sleep", "call"]
    """`cpu` and `gil`: on the CPU without or with the GIL; `operator`: in an operator, which
    releases it; `lock` and `sleep`: asleep with or without a lock that all calls share; `call`:
    waiting for a call of its own."""
    ms: float


def simulate(
    service: Sequence[Part] | Callable[[int], Sequence[Part]], *, threads: int, at_once: int,
    steps: int = 10, callers: int = 1, think_ms: float = 0.0, way_ms: float = 0.1, cpus: int = 64,
    gil_throughout: bool = False, **facts: Any,
) -> Trace:  # fmt: skip
    """A trace of worker1, with so many threads and CPUs; times are exact.

    Each caller does its steps one after another: it issues `at_once` calls, waits for their
    answers, and works for `think_ms`. `service` is what a call does, or a function of the call's
    id that returns it. With `gil_throughout` a call's thread holds the GIL from start to end.
    """
    server = _Server(threads, cpus, way_ms, gil_throughout)
    parts_of = service if callable(service) else lambda _: service
    for caller in range(callers):
        first = caller * steps * at_once
        # No two callers of a real machine begin at the same nanosecond.
        server.start(server.drive(parts_of, first, steps, at_once, think_ms, caller * ISSUE_MS))
    server.run()
    processes = ranks(threads=threads, cpu_count=cpus)
    facts.setdefault("window_ms", (0, server.now_ms))
    return trace(server.calls, server.operators, **({"processes": processes} | facts))


class _Resource:
    """Items that processes wait for, in order."""

    def __init__(self, items: Sequence[int] = ()) -> None:
        self.free = deque(items)
        self.waiting: deque[_Process] = deque()


_Process = Generator[_Resource | float, Any, None]
"""Yields a resource, and is sent an item of it; or yields milliseconds, and goes on after them."""


class _Server:
    """A simulated server and its callers."""

    def __init__(self, threads: int, cpus: int, way_ms: float, gil_throughout: bool) -> None:
        self.threads = _Resource(range(11, 11 + threads))
        self.cpus = _Resource(range(cpus))
        self.gil, self.lock = _Resource([0]), _Resource([0])
        self.way_ms = way_ms
        self.gil_throughout = gil_throughout
        self.now_ms = 0.0
        self.calls: list[dict[str, Any]] = []
        self.operators: list[dict[str, Any]] = []
        self._agenda: list[tuple[float, int, _Process, int | None]] = []
        self._order = count()

    def start(self, process: _Process, item: int | None = None) -> None:
        """Start a process now, or continue it with the item that it waited for."""
        self._later(0.0, process, item)

    def run(self) -> None:
        while self._agenda:
            self.now_ms, _, process, item = heapq.heappop(self._agenda)
            with suppress(StopIteration):
                wish = process.send(item)
                if not isinstance(wish, _Resource):
                    self._later(wish, process, None)
                elif wish.free:
                    self.start(process, wish.free.popleft())
                else:
                    wish.waiting.append(process)

    def drive(
        self, parts_of: Callable[[int], Sequence[Part]], first: int, steps: int, at_once: int,
        think_ms: float, delay_ms: float,
    ) -> _Process:  # fmt: skip
        """A caller."""
        yield delay_ms
        for step in range(steps):
            answers = _Resource()
            for call_id in range(first + step * at_once, first + (step + 1) * at_once):
                self.start(self._call(call_id, parts_of(call_id), answers))
                yield ISSUE_MS
            for _ in range(at_once):
                yield answers
            yield think_ms

    def give(self, resource: _Resource, item: int) -> None:
        """Give an item back, or to the next process that waits for it."""
        if resource.waiting:
            self.start(resource.waiting.popleft(), item)
        else:
            resource.free.append(item)

    def _later(self, ms: float, process: _Process, item: int | None) -> None:
        heapq.heappush(self._agenda, (self.now_ms + ms, next(self._order), process, item))

    def _call(self, call_id: int, parts: Sequence[Part], answers: _Resource) -> _Process:
        start_ms = self.now_ms
        yield self.way_ms
        thread = yield self.threads
        if self.gil_throughout:
            yield self.gil
        began_ms = self.now_ms
        spent = {"cpu": 0.0, "run_queue": 0.0}
        for part in parts:
            yield from self._do(part, call_id, thread, spent)
        served_ms = (began_ms, self.now_ms)
        if self.gil_throughout:
            self.give(self.gil, 0)
        self.give(self.threads, thread)
        yield self.way_ms
        spent_ms = {"cpu_ms": spent["cpu"], "run_queue_ms": spent["run_queue"]}
        self.calls.append(
            call(call_id, start_ms, self.now_ms, served_ms=served_ms, thread=thread, **spent_ms)
        )
        self.give(answers, 0)

    def _do(self, part: Part, call_id: int, thread: int, spent: dict[str, float]) -> _Process:
        shared = {"gil": self.gil, "lock": self.lock}.get(part.kind)
        if shared:
            yield shared
        if part.kind in ("cpu", "gil", "operator"):
            ready_ms = self.now_ms
            cpu = yield self.cpus
            spent["run_queue"] += self.now_ms - ready_ms
            spent["cpu"] += part.ms
        began_ms = self.now_ms
        yield part.ms
        if part.kind in ("cpu", "gil", "operator"):
            self.give(self.cpus, cpu)
        if shared:
            self.give(shared, 0)
        if part.kind == "operator":
            ran_by = call(call_id, 0, 0)
            ran = operator("aten::mm", began_ms, self.now_ms, of=ran_by, thread=thread)
            self.operators.append(ran)
        if part.kind == "call":
            number = 1_000_000 + len(self.calls)
            self.calls.append(
                call(number, began_ms, self.now_ms, function="inner", parent_call=call_id,
                     client_rank=1, server_rank=2, client_thread=thread)
            )  # fmt: skip
