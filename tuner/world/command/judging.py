"""How a run of a program ended, and what came of it: a measurement, or why it is none."""

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import groupby
from typing import Any

from tuner.plan.objectives import Objective
from tuner.plan.program_request import ProgramRequest
from tuner.text import listed, plural, three_digits
from tuner.torch_private.exceptions import served_error
from tuner.world.command.ends import Cause, alone_gone
from tuner.world.command.reports import ProgramReport, RankReport
from tuner.world.measurement import (
    Failure,
    FailureKind,
    Measurement,
    ProgramRun,
    RankUsage,
    total,
)
from tuner.world.messages import Message
from tuner.world.postmortem import RankRecord, deadlock, ending, gauges, was_killed

_TAIL_LINES = 40
_WARNING_OF_TORCH = re.compile(
    r"(\[rank\d+\]:)?\[?[IW]\d{4} \d\d:\d\d:\d\d|\S*/torch/\S+\.py:\d+: \w*Warning: "
)
_ANOTHER_PORT = re.compile(r"EADDRINUSE|[Aa]ddress already in use")


@dataclass(frozen=True, kw_only=True)
class Counted:
    """What the ranks did in a part of a run; their CPU seconds by rank."""

    calls: int
    seconds: float
    cpu_s: Mapping[int, float]
    functions: Mapping[str, int] = field(default_factory=dict)
    """The calls by what they call."""
    failed: int | None = None
    """How many of them failed at least; None where that is not known."""


@dataclass(frozen=True, kw_only=True)
class ProgramEnd:
    """How a run of a program ended, and what is known of it."""

    exit_codes: tuple[int | None, ...]
    """One for each command, negative for a signal; None for one that we ended."""
    run_s: float
    """Seconds from the start of the first command to the end of the last."""
    output: str
    """What the commands printed, on both streams."""
    report: ProgramReport
    states: Sequence[RankRecord]
    """The answers of the ranks to probes, in order of rank."""
    is_late: bool = False
    """Whether it was ended at its deadline, or because it waited for what cannot come."""
    cause: Cause | None = None
    """What failed first, whatever the commands made of it."""
    starved: RankRecord | None = None
    """The rank that is deadlocked, for which the run was ended."""
    counted: Counted | None = None
    """For a run of which a part counts."""

    @property
    def calls(self) -> int:
        """How many calls it made, or made in the part that counts."""
        if self.counted is not None:
            return self.counted.calls
        return sum(rank.calls for rank in self.report.ranks)

    @property
    def functions(self) -> Mapping[str, int]:
        """The same by what they call; empty where that is not known."""
        if self.counted is not None:
            return self.counted.functions
        return sum((Counter(rank.functions) for rank in self.report.ranks), Counter[str]())

    @property
    def failed_calls(self) -> int | None:
        """How many of them failed at least; None where no rank tells."""
        if self.counted is not None:
            return self.counted.failed
        known = [rank.failed for rank in self.report.ranks if rank.failed is not None]
        return sum(known) if known else None

    @property
    def active_s(self) -> float | None:
        """Seconds in which it made them; None where a rank never shuts down."""
        return self.report.rpc_active_s if self.counted is None else self.counted.seconds


def outcome_of(
    end: ProgramEnd, request: ProgramRequest, objective: Objective | None = None
) -> Measurement | Failure:
    """The measurement of a run, or why it is none: an objective must have its number."""
    metric = None if request.metric is None else request.metric.read(end.output)
    if (failure := _failure(end, request, metric)) is not None:
        return failure
    measurement = _measurement(end, metric)
    if objective is None or objective.read(measurement) is not None:
        return measurement
    names = [
        rank.name for rank in end.report.latest if rank.shutdown_ns is None and end.counted is None
    ]
    why = f"{listed(names)} never called shutdown" if names else "it made no calls"
    return _failed(end, "crashed", f"{why}, so this run has no {objective.label}")


def _failed(end: ProgramEnd, kind: FailureKind, message: str, **more: Any) -> Failure:
    given = {"detail": _tail(end.output), "world_s": end.run_s, **more}
    return Failure(failure=kind, message=message, **given)


def _failure(end: ProgramEnd, request: ProgramRequest, metric: float | None) -> Failure | None:
    failed = partial(_failed, end)
    if end.starved is not None:
        return deadlock(end.starved, end.states, end.run_s)
    if end.cause is not None and end.counted is None:
        return _of_cause(end, end.cause)
    if end.is_late:
        stuck = end.report.no_listener_since_ns is not None
        kind: FailureKind = "init-failed" if stuck else "timed-out"
        message = f"not done after {three_digits(end.run_s)} s ({_phases(end)})"
        return failed(kind, message, detail=gauges(end.states) or _tail(end.output))
    if end.counted is None and any(end.exit_codes):
        kind = "crashed" if end.report.is_ready else "init-failed"
        killed = any(was_killed(code) for code in end.exit_codes if code)
        return failed(kind, _how_it_ended(end, request), is_untimely=killed)
    ended = f"it ended after {three_digits(end.run_s)} s"
    if not end.report.ranks:
        codes = ", ".join("ended by us" if code is None else str(code) for code in end.exit_codes)
        why = end.report.why_no_rank(has_ended_well=True)
        return failed("init-failed", f"{ended} with exit code {codes}{why}")
    if missing := end.report.why_missing():
        return failed("init-failed", missing)
    if overridden := next(filter(None, (rank.overridden for rank in end.report.ranks)), ""):
        return failed("init-failed", overridden)
    if request.window_s is not None and end.counted is None and not request.window_is_chosen:
        return failed("crashed", f"{ended}, before its window was over")
    if request.expect is not None and not re.search(request.expect, end.output, re.MULTILINE):
        return failed("wrong-answer", f"its output does not match {request.expect!r}")
    if request.metric is not None and metric is None:
        pattern = request.metric.pattern
        return failed("crashed", f"no number above zero in its output matches {pattern!r}")
    active_s, calls = end.active_s, end.calls
    if calls < 0 or (active_s is not None and active_s <= 0):
        told = f"its ranks report {calls} calls in {active_s} s"
        why = "a clock was set, or the program changed its reports"
        return failed("crashed", f"{told}: {why}")
    return None


def _of_cause(end: ProgramEnd, cause: Cause) -> Failure:
    # What the others did when the run was ended for it.
    done = f" ({_phases(end)})" if None in end.exit_codes else ""
    kind: FailureKind = "init-failed" if cause.in_init else "crashed"
    detail = cause.traceback or gauges(end.states) or _tail(end.output)
    return _failed(end, kind, f"{cause.text}{done}", detail=detail, rank=cause.rank or "",
                   is_untimely=cause.killed_externally)  # fmt: skip


def _measurement(end: ProgramEnd, metric: float | None) -> Measurement:
    counted, report = end.counted, end.report
    # In order of rank.
    agents = {rank: [*own] for rank, own in groupby(report.ranks, lambda agent: agent.rank)}
    cpu_s: Mapping[int, float | None] = counted.cpu_s if counted is not None else {
        rank: total(agent.cpu_s for agent in each) for rank, each in agents.items()
    }  # fmt: skip
    usage = [
        RankUsage(
            name=own[-1].name,
            cpu_s=cpu_s[rank],
            peak_rss_mb=max((mb for agent in own if (mb := agent.peak_rss_mb)), default=None),
            threads=max(agent.threads or 0 for agent in own),
        )
        for rank, own in agents.items()
        if rank in cpu_s
    ]
    rpc_active_s = None if counted else report.rpc_active_s
    return Measurement(
        wall_s=end.run_s if end.active_s is None else end.active_s,
        world_s=end.run_s,
        cpu_wall_s=None if counted else report.used_s,
        ranks=tuple(usage),
        program=ProgramRun(
            calls=end.calls,
            functions=dict(end.functions),
            failed=end.failed_calls,
            rpc_active_s=rpc_active_s,
            metric=metric,
        ),
    )


def is_port_taken(end: ProgramEnd) -> bool:
    """Whether the program ended because another process has its port."""
    return any(end.exit_codes) and bool(_ANOTHER_PORT.search(end.output))


def _how_it_ended(end: ProgramEnd, request: ProgramRequest) -> str:
    pairs = zip(request.commands, end.exit_codes, strict=True)
    command, code = next((command, code) for command, code in pairs if code)
    which = "" if len(request.commands) == 1 else f" of {command[0]!r}"
    lines = _informative(end.output)
    said = served_error("\n".join(lines)) or "".join(lines[-1:]).strip()
    last = f": {said[:300]}" if said else ""
    if rank := alone_gone(end.report):
        last = "" if _WARNING_OF_TORCH.match(said) else last
        return f"{rank} failed first ({ending(code)}){last}"
    return f"{ending(code)}{which} after {three_digits(end.run_s)} s{last}"


def _phases(end: ProgramEnd) -> str:
    if not end.report.ranks:
        return end.report.waiting() or "no process has called init_rpc"
    states = {record.name: record.states[-1] for record in end.states if record.states}
    calls = sum(int(record.states[-1]["calls"]) for record in end.states if record.states)
    phases = ", ".join(f"{r.name} {_phase(r, states.get(r.name))}" for r in end.report.latest)
    waiting = f"; {end.report.waiting()}" if end.report.unmet else ""
    return f"{plural(calls, 'call')} made; {phases}{waiting}"


def _phase(rank: RankReport, state: Mapping[str, Any] | None) -> str:
    if rank.end is not None:
        return "gone"
    if rank.ready_ns is None:
        return "in init_rpc"
    where = "running" if rank.shutdown_ns is None else "in shutdown"
    if rank.ended_ns is not None:
        where = "shut down"
    if state is None or not state["pool_size"] or state["idle"]:
        return where
    waiting = f" and {state['waiting']} waiting for calls of their own" if state["waiting"] else ""
    return f"{where} with 0 of {plural(state['pool_size'], 'worker thread')} idle{waiting}"


def _tail(output: str) -> str:
    return "\n".join(_informative(output)[-_TAIL_LINES:])


def _informative(output: str) -> list[str]:
    """Its lines that are not empty; without torch's own warnings, unless there is nothing else."""
    lines = [line for line in output.splitlines() if line.strip()]
    return [line for line in lines if not _WARNING_OF_TORCH.match(line)] or lines


def records_of(
    report: ProgramReport, states: Sequence[Message] | None = None
) -> Sequence[RankRecord]:
    """All answers to probes, or these, by rank, as a post-mortem takes them; the latest names are
    taken."""
    states = report.states if states is None else states
    by_rank = {rank.rank: RankRecord(rank.name) for rank in report.ranks}
    for process in report.unmet:
        by_rank.setdefault(process.rank, RankRecord(f"rank {process.rank}"))
    # A call that any rank issued is progress: the driver need not be rank 0.
    calls: Counter[int] = Counter()
    for state in states:
        calls[state["number"]] += state["calls"]
    for state in states:
        if (record := by_rank.get(state["rank"])) is not None:
            record.states.append({**state, "steps_done": calls[state["number"]]})
    return [by_rank[rank] for rank in sorted(by_rank)]
