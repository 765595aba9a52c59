"""A trace file as the tests read it: from its JSON, without the product's reader."""

from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec


@dataclass(frozen=True, kw_only=True)
class SeenOperator:
    """An operator; times in nanoseconds since the trace's base."""

    rank: int
    thread: int
    name: str
    start_ns: int
    end_ns: int
    call: int | None
    link: str


@dataclass(frozen=True, kw_only=True)
class SeenCall:
    """A call; times in nanoseconds since the trace's base."""

    id: int
    name: str
    body: str
    status: str
    error: str
    link: str
    parent: int | None
    client_rank: int
    server_rank: int
    client_thread: int
    start_ns: int
    issued_ns: int
    end_ns: int | None
    server_thread: int | None
    server_start_ns: int | None
    server_end_ns: int | None
    done_ns: int | None
    cpu_ns: int | None
    run_queue_ns: int | None
    operators: tuple[SeenOperator, ...]

    @property
    def latency_ns(self) -> int:
        """From begin to end at the client."""
        assert self.end_ns is not None
        return self.end_ns - self.start_ns

    @property
    def served_ns(self) -> int:
        """From begin to end on the server."""
        assert self.server_start_ns is not None
        assert self.server_end_ns is not None
        return self.server_end_ns - self.server_start_ns


@dataclass(frozen=True, kw_only=True)
class SeenTrace:
    """A whole file."""

    document: dict[str, Any]
    facts: dict[str, Any]
    calls: tuple[SeenCall, ...]
    """By start."""
    operators: tuple[SeenOperator, ...]

    def named(self, name: str) -> list[SeenCall]:
        """The calls of this name, by start."""
        return [call for call in self.calls if call.name == name]

    def only(self, name: str) -> SeenCall:
        """The one call of this name."""
        (call,) = self.named(name)
        return call

    def names(self) -> Counter[str]:
        """How many calls there are of each name."""
        return Counter(call.name for call in self.calls)


def seen(path: Path) -> SeenTrace:
    """Read one of our trace files."""
    document = msgspec.json.decode(path.read_bytes())
    events = document["traceEvents"]
    operators = tuple(_operator(event) for event in events if event.get("cat") == "cpu_op")
    ends = {event["id"]: event for event in events if event["ph"] == "e"}
    served = {event["args"]["call"]: event for event in events if event.get("cat") == "rpc_served"}
    calls = [
        _call(
            event,
            ends.get(event["id"]),
            served.get(event["id"]),
            tuple(each for each in operators if each.call == event["id"]),
        )
        for event in events
        if event["ph"] == "b"
    ]
    calls.sort(key=lambda call: call.start_ns)
    return SeenTrace(
        document=document, facts=document["rpc_tuner"], calls=tuple(calls), operators=operators
    )


def _ns(us: float) -> int:
    return round(us * 1000)


def _operator(event: dict[str, Any]) -> SeenOperator:
    start_ns, args = _ns(event["ts"]), event.get("args", {})
    return SeenOperator(
        rank=event["pid"],
        thread=event["tid"],
        name=event["name"],
        start_ns=start_ns,
        end_ns=start_ns + _ns(event["dur"]),
        call=args.get("call"),
        link=args.get("link", ""),
    )


def _call(
    begin: dict[str, Any],
    end: dict[str, Any] | None,
    served: dict[str, Any] | None,
    operators: tuple[SeenOperator, ...],
) -> SeenCall:
    args = begin["args"]
    assert begin["pid"] == args["client_rank"]
    assert served is None or served["pid"] == args["server_rank"]
    server_start_ns = None if served is None else _ns(served["ts"])
    server_end_ns = None
    if served is not None and served["ph"] == "X":
        server_end_ns = _ns(served["ts"]) + _ns(served["dur"])
    measured = {} if served is None else served["args"]
    return SeenCall(
        id=begin["id"],
        name=begin["name"],
        body=args["body"],
        status=args["status"],
        error=args["error"],
        link=args["link"],
        parent=args["parent"],
        issued_ns=args["issued_ns"],
        client_rank=args["client_rank"],
        server_rank=args["server_rank"],
        client_thread=begin["tid"],
        start_ns=_ns(begin["ts"]),
        end_ns=None if end is None else _ns(end["ts"]),
        server_thread=None if served is None else served["tid"],
        server_start_ns=server_start_ns,
        server_end_ns=server_end_ns,
        done_ns=measured.get("done_ns"),
        cpu_ns=measured.get("cpu_ns"),
        run_queue_ns=measured.get("run_queue_ns"),
        operators=operators,
    )
