"""What the processes of a trace do: calls, and what frames do one after another, as plain lists."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

COMPUTE, COMPUTE_WITH_GIL, SLEEP, HOLD_LOCK, ISSUE, AWAIT, DRAIN, TAKE, GIVE = range(9)
"""What a frame does. The first four last for some ns; HOLD_LOCK is off the CPU. ISSUE sends a call
and AWAIT waits for one, by its number; DRAIN waits until no more than so many are under way. TAKE
waits for a semaphore, by its number, and GIVE gives it back."""

COMPUTES = (COMPUTE, COMPUTE_WITH_GIL)
"""Those on the CPU."""

Op = tuple[int, float]


def total_ns(ops: Sequence[Op]) -> float:
    """How long all of these take a frame, each of which takes it some time."""
    return sum(ns for _, ns in ops)


def own_ns(ops: Sequence[Op], kind: int) -> float:
    """How long a frame does this."""
    return sum(ns for done, ns in ops if done == kind)


@dataclass
class Call:
    """A call of a program. Times are nanoseconds."""

    client: int
    server: int
    function: str
    to_server: float
    to_client: float
    ops: Sequence[Op]
    """What its function does."""
    is_seen: bool = True  # whether a thread of the server runs it; else `to_server` is all it takes
    is_blocking: bool = False  # whether the caller waits for it at once
    lasts: float = 0.0  # its result is complete so much later, without a thread
    then: Sequence[Op] = ()  # what a thread of the program does until it is complete
    unpickles: Sequence[Op] = ()  # what its thread does with the request, before its function
    pickles: Sequence[Op] = ()  # and with the answer, after it
    receives: Sequence[Op] = ()  # what a thread of the client does with the answer
    arrives: Sequence[Op] = ()  # what any call costs its server before its function
    returns: Sequence[Op] = ()  # and its client before `receives`
    batch: int = -1  # it is served as one with others of this batch
    join: int = -1  # its result is complete when those of this group have been served
    callback: int = -1  # which call stands for what the thread that completes this one runs next
    is_callback: bool = False  # whether it stands for such a callback
    ends: int = 1
    """How many ends its caller may wait for: its own and those of its callbacks; where the caller
    is no callback, also those of the calls that these make, and so on."""

    @property
    def way_there(self) -> float:
        """How long it is on its way to its function, with what that costs its server."""
        return self.to_server + total_ns(self.arrives)

    @property
    def way_back(self) -> float:
        """How long its answer is on its way, with what that costs its client."""
        return self.to_client + total_ns(self.returns)


OPS_OF_A_CALL = ("ops", "then", "unpickles", "pickles", "receives", "arrives", "returns")


@dataclass
class Root:
    """What issues calls and serves none: a thread of the program."""

    rank: int
    begins: float
    ops: Sequence[Op]
    is_driver: bool = False
    is_main: bool = True  # of its process
    is_known: bool = True  # what it waits for


class Batch(NamedTuple):
    """Calls that are served as one when so many have come, or nobody else can come."""

    size: int
    times: float  # how many times as long as one of them a full batch takes

    def ops(self, bodies: Sequence[Sequence[Op]]) -> list[Op]:
        """What is done for so many; each more takes as much as another."""
        number = len(bodies)
        part = (1 + (self.times - 1) * (number - 1) / (self.size - 1)) / number
        return [(kind, ns * part) for body in bodies for kind, ns in body]


@dataclass
class Program:
    """What the processes of a trace do, whatever the configuration."""

    names: Sequence[str]
    hosts: Sequence[int]  # by rank
    calls: list[Call]
    roots: list[Root]
    joins: list[int] = field(default_factory=list)  # by group: how many calls must be served
    permits: list[int] = field(default_factory=list)  # by semaphore: how often it can be taken
    batches: list[Batch] = field(default_factory=list)

    @property
    def driver_ns(self) -> float:
        """How long the driver does something itself."""
        ops = [op for root in self.roots if root.is_driver for op in root.ops]
        return sum(ns for kind, ns in ops if kind <= SLEEP)
