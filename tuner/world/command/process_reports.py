"""What one process of a program has reported: its ranks, one after the other, and its end."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from tuner.text import shortened
from tuner.world.command.events import agents, read_events

_Step = TypeVar("_Step", "Rendezvous", "InitFailure")
_KNOBS = ("num_worker_threads", "rpc_timeout", "transports", "channels", "intra_op_threads",
          "switch_interval", "cpu_binding")  # fmt: skip


class ProcessEnd(NamedTuple):
    """How a process ended, as far as it reported that, or as the command saw it."""

    time_ns: int
    """Unix nanoseconds."""
    pid: int
    name: str
    """The RPC name, or `rank 2` of one that waited for the others; empty: it knew of neither."""
    error: str
    """What it raised, in one line; empty: nothing, or it could not report it."""
    traceback: str
    reported: bool
    """Whether it ended as Python does; not so by a signal, or by os._exit."""
    gone_ns: int | None
    """When it was seen to be gone; threads of it may go on when it has reported its end."""
    code: int | None
    """Its exit code, as `subprocess` has it; None: it is not known."""


class Raised(NamedTuple):
    """What a served call raised, or a thread of the program; it may have been handled."""

    time_ns: int
    """Unix nanoseconds."""
    name: str
    """The RPC name of the rank."""
    error: str
    """In one line, with where it was."""


@dataclass(frozen=True, kw_only=True)
class RankReport:
    """One rank of a program, from its `init_rpc` on. Times are Unix nanoseconds."""

    pid: int
    name: str
    """Its RPC name."""
    rank: int
    world_size: int | None
    role: str
    backend: str
    """`TENSORPIPE`, or the agent of another one."""
    num_worker_threads: int | None
    """What its agent was started with."""
    rpc_timeout_s: float
    options: Mapping[str, Any]
    """The same and all other knobs of the agent, as JSON."""
    cuda_devices: int
    """How many torch sees."""
    init_ns: int
    """When the agent's start began."""
    ready_ns: int | None
    """When `init_rpc` was done; None if it never was."""
    shutdown_ns: int | None
    """When `shutdown` was called; None if it never was."""
    ended_ns: int | None
    """When `shutdown` was done; None if it never was."""
    calls: int
    """Calls issued until it was shut down; 0 if it never was."""
    cpu_s: float | None
    """CPU seconds from `ready_ns` to the end of `shutdown`, or to the last probe before it."""
    used_ns: int | None
    """When these were read."""
    peak_rss_mb: float | None
    threads: int | None
    """When `shutdown` was called, or at the last probe."""
    overridden: str = ""
    """Which process knob the program has set otherwise after the hook, as a clause; or empty."""
    has_gil: bool = True
    local_size: int = 0
    """How many ranks torchrun has started beside it, itself among them; 0 if that is not known."""
    end: ProcessEnd | None = None
    """The end of its process; None while it runs, and where it went on to start RPC again."""


class Rendezvous(NamedTuple):
    """Where a process looks for the other ranks, and since when, in Unix nanoseconds."""

    url: str
    no_listener: bool
    time_ns: int
    pid: int
    rank: int
    """-1 if it does not know."""
    world_size: int | None = None
    """How many ranks meet there; None if it does not know."""


class InitFailure(NamedTuple):
    """Why `init_rpc` failed for a rank that never got through it since."""

    time_ns: int
    """Unix nanoseconds."""
    pid: int
    rank: int
    name: str
    """The RPC name, or `rank 2` of one that did not get past the rendezvous."""
    error: str
    """In one line."""
    traceback: str

    @property
    def text(self) -> str:
        """The same as a sentence."""
        return f"{self.name} failed first, in init_rpc: {shortened(self.error)}"


class ProcessReport(NamedTuple):
    """One process."""

    began_ns: int
    """When it reported something first, in Unix nanoseconds."""
    ranks: tuple[RankReport, ...]
    """A rank for each time that it started RPC; the last one has the end of the process."""
    unmet: Rendezvous | None
    """Where it waits for the others, if it did not come to start an agent since."""
    init_failure: InitFailure | None
    """Why the last try of `init_rpc` failed, if it did."""
    end: ProcessEnd | None
    """None while it runs."""
    raised: Sequence[Raised]
    states: Sequence[Mapping[str, Any]]
    """Its answers to probes."""
    problems: Sequence[str]
    """Why the hook did not work in it, each as a sentence."""


def read_process(file: Path) -> ProcessReport:
    """What a process has written to its file."""
    events = read_events(file)
    ranks = [_rank(agent) for agent in agents(events)]
    unmet = _step(events, "rendezvous", Rendezvous)
    end = _end(events, ranks, unmet)
    if ranks:
        ranks[-1] = replace(ranks[-1], end=end)
    by_kind = {name: [event for event in events if event["event"] == name]
               for name in ("raised", "state", "hook-failed")}  # fmt: skip
    name = ranks[-1].name if ranks else ""
    return ProcessReport(
        began_ns=events[0]["time_ns"] if events else 0,
        ranks=tuple(ranks),
        unmet=unmet,
        init_failure=_step(events, "init-failed", InitFailure),
        end=end,
        raised=[Raised(each["time_ns"], name, each["error"]) for each in by_kind["raised"]],
        states=by_kind["state"],
        problems=[
            f"the hook failed in process {event['pid']}: {shortened(event['error'])}"
            for event in by_kind["hook-failed"]
        ],
    )


def _step(events: Sequence[Mapping[str, Any]], wanted: str, kind: type[_Step]) -> _Step | None:
    """The last step of a process on its way through `init_rpc`, if it is the wanted one."""
    steps = ("rendezvous", "init_rpc", "init-failed", "ready")
    last = next((event for event in reversed(events) if event["event"] in steps), None)
    if last is None or last["event"] != wanted:
        return None
    return kind(**{fact: last[fact] for fact in kind._fields})


def _end(
    events: Sequence[Mapping[str, Any]], ranks: Sequence[RankReport], unmet: Rendezvous | None
) -> ProcessEnd | None:
    """How a process with these ranks ended, one of which may wait for the others."""
    last = {event["event"]: event for event in events if event["event"] in ("exit", "gone")}
    if not last:
        return None
    exited, gone = last.get("exit"), last.get("gone", {})
    # What it reports is what it raised last, as far as Python knows; who exits with 0 handled that.
    raised = exited if exited and gone.get("code") != 0 else {"error": "", "traceback": ""}
    name = ranks[-1].name if ranks else ""
    return ProcessEnd(
        time_ns=(exited or gone)["time_ns"],
        pid=(exited or gone)["pid"],
        name=f"rank {unmet.rank}" if unmet is not None and not name else name,
        error=raised["error"],
        traceback=raised["traceback"],
        reported=exited is not None,
        gone_ns=gone.get("time_ns"),
        code=gone.get("code"),
    )


def _rank(agent: Mapping[str, Mapping[str, Any]]) -> RankReport:
    first, ready, shutdown = agent["init_rpc"], agent.get("ready"), agent.get("shutdown")
    # A rank that only serves calls shutdown at once, and serves while it waits there.
    last = agent.get("ended") or shutdown or agent.get("state")
    return RankReport(
        pid=first["pid"],
        name=first["name"],
        rank=first["rank"],
        world_size=first["world_size"],
        role=first["role"],
        backend=first["backend"],
        num_worker_threads=first["num_worker_threads"],
        rpc_timeout_s=first["rpc_timeout"],
        options={knob: first[knob] for knob in _KNOBS if knob in first},
        cuda_devices=first["cuda_devices"],
        local_size=first.get("local_size", 0),
        has_gil=first.get("has_gil", True),
        overridden=(shutdown or last or {}).get("overridden", ""),
        init_ns=first["time_ns"],
        ready_ns=ready["time_ns"] if ready else None,
        shutdown_ns=shutdown["time_ns"] if shutdown else None,
        ended_ns=agent["ended"]["time_ns"] if "ended" in agent else None,
        calls=agent.get("ended", shutdown)["calls"] if shutdown else 0,
        cpu_s=last["cpu_s"] - ready["cpu_s"] if last and ready else None,
        used_ns=last["time_ns"] if last else None,
        peak_rss_mb=last["peak_rss_mb"] if last else None,
        threads=(shutdown or last)["threads"] if last else None,
    )
