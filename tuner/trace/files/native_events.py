"""The events of our own trace files as msgspec reads them; a traced process only writes them."""

import sys
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Annotated

import msgspec

from tuner.trace.model.spans import Facts

Number = Annotated[int, msgspec.Meta(ge=-(2**62), lt=2**62)]
"""Of a rank, a thread or a call; and nanoseconds. The sum of two fits into an int64."""
Lasting = Annotated[int, msgspec.Meta(ge=0, lt=2**62)]
"""Nanoseconds that something takes."""
Time = Annotated[float, msgspec.Meta(gt=-(2.0**52), lt=2.0**52)]
Length = Annotated[float, msgspec.Meta(ge=0, lt=2.0**52)]
"""Microseconds: no more than fit into an int64 as nanoseconds."""


class Args(msgspec.Struct, gc=False):
    """The arguments of our events, and the `name` of metadata events."""

    name: str | None = None
    call: Number | None = None
    """The call's id, on every event that belongs to one."""
    kind: str = ""
    body: str = ""
    function: str = ""
    client: str = ""
    server: str = ""
    client_rank: Number = 0
    server_rank: Number = 0
    issued_ns: Number | None = None
    status: str = ""
    error: str = ""
    parent: Number | None = None
    link: str = ""
    timeout_s: Annotated[float, msgspec.Meta(ge=0)] | None = None
    request_bytes: Lasting | None = None
    answered_ns: Number | None = None
    done_ns: Number | None = None
    cpu_ns: Lasting | None = None
    run_queue_ns: Lasting | None = None


class Event(msgspec.Struct, gc=False):
    """One event. `ts` and `dur` are microseconds since the base, with three decimals."""

    name: str = ""
    ph: str = ""
    cat: str = ""
    ts: Time | None = None
    dur: Length | None = None
    pid: Number | None = None
    """The rank."""
    tid: Number | None = None
    id: Number | None = None
    """The call's id, on async events and arrows."""
    args: Args | None = None


@dataclass(frozen=True, kw_only=True)
class Header(Facts):
    """The facts about the trace, and the version of the file's format."""

    format: int
    observer_effect: float | None = None
    """The tracing overhead in format 1."""

    def __post_init__(self) -> None:
        for rank in self.ranks:
            _check(rank, ("rank", "num_worker_threads", "cpu_count"), 0, 2**31)
            _check(rank, ("pid",), -(2**62), 2**62)
            _check(rank, ("cpu_s", "rpc_timeout_s", "main_cpu_s", "main_run_queue_s"), 0, 2**32)
        _check(self, ("steps",), 0, 2**31)
        _check(self, ("tracing_overhead", "observer_effect"), sys.float_info.min, 1e9)
        # The sum of two times fits into an int64.
        _check(self, ("base_time_ns", "clock_error_ns"), -(2**62), 2**62)
        if not all(-(2**62) <= each < 2**62 for each in self.window_ns):
            raise ValueError(f"window_ns cannot be {list(self.window_ns)}")


def _check(facts: object, names: Iterable[str], least: float, most: float) -> None:
    """ValueError for a number below `least`, or not below `most`; None is no number."""
    for name in names:
        value = getattr(facts, name)
        if value is not None and not least <= value < most:
            raise ValueError(f"{name} cannot be {value}")


class Document(msgspec.Struct):
    """A whole file."""

    rpc_tuner: Header
    traceEvents: list[Event]  # noqa: N815 - the format's own name
