"""A whole trace as plain values: the spans of all processes, joined on one clock.

Every traced process imports this: standard library only.
"""

from dataclasses import dataclass

from tuner.trace.model.facts import Facts
from tuner.trace.model.spans import ClientSpan, Link, OperatorSpan, ServerSpan


@dataclass(frozen=True)
class MergedCall:
    """Both ends of a call; times are nanoseconds since the trace's base."""

    name: str
    client: str
    client_rank: int
    span: ClientSpan
    served: ServerSpan | None
    done_ns: int | None
    link: Link


@dataclass(frozen=True)
class MergedOperator:
    """An operator and the call that ran it; times are nanoseconds since the trace's base."""

    rank: int
    span: OperatorSpan
    call_id: int | None
    link: Link


@dataclass(frozen=True)
class MergedTrace:
    """A complete trace as plain values."""

    facts: Facts
    calls: list[MergedCall]
    operators: list[MergedOperator]
