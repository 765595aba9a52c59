"""What came of a run of a program: a measurement, or a failure with its root cause."""

import re
from collections.abc import Sequence

from tuner.plan.program_spec import ProgramRequest
from tuner.text import plural
from tuner.world.command.program_world import ProgramEnd
from tuner.world.command.reports import RankReport
from tuner.world.measurement import Failure, FailureKind, Measurement, ProgramRun, RankUsage
from tuner.world.postmortem import deadlock, gauges

_TAIL_LINES = 40
_ANOTHER_PORT = re.compile(r"EADDRINUSE|[Aa]ddress already in use")


def outcome_of(end: ProgramEnd, request: ProgramRequest) -> Measurement | Failure:
    """The measurement of a run, or why it is none.

    Args:
        end: How the run ended.
        request: What was asked of the program.
    """
    return _failure(end, request) or _measurement(end, request)


def _failure(end: ProgramEnd, request: ProgramRequest) -> Failure | None:
    def failed(kind: FailureKind, message: str, detail: str = "") -> Failure:
        detail = detail or _tail(end.output)
        return Failure(failure=kind, message=message, detail=detail, world_s=end.run_s)

    if end.starved is not None:
        return deadlock(end.starved, end.states, end.run_s)
    if end.is_late:
        stuck = end.report.nobody_listens_since_ns is not None
        kind: FailureKind = "init-failed" if stuck else "timed-out"
        message = f"not done after {end.run_s:.3g} s ({_phases(end)})"
        return failed(kind, message, gauges(end.states))
    if end.counted is None and any(end.exit_codes):
        kind = "crashed" if end.report.is_ready else "init-failed"
        return failed(kind, _how_it_ended(end, request))
    if not end.report.ranks:
        return failed("init-failed", never_called_init_rpc(end))
    if missing := end.report.missing_ranks:
        return failed("init-failed", unheard_of(missing))
    if request.window_s is not None and end.counted is None:
        return failed("crashed", f"it ended after {end.run_s:.1f} s, before its window was over")
    if request.expect is not None and not re.search(request.expect, end.output, re.MULTILINE):
        return failed("wrong-answer", f"its output does not match {request.expect!r}")
    if request.metric is not None and request.metric.read(end.output) is None:
        return failed(
            "wrong-answer", f"no number above zero in its output matches {request.metric.pattern!r}"
        )
    return None


def _measurement(end: ProgramEnd, request: ProgramRequest) -> Measurement:
    ranks = end.report.ranks
    counted = end.counted
    cpu_s: Sequence[float] = [rank.cpu_s or 0.0 for rank in ranks]
    calls, wall_s = sum(rank.calls for rank in ranks), end.report.rpc_active_s
    if counted is not None:
        cpu_s, calls, wall_s = counted.cpu_s, counted.calls, counted.seconds
    return Measurement(
        wall_s=end.run_s if wall_s is None else wall_s,
        world_s=end.run_s,
        ranks=tuple(
            RankUsage(name=rank.name, cpu_s=used_s, peak_rss_mb=rank.peak_rss_mb or 0.0,
                      threads=rank.threads or 0)
            for rank, used_s in zip(ranks, cpu_s, strict=True)
        ),
        program=ProgramRun(
            calls=calls,
            run_s=end.run_s,
            rpc_active_s=None if counted is not None else end.report.rpc_active_s,
            metric=None if request.metric is None else request.metric.read(end.output),
        ),
    )  # fmt: skip


def never_called_init_rpc(end: ProgramEnd) -> str:
    """The sentence for a program of which nothing was heard."""
    codes = ", ".join("ended by us" if code is None else str(code) for code in end.exit_codes)
    said = f"it ended after {end.run_s:.1f} s with exit code {codes}"
    if not end.report.processes:
        return (
            f"{said}, and none of its processes is a Python that the hook reached: one started "
            "with -S, -I or -E is not"
        )
    why = "".join(f"; {problem}" for problem in end.report.problems)
    return f"{said} and never called init_rpc{why}"


def unheard_of(missing: Sequence[int]) -> str:
    """The sentence for ranks that others waited for, and that the hook did not reach."""
    some = ", ".join(map(str, missing))
    return (
        f"of rank {some} nothing was heard: the hook does not reach a Python that is started with "
        "-S, -I or -E, or with an environment of its own"
    )


def is_port_taken(end: ProgramEnd) -> bool:
    """Whether the program ended because another process has its port."""
    return any(end.exit_codes) and bool(_ANOTHER_PORT.search(end.output))


def _how_it_ended(end: ProgramEnd, request: ProgramRequest) -> str:
    pairs = zip(request.commands, end.exit_codes, strict=True)
    command, code = next((command, code) for command, code in pairs if code)
    how = f"exit code {code}" if code > 0 else f"signal {-code}"
    which = "" if len(request.commands) == 1 else f" of {command[0]!r}"
    lines = [line.strip() for line in end.output.splitlines() if line.strip()]
    return f"{how}{which} after {end.run_s:.1f} s" + (f": {lines[-1][:300]}" if lines else "")


def _phases(end: ProgramEnd) -> str:
    ranks = end.report.ranks
    if not ranks:
        return end.report.waiting or "no process has called init_rpc"
    calls = sum(int(record.states[-1]["calls"]) for record in end.states if record.states)
    phases = ", ".join(f"{rank.name} {_phase(rank)}" for rank in ranks)
    return f"{plural(calls, 'call')} made; {phases}"


def _phase(rank: RankReport) -> str:
    if rank.ready_ns is None:
        return "in init_rpc"
    return "running" if rank.shutdown_ns is None else "in shutdown"


def _tail(output: str) -> str:
    return "\n".join(output.splitlines()[-_TAIL_LINES:])
