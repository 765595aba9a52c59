"""Why a world failed (deadlocked, crashed, ...): one root cause, from what its ranks reported;
and what it leaves: what its processes printed, bounded, and which failures are alike."""

import ctypes
import os
import re
import resource
import shutil
import signal
from collections.abc import Hashable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tuner.files import written_atomically
from tuner.json_text import json_of
from tuner.text import three_digits
from tuner.world.launcher import WorldOrder
from tuner.world.measurement import Failure

CHANNEL_CLOSED = 213
"""The exit code of a rank whose workload has closed the line to the launcher."""
PARENT_GONE = 256
"""Stands for the exit code of a rank whose parent is gone, and cannot tell it; those are less."""
HANDING_OVER = "hand-over"
"""The phase in which the ranks hand over what was recorded: it is no time of the workload."""
FORMAT = 2  # of failure.json
# Of what one rank printed on one stream, in bytes; a world keeps no more of it.
MOST_KEPT = 512 * 1024
_KEEP_SIZE_AND_PUNCH_HOLE = 3
_libc = ctypes.CDLL(None, use_errno=True)
_EVIDENCE = re.compile(r"; see \S+$")
_NUMBER = re.compile(r"\d[\d.,]*")
_TOO_MANY_FILES = re.compile("too many open files", re.IGNORECASE)
_USUAL_FILES = 1024
"""The limit of open files nearly everywhere."""


@dataclass
class RankRecord:
    """Everything a rank has said, in the order it came."""

    name: str
    phase: str = "start"
    failure: dict[str, Any] = field(default_factory=dict)
    """What it reported that it could not do; empty if nothing."""
    usage: dict[str, Any] = field(default_factory=dict)
    """Threads and peak memory, reported at the very end."""
    states: list[dict[str, Any]] = field(default_factory=list)
    """Answers to probes."""
    exit_code: int | None = None
    died_ns: int | None = None
    _handed_ns: int = 0
    _handing_ns: int | None = None

    def handed_over_s(self, now_ns: int) -> float:
        """How long it has handed over what was recorded, until now."""
        since_ns = now_ns if self._handing_ns is None else self._handing_ns
        return (self._handed_ns + max(0, now_ns - since_ns)) / 1e9

    @property
    def finished(self) -> bool:
        """Whether it has shut down in good order."""
        return bool(self.usage)

    @property
    def failed(self) -> bool:
        """Whether it reported a failure, or is gone without having finished."""
        return bool(self.failure) or (self.exit_code is not None and not self.finished)

    def take(self, message: dict[str, Any]) -> None:
        """Note a message of this rank, or its death."""
        match message["kind"]:
            case "phase":
                self._handed_ns = round(self.handed_over_s(message["time_ns"]) * 1e9)
                self.phase = message["phase"]
                self._handing_ns = message["time_ns"] if self.phase == HANDING_OVER else None
            case "failed":
                self.failure = message
            # A rank whose parent is gone counts as dead, and may live until it has said this.
            case "finished" if self.exit_code is None:
                self.usage = {key: message[key] for key in ("threads", "peak_rss_mb")}
            case "state":
                self.states.append(message)
            case "gone":
                code = message["code"]
                self.exit_code = -1 if code is None else code
                self.died_ns = message["time_ns"]


def starvation(records: Sequence[RankRecord]) -> RankRecord | None:
    """A rank that is deadlocked: each of its worker threads waits for the answer to a call. The
    same threads deliver answers, so none can come. Two probes in a row that show it, with no step
    finished between them, are a proof."""
    driver = records[0].states[-2:] if records else []
    if len(driver) < 2 or driver[0]["steps_done"] != driver[1]["steps_done"]:
        return None
    probed = (record for record in records if len(record.states) > 1)
    return next((record for record in probed if all(map(_all_wait, record.states[-2:]))), None)


def _all_wait(state: dict[str, Any]) -> bool:
    size = state["pool_size"]
    # Any thread may wait in a callback: then it must be those of the pool that have nothing to do.
    if state.get("in_callbacks") and state["idle"]:
        return False
    # As many of the rank's calls must be out.
    return bool(size) and min(state["waiting"], state["calling"] or 0) >= size


def root_cause(
    records: Sequence[RankRecord], *, deadline_s: float | None, world_s: float
) -> Failure:
    """The failure that came first; `deadline_s` is what ended the world, if that did. Deaths come
    before reports: a rank whose peer is gone reports that."""
    if (starved := starvation(records)) is not None:
        return deadlock(starved, records, world_s)
    # A rank that reports a failure stays alive: a rank that is gone died of something else.
    if dead := [r for r in records if r.died_ns is not None and not r.finished and not r.failure]:
        first = min(dead, key=lambda record: record.died_ns or 0)
        code = first.exit_code or 0
        return Failure(
            failure="init-failed" if first.phase == "init_rpc" else "crashed",
            message=f"{first.name} failed first ({ending(code)}, in {first.phase})",
            is_untimely=was_killed(code),
            rank=first.name, world_s=world_s,
        )  # fmt: skip
    if reported := [record for record in records if record.failure]:
        first = min(reported, key=lambda record: int(record.failure["time_ns"]))
        report = first.failure
        error = str(report["error"]).split("\n")[0][:300]
        return Failure(
            message=f"{first.name} failed first, in {report['phase']}: {error}",
            failure=report["failure"], detail=str(report["traceback"]),
            rank=first.name, world_s=world_s,
        )  # fmt: skip
    assert deadline_s is not None
    steps = records[0].states[-1]["steps_done"] if records[0].states else 0
    phases = ", ".join(f"{each.name} in {each.phase}" for each in records if not each.finished)
    busy = [record.name for record in records if record.states and record.states[-1]["idle"] == 0]
    more = f"; no worker thread of {busy[0]} was idle" if busy else ""
    message = f"not done after {three_digits(deadline_s)} s ({steps} steps done; {phases}){more}"
    return Failure(failure="timed-out", message=message, detail=gauges(records), world_s=world_s)


def deadlock(record: RankRecord, records: Sequence[RankRecord], world_s: float) -> Failure:
    """The failure of a world in which this rank is deadlocked."""
    size = record.states[-1]["pool_size"]
    threads = "its only worker thread waits" if size == 1 else f"all {size} worker threads wait"
    callbacks, waiting = (record.states[-1].get(name, 0) for name in ("in_callbacks", "waiting"))
    made = [*["while serving one"] * (callbacks < waiting or not callbacks)]
    made += ["in a callback of a future"] * bool(callbacks)
    message = (
        f"{record.name} deadlocked: {threads} for the answer to a call made {' or '.join(made)}. "
        "That answer needs a free thread there: give it more num_worker_threads"
    )
    return Failure(
        failure="deadlocked", message=message, detail=gauges(records), rank=record.name,
        world_s=world_s,
    )  # fmt: skip


def ending(code: int) -> str:
    """How a process ended, in words; a negative code is a signal's, as `subprocess` has it."""
    if code == CHANNEL_CLOSED:
        return "it closed the descriptor of its line to rpc-tuner, as os.closerange does"
    if code == PARENT_GONE:
        return "its parent process ended"
    if code >= 0:
        return f"exit code {code}"
    with suppress(ValueError):
        return f"signal {-code}, {signal.Signals(-code).name}"
    return f"signal {-code}"


def was_killed(code: int) -> bool:
    """Whether a process with this exit code was killed externally, as far as it shows, or its
    parent was."""
    return -code in (signal.SIGKILL, signal.SIGTERM) or code == PARENT_GONE


def was_interrupted(code: int) -> bool:
    """Whether a process with this exit code was asked to end, or killed, by somebody else."""
    return was_killed(code) or -code in (signal.SIGINT, signal.SIGHUP)


def gauges(records: Sequence[RankRecord]) -> str:
    """What each rank answered last, a line for each."""
    return "\n".join(f"{record.name}: {_gauges(record.states)}" for record in records)


def _gauges(states: Sequence[dict[str, Any]]) -> str:
    if not states:
        return "gave no answer to a probe"
    if (state := states[-1])["pool_size"] is None:
        return "its agent does not run"
    in_callbacks = state.get("in_callbacks", 0)
    of_them = f", {in_callbacks} of them in callbacks" if in_callbacks else ""
    return (
        f"{state['pool_size']} worker threads, {state['idle']} idle, {state['waiting']} waiting "
        f"for their own calls{of_them}; {state['serving']} calls being served, "
        f"{state['calling']} calls out"
    )


def about_open_files(said: str, *, in_init: bool) -> str:
    """That a process had too many open files, as `said` of it, or may have had them where it failed
    as RPC started: the end of a sentence; empty if neither is so."""
    limit, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if _TOO_MANY_FILES.search(said):
        return f"; it had too many open files: raise their limit, ulimit -n, which is {limit} here"
    if in_init and limit != resource.RLIM_INFINITY and limit < _USUAL_FILES:
        return f"; the limit of open files may be too low: ulimit -n is {limit} here"
    return ""


def _with_open_files(failure: Failure, captured: Sequence[Path]) -> Failure:
    """The failure; its message names the limit of open files where that is or may be the cause."""
    if failure.failure not in ("init-failed", "crashed"):
        return failure
    said = [failure.message, failure.detail]
    for file in captured:
        with suppress(OSError):
            said.append(head_and_tail(file).decode(errors="replace"))
    files = about_open_files("\n".join(said), in_init=failure.failure == "init-failed")
    return failure.model_copy(update={"message": f"{failure.message}{files}"})


def with_evidence(failure: Failure, order: WorldOrder, captured: Sequence[Path]) -> Failure:
    """Keep these files of a failed world, those that are not empty, where its order names a folder.
    The message of what is returned says where to look, or why nothing could be kept."""
    failure = _with_open_files(failure, captured)
    if (folder := order.failure_folder) is None:
        return failure
    where = order.folder_called or f"{folder.parent.name}/{folder.name}"
    kept = failure.model_copy(update={"message": f"{failure.message}; see {where}"})
    facts = kept.model_dump(exclude={"kind"})
    document = {"format": FORMAT, "config": order.config.to_json(), **facts}
    try:
        if order.folder_called:
            shutil.rmtree(folder, ignore_errors=True)
        for file in captured:
            if file.stat().st_size:
                with written_atomically(folder / file.name) as partial:
                    partial.write_bytes(head_and_tail(file))
        with written_atomically(folder / "failure.json") as partial:
            partial.write_bytes(json_of(document, is_indented=True))
    except OSError as error:
        # The disk may be full; the failure is known all the same.
        lost = f"its evidence could not be kept: {error}"
        return failure.model_copy(update={"message": f"{failure.message}; {lost}"})
    return kept


def head_and_tail(file: Path, most: int = MOST_KEPT) -> bytes:
    """The content of a file, which may still grow; of a long one its two ends, `most` bytes in all,
    with a line between them that says how much is left out."""
    with file.open("rb") as content:
        size = os.fstat(content.fileno()).st_size
        if size <= most:
            return content.read(most)
        head = content.read(most // 2)
        content.seek(size - (most - most // 2))
        tail = content.read(most - most // 2)
    left_out = f"\n[... {size - most:,} bytes are left out here ...]\n"
    return head + left_out.encode() + tail


def give_up_middle(file: Path, kept: int = MOST_KEPT) -> None:
    """Give the disk back what no `head_and_tail` of `kept` bytes needs, once a file is eight times
    as long. Its length stays, so that who writes to it goes on where they are. Nothing happens
    where the file system cannot do it."""
    with suppress(OSError):
        if file.stat().st_blocks * 512 <= 8 * kept:
            return
        block = 4096
        with file.open("r+b") as content:
            length = os.fstat(content.fileno()).st_size - 2 * kept
            _libc.fallocate(
                content.fileno(),
                _KEEP_SIZE_AND_PUNCH_HOLE,
                ctypes.c_long(kept // block * block),
                ctypes.c_long(max(block, length // block * block)),
            )


def failure_signature(kind: str, message: str) -> Hashable:
    """What failures have in common that are alike, by their kind and their message."""
    return kind, _NUMBER.sub("#", without_evidence(message))


def without_evidence(message: str) -> str:
    """A failure's message without the folder of its evidence."""
    return _EVIDENCE.sub("", message)
