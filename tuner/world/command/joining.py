"""Joins what the ranks of a program recorded, each for itself, into one trace."""

import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path
from typing import Any

from tuner.errors import TraceError
from tuner.files import head_of
from tuner.text import first_of, listed, plural
from tuner.trace.files.native_writer import trace_document
from tuner.trace.files.trace_text import Number, decode_json
from tuner.trace.model.spans import CALLS_PER_RANK, MergedTrace, OperatorSpan, RankRecording
from tuner.trace.record.clock import SAME_CLOCK, ClockOffset
from tuner.trace.record.journal import MOST_CALLS
from tuner.trace.record.journal_reader import JournalContent, read_journal
from tuner.trace.record.merge import merge
from tuner.world.command.events import agents, by_world, read_events
from tuner.world.command.reports import MOST_RANKS, read_reports
from tuner.world.descendants import is_alive

_Agent = Mapping[str, Mapping[str, Any]]
"""The events of one agent, by name."""
_MOST_OPERATOR_BYTES = 1 << 28
_NO_TIMEOUT_S = 1 << 32


@dataclass(frozen=True)
class _Part:
    """What one agent of a process recorded."""

    recording: RankRecording
    prepared_ns: int
    start_ns: int
    end_ns: int
    is_begun: bool
    """Whether it got through `init_rpc`."""
    losses: Sequence[str]
    """What it lacks, each as the end of a sentence that its name begins."""


def join_recorded(
    folder: Path,
    *,
    ended_ns: int | None = None,
    clocks: Mapping[str, ClockOffset] | None = None,
) -> bytes:
    """The content of a trace file with all that was recorded, also while programs still run.

    Args:
        folder: What `HookOrder.reports` named.
        ended_ns: When the program ended, in Unix nanoseconds: how long a rank waited for an answer
            that was killed, is not known. None while it runs.
        clocks: The clocks of other hosts against this one's, by `RankRecording.boot_id`.

    Returns:
        A file in our own format, for `tuner.trace.files.native_reader`. What it lacks is among its
        `losses`.

    Raises:
        TraceError: Nothing was recorded; the message says why.
    """
    return trace_document(_joined(folder, ended_ns or time.time_ns(), clocks or {}))


def is_recorded(folder: Path) -> bool:
    """Whether every agent that was being recorded has handed over, or its process is gone."""
    return all(
        "record-end" in agent or not is_alive(agent["init_rpc"]["pid"])
        for agent in _recorded_agents(folder)
    )


def has_window_ended(folder: Path) -> bool:
    """Whether a rank has recorded for its whole window, and every other one has handed over."""
    found = list(_recorded_agents(folder))
    ends = [agent["record-end"]["reason"] for agent in found if "record-end" in agent]
    return len(ends) == len(found) and "window" in ends


def _joined(folder: Path, ended_ns: int, clocks: Mapping[str, ClockOffset]) -> MergedTrace:
    found = [_part(folder, agent, ended_ns) for agent in _recorded_agents(folder)]
    found.sort(key=lambda part: part.prepared_ns)
    worlds = by_world(found, lambda part: part.recording.rank)
    if not worlds:
        raise TraceError("no rank of the program was recorded")
    if not any(part.is_begun or part.recording.client_spans for part in found):
        raise TraceError("no rank of the program got through init_rpc")
    parts = max(worlds, key=lambda parts: sum(len(p.recording.client_spans) for p in parts))
    parts.sort(key=lambda part: part.recording.rank)
    recordings = [part.recording for part in parts]
    losses = [
        f"{listed(part.recording.name for part in parts if loss in part.losses)} {loss}"
        for loss in dict.fromkeys(chain.from_iterable(part.losses for part in parts))
    ]
    if len(worlds) > 1:
        losses.append(
            f"the program started RPC {len(worlds)} times: this is the world with the most calls"
        )
    losses += _unrecorded(folder, recordings)
    merged = merge(
        recordings,
        {each.name: clocks.get(each.boot_id, SAME_CLOCK) for each in recordings},
        (min(part.start_ns for part in parts), max(part.end_ns for part in parts)),
        may_lack_spans=True,
    )
    facts = replace(merged.facts, losses=(*losses, *merged.facts.losses))
    return replace(merged, facts=facts)


def _recorded_agents(folder: Path) -> Iterator[_Agent]:
    for file in sorted(folder.glob("*.jsonl")):
        for agent in agents(read_events(file)):
            if "recording" in agent:
                yield agent


def _part(folder: Path, agent: _Agent, program_ended_ns: int) -> _Part:
    first, recording = agent["init_rpc"], agent["recording"]
    started, ended = agent.get("record-start"), agent.get("record-end")
    content, operators = _content(folder, recording), _operators(folder, ended)
    start_ns = (started or recording)["time_ns"]
    ends = [agent[name]["time_ns"] for name in ("window-end", "shutdown") if name in agent]
    timeout_s = started["rpc_timeout_s"] if started else first["rpc_timeout"]
    if not ends:
        ends = [ended["time_ns"] if ended else program_ended_ns]
    return _Part(
        recording=RankRecording(
            rank=first["rank"],
            name=first["name"],
            host=recording["host"],
            boot_id=recording["boot_id"],
            pid=_pid_there(first),
            cpu_count=recording["cpu_count"],
            num_worker_threads=(started or first)["num_worker_threads"],
            cpu_s=ended["cpu_s"] if ended else None,
            main_thread_s=ended["main_thread_s"] if ended else None,
            threads=_threads(content, _pid_there(first), ended),
            client_spans=content.client_spans,
            server_spans=content.server_spans,
            done_ns=content.done_ns,
            operators=operators,
            noted=content.noted,
            disturbed=bool(ended and ended["disturbed"]),
            **_counts(content, ended),
            rpc_timeout_s=timeout_s if timeout_s < _NO_TIMEOUT_S else 0,
        ),
        prepared_ns=recording["time_ns"],
        start_ns=start_ns,
        end_ns=min(ends),
        is_begun="ready" in agent,
        losses=[*_losses(agent, content, operators)],
    )


def _pid_there(event: Mapping[str, Any]) -> int:
    """The id of the process on its own host; `pid` differs where there are several hosts."""
    return int(event.get("pid_there", event["pid"]))


def _content(folder: Path, recording: Mapping[str, Any]) -> JournalContent:
    try:
        return read_journal(folder / recording["journal"])
    except OSError:
        return JournalContent(damaged=1)


def _losses(
    agent: _Agent, content: JournalContent, operators: Sequence[OperatorSpan] | None
) -> Iterator[str]:
    yield from filter(None, [_loss(agent)])
    if content.damaged:
        yield "recorded calls that cannot be read: the program's files were changed"
    if operators is None and "operators" in agent.get("record-end", ()):
        yield "recorded operators that cannot be read, or more than are read"


def _loss(agent: _Agent) -> str:
    """What the end of this agent cost, as the end of a sentence; empty if nothing."""
    ended = agent.get("record-end")
    if "ready" not in agent:
        return "did not get through init_rpc"
    if ended is None:
        if is_alive(agent["init_rpc"]["pid"]):
            return "had not ended: the trace has what it recorded so far"
        return (
            "ended from one moment to the next, by a signal or os._exit: the trace has the calls "
            "up to then, and no CPU time"
        )
    if "record-start" not in agent:
        return "ended before the recording was to start"
    if ended["is_cut"]:
        return (
            f"made more than {MOST_CALLS:,} calls, or more than the disk has room for, and no more "
            "are recorded: --start-after and --for choose a part of the run"
        )
    return ""


def _unrecorded(folder: Path, recordings: Sequence[RankRecording]) -> Iterator[str]:
    known = {each.name for each in recordings}
    missed = Counter(
        span.server for each in recordings for span in each.client_spans if span.server not in known
    )
    if missed:
        some = first_of([*missed], 3)
        calls = plural(sum(missed.values()), "call")
        yield f"{some} recorded nothing: {calls} to it have no server's side"
    size = max((rank.world_size or 0 for rank in read_reports(folder).ranks), default=0)
    if missing := sorted({*range(min(size, MOST_RANKS))} - {each.rank for each in recordings}):
        some = first_of([str(rank) for rank in missing], 8)
        yield f"rank {some} recorded nothing"


def _threads(content: JournalContent, pid: int, ended: Mapping[str, Any] | None) -> dict[int, str]:
    """A name for each thread that called or served."""
    names = dict(map(tuple, ended["threads"])) if ended else {}
    serving = sorted({span.thread for span in content.server_spans})
    calling = {span.thread for span in content.client_spans}
    return {
        **{thread: names.get(thread, f"thread {thread}") for thread in calling},
        **{thread: f"RPC worker {number}" for number, thread in enumerate(serving, start=1)},
        pid: "main",
    }


def _counts(content: JournalContent, ended: Mapping[str, Any] | None) -> dict[str, Any]:
    """The process's own counts of calls; of one that was killed, those of its journal."""
    served = content.server_spans
    if ended is None or content.arrivals is None:
        arrived = [span.call_id for span in served]
    else:
        # Other ranks may call it after it has counted: what began later arrived later.
        counted = set(content.arrivals)
        late = [span.call_id for span in served if span.start_ns >= ended["counted_ns"]]
        arrived = [*content.arrivals, *(call for call in late if call not in counted)]
    issued = Counter((span.server, span.body) for span in content.client_spans)
    if ended is not None:
        issued = Counter({(server, body): by for server, body, by in ended["issued"]})
    return {
        "issued": dict(issued),
        "arrived": dict(Counter(call // CALLS_PER_RANK for call in arrived)),
    }


def _operators(folder: Path, ended: Mapping[str, Any] | None) -> list[OperatorSpan] | None:
    if ended is None or "operators" not in ended:
        return None
    content = head_of(folder / ended["operators"], _MOST_OPERATOR_BYTES)
    try:
        found = decode_json(content, list[tuple[str, Number, Number, Number, bool]])
    except ValueError:
        return None
    return [OperatorSpan(*each) for each in found if each[2] <= each[3]]
