"""Joins what the ranks of a program recorded, each for itself, into one trace."""

import gc
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from itertools import chain
from pathlib import Path

from tuner.errors import TraceError
from tuner.files import head_of
from tuner.text import first_of, listed, plural
from tuner.trace.files.native_writer import trace_document
from tuner.trace.files.trace_text import Number, decode_json
from tuner.trace.model.spans import (
    CALLS_PER_RANK,
    CallbackSpan,
    ClientSpan,
    OperatorSpan,
    RankRecording,
    ServerSpan,
)
from tuner.trace.record.clock import SAME_CLOCK, ClockOffset
from tuner.trace.record.journal import MOST_CALLS
from tuner.trace.record.journal_reader import JournalContent, read_journal
from tuner.trace.record.merge import merge
from tuner.world.command.reports import absent, agents, by_world
from tuner.world.descendants import is_alive
from tuner.world.messages import Message

_MOST_OPERATOR_BYTES = 1 << 28
_NO_TIMEOUT_S = 1 << 32


@contextmanager
def _without_collector() -> Iterator[None]:
    """It would walk the spans again and again while they get more, and find nothing to free."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


@_without_collector()
def join_recorded(
    folder: Path, messages: Iterable[Sequence[Message]], *, ended_ns: int | None = None,
    stopped_ns: int | None = None, clocks: Mapping[str, ClockOffset] | None = None,
    others_share: float | None = None,
) -> bytes:  # fmt: skip
    """The content of a trace file with all that was recorded, also while programs still run.
    `folder` is that of `HookOrder.reports`, and `messages` are those of each process; `ended_ns` is
    when the program ended, None while it runs; `stopped_ns` when we ended it, so that calls fail;
    `clocks` are those of other hosts against this one's, by `RankRecording.boot_id`; for
    `others_share` see `Facts`. TraceError if nothing was recorded."""
    now_ns = ended_ns or time.time_ns()
    all_agents = [agent for message in messages for agent in agents(message)]
    found = [
        _Part(folder, agent, now_ns, stopped_ns, clocks or {}) for agent in _recorded(all_agents)
    ]
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
    if (count := len(worlds)) > 1:
        losses += [f"the program started RPC {count} times: this is the world with the most calls"]
    losses += _unrecorded(all_agents, recordings)
    merged = merge(
        recordings,
        {each.name: (clocks or {}).get(each.boot_id, SAME_CLOCK) for each in recordings},
        (min(part.start_ns for part in parts), max(part.end_ns for part in parts)),
        may_lack_spans=True,
    )
    share = None if others_share is None else min(max(others_share, 0.0), 1.0)
    facts = replace(merged.facts, others_share=share, losses=(*losses, *merged.facts.losses))
    return trace_document(replace(merged, facts=facts))


def is_recorded(messages: Iterable[Sequence[Message]]) -> bool:
    """Whether every agent that was being recorded has handed over, or its process is gone."""
    return all(
        "record-end" in agent or not is_alive(agent["init_rpc"]["pid"])
        for message in messages
        for agent in _recorded(agents(message))
    )


def has_window_ended(messages: Iterable[Sequence[Message]]) -> bool:
    """Whether a rank has recorded for its whole window, and every other one has handed over."""
    found = [agent for message in messages for agent in _recorded(agents(message))]
    ends = [agent["record-end"]["reason"] for agent in found if "record-end" in agent]
    return len(ends) == len(found) and "window" in ends


def _recorded(found: Iterable[dict[str, Message]]) -> list[dict[str, Message]]:
    return [agent for agent in found if "recording" in agent]


class _Part:
    """What one agent of a process recorded."""

    def __init__(
        self, folder: Path, agent: Mapping[str, Message], program_ended_ns: int,
        stopped_ns: int | None, clocks: Mapping[str, ClockOffset],
    ) -> None:  # fmt: skip
        first, recording, started = agent["init_rpc"], agent["recording"], agent.get("record-start")
        self._agent = agent
        self._was_stopped = stopped_ns is not None
        self._ended: Message = (ended := agent.get("record-end", {}))
        try:
            self._content = read_journal(folder / recording["journal"])
        except OSError:
            self._content = JournalContent(damaged=1)
        if stopped_ns is not None:
            clock = clocks.get(recording["boot_id"], SAME_CLOCK)
            self._content = _until(self._content, stopped_ns + clock.offset_ns)
        # `pid` differs from the one on its own host where there are several hosts.
        pid = first.get("pid_there", first["pid"])
        timeout_s = started["rpc_timeout_s"] if started else first["rpc_timeout"]
        main_cpu_s, main_run_queue_s = ended.get("main_thread_s") or (None, None)
        others_cpu_s, others_run_queue_s = ended.get("other_threads_s") or (None, None)
        pool_cpu_s, pool_run_queue_s = ended.get("pool_threads_s") or (None, None)
        self.recording = RankRecording(
            **{fact: first[fact] for fact in ("rank", "name")},
            **{fact: recording[fact] for fact in ("host", "boot_id", "cpu_count")},
            pid=pid,
            num_worker_threads=(started or first)["num_worker_threads"],
            cpu_s=ended.get("cpu_s"),
            main_cpu_s=main_cpu_s,
            main_run_queue_s=main_run_queue_s,
            others_cpu_s=others_cpu_s,
            others_run_queue_s=others_run_queue_s,
            intra_op_threads=ended.get("intra_op_threads"),
            switch_interval_s=ended.get("switch_interval_s"),
            pool_cpu_s=pool_cpu_s,
            pool_run_queue_s=pool_run_queue_s,
            threads=tuple(self._threads(pid).items()),
            client_spans=self._content.client_spans,
            server_spans=self._content.server_spans,
            done_ns=self._content.done_ns,
            operators=self._operators(folder),
            operators_until_ns=ended.get("operators_until_ns"),
            noted=self._content.noted,
            callbacks=self._content.callbacks,
            gil=tuple(self._content.gil),
            pauses=tuple(self._content.pauses),
            disturbed=ended.get("disturbed", False),
            scripts_call=ended.get("scripts_call", False),
            issued=self._issued(),
            arrived=Counter(call // CALLS_PER_RANK for call in self._arrived()),
            rpc_timeout_s=timeout_s if timeout_s < _NO_TIMEOUT_S else 0,
        )
        self.is_begun = "ready" in agent
        self.prepared_ns = recording["time_ns"]
        self.start_ns = (started or recording)["time_ns"]
        of_end = ("window-end", "shutdown", "hand-over")
        self.end_ns = min(
            [agent[name]["time_ns"] for name in of_end if name in agent], default=program_ended_ns
        )
        if stopped_ns is not None:
            self.end_ns = max(self.start_ns, min(self.end_ns, stopped_ns))
        self.losses = [*self._losses()]

    def _losses(self) -> Iterator[str]:
        """What it lacks, each as the end of a sentence that its name begins."""
        if not self.is_begun:
            yield "did not get through init_rpc"
        elif not self._ended and is_alive(self._agent["init_rpc"]["pid"]):
            yield "had not ended: the trace has what it recorded so far"
        elif not self._ended:
            how = "ended suddenly, by a signal or os._exit"
            if self._was_stopped:
                how = "was ended by rpc-tuner"
            yield f"{how}: the trace has the calls up to then, and no CPU time"
        elif "record-start" not in self._agent:
            yield "ended before the recording was to start"
        elif self._ended["is_cut"]:
            many = f"made more than {MOST_CALLS:,} calls, or more than the disk has room for"
            how = "--start-after and --for choose a part of the run"
            yield f"{many}: no more are recorded. {how}"
        if self._content.damaged:
            yield "recorded calls that cannot be read: the program's files were changed"
        if self.recording.operators is None and "operators" in self._ended:
            yield "recorded operators that cannot be read, or more than are read"

    def _threads(self, pid: int) -> dict[int, str]:
        names = dict(self._ended.get("threads", ()))
        content = self._content
        serving = {span.thread for span in content.server_spans}
        serving |= {callback.thread for callback in content.callbacks if callback.holds_thread}
        calling = {span.thread for span in content.client_spans}
        calling |= {callback.thread for callback in content.callbacks}
        return {
            **{thread: names.get(thread, f"thread {thread}") for thread in calling},
            **{
                thread: f"RPC worker {number}"
                for number, thread in enumerate(sorted(serving), start=1)
            },
            pid: "main",
        }

    def _issued(self) -> dict[tuple[str, str], int]:
        """The process's own count of calls; of one that was killed, that of its journal."""
        if self._ended:
            return {(server, body): count for server, body, count in self._ended["issued"]}
        return dict(Counter((span.server, span.body) for span in self._content.client_spans))

    def _arrived(self) -> list[int]:
        served, arrivals = self._content.server_spans, self._content.arrivals
        if not self._ended or arrivals is None:
            return [span.call_id for span in served]
        # Other ranks may call it after it has counted: what began later arrived later.
        counted, since_ns = set(arrivals), self._ended["counted_ns"]
        late = [span.call_id for span in served if span.start_ns >= since_ns]
        return [*arrivals, *(call for call in late if call not in counted)]

    def _operators(self, folder: Path) -> list[OperatorSpan] | None:
        if "operators" not in self._ended:
            return None
        content = head_of(folder / self._ended["operators"], _MOST_OPERATOR_BYTES)
        try:
            found = decode_json(content, list[tuple[str, Number, Number, Number, bool]])
        except ValueError:
            return None
        return [OperatorSpan._make(span) for span in found if span[2] <= span[3]]


def _until(content: JournalContent, stopped_ns: int) -> JournalContent:
    """What was recorded until then: what ended later was still under way."""

    def has_ended(span: ClientSpan | ServerSpan | CallbackSpan) -> bool:
        return span.end_ns is None or span.end_ns <= stopped_ns

    calls, served = content.client_spans, content.server_spans
    return replace(
        content,
        client_spans=[
            call if has_ended(call) else call._replace(end_ns=None, status="unfinished", error="")
            for call in calls
        ],
        server_spans=[
            span
            if has_ended(span)
            else span._replace(end_ns=None, answered_ns=None, slices=None, error="")
            for span in served
        ],
        callbacks=[
            each if has_ended(each) else each._replace(end_ns=None, cpu_ns=None, run_queue_ns=None)
            for each in content.callbacks
        ],
    )


def _unrecorded(
    all_agents: Sequence[Mapping[str, Message]], recordings: Sequence[RankRecording]
) -> Iterator[str]:
    known = {recording.name for recording in recordings}
    missed = Counter(
        span.server for each in recordings for span in each.client_spans if span.server not in known
    )
    if missed:
        calls = plural(sum(missed.values()), "call")
        yield f"{first_of([*missed], 3)} recorded nothing: {calls} to it have no server's side"
    sizes = [agent["init_rpc"]["world_size"] for agent in all_agents]
    if missing := absent(sizes, (recording.rank for recording in recordings)):
        yield f"rank {first_of([str(rank) for rank in missing], 8)} recorded nothing"
