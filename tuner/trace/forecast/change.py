"""A change of a program, and what it is made of."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, NamedTuple

from tuner.trace.analyze.path_limits import MANY_TENSORS
from tuner.trace.forecast.call_costs import SizeParts
from tuner.trace.forecast.program import ISSUE, OPS_OF_A_CALL, Call, Op, Program
from tuner.trace.forecast.replay import Machine
from tuner.trace.forecast.runs import Made, Run, by_frame

ChangeKind = Literal[
    "together", "one-call", "ahead", "tensors", "pickle-once", "fetch-once", "faster", "bytes",
    "batch", "no-lock", "gil", "callers", "servers", "no-sleep",
]  # fmt: skip
DRIVER = "<driver>"
"""Stands for what the driver does itself, beside the functions that are served."""
GAIN = 0.95  # of the time: a change whose interval is not wholly below it is no gain
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
    """How many times as fast, as few bytes, or as many callers or servers; of how many calls, 0
    where that varies; for how many percent of the time the driver sleeps, 0 where that is not
    known."""
    times: float = 0.0
    """How many times as long as one of its calls a batch takes; 0 where that is not known."""

    def is_about(self, function: str, site: str) -> bool:
        """Whether calls of this function that this line issues change."""
        return self.function in ("", function) and self.site in ("", site)


class Message(NamedTuple):
    """What a call carries: numbers of tensors, and bytes, which are infinite where not known."""

    request_tensors: float
    request_bytes: float
    answer_tensors: float
    answer_bytes: float
    same_as: int
    """An earlier call with the same large request, or, of a fetch, the one that fetched the same
    RRef before; -1 for none."""

    @property
    def has_many(self) -> bool:
        """Whether it takes its time by the number of its tensors."""
        return max(self.request_tensors, self.answer_tensors) >= MANY_TENSORS


class Changing(NamedTuple):
    """A program that is to change, and what else is known of it."""

    program: Program
    machine: Machine
    made: Made
    fixed_ns: Mapping[int, float]
    """By rank: what a call takes of its caller beside being issued, which looks like its own."""
    bytes: Sequence[float]  # of each call's request
    by_size: Sequence[float]  # how long each answer is on its way for its size
    size_parts: SizeParts
    polling: Mapping[int, float]  # by rank: CPUs that its other threads want throughout
    messages: Sequence[Message]  # of each call
    awake: float = 1.0  # the part of a way that a call takes where its processes are awake
    doubt: float = 1.0
    """What a change costs that the trace does not show is so many times what seems likely."""
    of_work: float = 1.0
    """Only one part in so many of what computes is beside a call that is issued ahead of it."""


Changed = tuple[Program, Machine] | None


def rank_of(program: Program, frame: int) -> int:
    """The rank that a frame runs on: a call, or -1 - the place of a root."""
    return program.calls[frame].server if frame >= 0 else program.roots[-1 - frame].rank


def with_runs(
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


def each_frame(program: Program, new: Callable[[Sequence[Op]], list[Op]]) -> Program:
    """The program with other ops everywhere."""

    def changed(call: Call) -> Call:
        ops: dict[str, Any] = {name: new(getattr(call, name)) for name in OPS_OF_A_CALL}
        return replace(call, **ops)

    roots = [replace(root, ops=new(root.ops)) for root in program.roots]
    return replace(program, calls=[*map(changed, program.calls)], roots=roots)


def scaled(ops: Sequence[Op], times: float) -> list[Op]:
    """What takes a frame some time, in so many times less."""
    return [(kind, value / times if kind < ISSUE else value) for kind, value in ops]
