"""What two ranks of a program leave that was recorded: as the hook writes it, with no process."""

import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from tests.fuzz.fuzzing import as_json
from tuner.trace.model.spans import CALLS_PER_RANK
from tuner.trace.record.journal import NOTHING, STATUSES, Journal
from tuner.world.command.collecting import Collector
from tuner.world.command.reports import ProgramReport

NAMES = ("agent", "observer1")
PIDS = (4_000_001, 4_000_002)
"""Those of no process: a kernel gives smaller ones."""
BEGAN_NS = 1_700_000_000_000_000_000
_USAGE: dict[str, Any] = {"cpu_s": 1.5, "threads": 20, "peak_rss_mb": 210.5}
_CALLS = 3


def journal_of(rank: int) -> str:
    """The name of the files that a rank records into, but for their suffix."""
    return f"{PIDS[rank]}-{BEGAN_NS}"


def events_of(rank: int) -> list[dict[str, Any]]:
    """What a rank reports, from the start of its process to its end."""
    name = NAMES[rank]
    facts = {"name": name, "rank": rank, "world_size": 2, "role": name.rstrip("1")}
    options = {"num_worker_threads": 16, "rpc_timeout": 60.0, "transports": None,
               "channels": ["basic"], "intra_op_threads": 2}  # fmt: skip
    state = {"name": name, "rank": rank, "pool_size": 16, "idle": 15, "serving": 1,
             "calling": 0, "waiting": 0, "busy_s": 0.5, "sleeps": False,
             "daemon_sleeps": False, "calls": _CALLS, **_USAGE}  # fmt: skip
    events: list[dict[str, Any]] = [
        {"kind": "started", "parent": 1, "arguments": ["python", "main.py"]},
        {"kind": "hook-failed", "error": "RuntimeError('no')"},
        {"kind": "rendezvous", "url": "env://", "rank": rank, "world_size": 2,
         "no_listener": False},
        {"kind": "warned", "warning": "UserWarning: this use is deprecated"},
        {"kind": "imported", "modules": ["numpy", "torch.optim"], "environment": {"LANG": "C"}},
        {"kind": "init_rpc", **facts, "backend": "TENSORPIPE", **options,
         "cuda_devices": 0},
        {"kind": "recording", "journal": journal_of(rank), "host": "here", "boot_id": "b",
         "cpu_count": 2},
        {"kind": "ready", **facts, **_USAGE, "cpu_s": 1.0},
        {"kind": "record-start", "num_worker_threads": 16, "rpc_timeout_s": 60.0},
        {"kind": "answer", "number": 1, "monotonic_s": 10.0, **state},
        {"kind": "answer", "number": 2, "monotonic_s": 11.0, **state},
        {"kind": "raised", "error": "KeyError: 1 (in a call that it served)"},
        {"kind": "window-end"},
        {"kind": "shutdown", "name": name, "calls": _CALLS * (1 - rank), **_USAGE},
        {"kind": "ended", "name": name, "calls": _CALLS * (1 - rank), **_USAGE},
        {"kind": "hand-over"},
        {"kind": "record-end", "reason": "shutdown", "cpu_s": 0.5, "main_thread_s": [0.25, 0.0],
         "other_threads_s": [0.125, 0.0], "pool_threads_s": [0.125, 0.5], "intra_op_threads": 2,
         "switch_interval_s": 0.005,
         "threads": [[PIDS[rank], "python"], [77, "worker"]],
         "issued": [[NAMES[1], "python", _CALLS]] if rank == 0 else [],
         "counted_ns": BEGAN_NS + 10**9, "is_cut": False, "disturbed": False,
         "scripts_call": False,
         "operators": f"{journal_of(rank)}.operators"},
        {"kind": "exit", "error": "", "traceback": ""},
        {"kind": "gone", "code": None},
    ]  # fmt: skip
    times = {"pid": PIDS[rank]}
    return [
        {**event, **times, "time_ns": BEGAN_NS + 10_000_000 * place}
        for place, event in enumerate(events)
    ]


def write_journal(folder: Path, rank: int) -> None:
    """What a rank records: the first one calls the second one, which serves."""
    journal = Journal(folder / journal_of(rank))
    target = journal.text(json.dumps(["rpc_sync", "work", NAMES[1], 1, "python", "store.py:9"]))
    site = journal.text("main.py:42")
    for number in range(_CALLS):
        call, start_ns = CALLS_PER_RANK * 0 + number, BEGAN_NS + 80_000_000 + 1_000_000 * number
        ends_ns = start_ns + 500_000
        if rank == 0:
            status = STATUSES.index("ok")
            journal.calls.put(call, target, PIDS[0], NOTHING, start_ns, start_ns + 9, status,
                               NOTHING, 60.0, 100, 0, NOTHING, site, ends_ns)  # fmt: skip
        else:
            journal.served.put(call, 77, start_ns + 100, 200, b"500 10 3\n", b"700 15 4\n",
                                ends_ns - 100)  # fmt: skip
            journal.done.put(call, ends_ns - 50)
    journal.close()
    journal.note_arrivals([*range(_CALLS)] if rank else [])
    operators = [["aten::add", 77, BEGAN_NS + 80_000_200, BEGAN_NS + 80_000_300, True]]
    (folder / f"{journal_of(rank)}.operators").write_bytes(as_json(operators * rank))


def write_journals(folder: Path) -> None:
    """All files that both ranks leave in a new folder of reports."""
    folder.mkdir()
    for rank in range(len(NAMES)):
        write_journal(folder, rank)


def until(rank: int, last: str) -> list[dict[str, Any]]:
    """What a rank has reported up to such an event, without what it told of itself meanwhile."""
    events = events_of(rank)
    place = next(n for n, event in enumerate(events) if event["kind"] == last)
    left_out = ("raised", "answer", "exit", "gone")
    return [event for event in events[: place + 1] if event["kind"] not in left_out]


def report_of(*processes: Sequence[dict[str, Any]]) -> ProgramReport:
    """What is known where processes have reported these events."""
    return collected(processes)


def collected(messages: Iterable[Sequence[Mapping[str, Any]]]) -> ProgramReport:
    """What is known by the messages of each process, in the order in which it sent them."""
    collector = Collector()
    for process, sent in enumerate(messages):
        collector.take(process, *sent)
    return collector.report()


def counting(
    rank: int, *calls: int, every_s: float = 0.5, last: str = "ready", late_s: float | None = None
) -> list[Any]:
    """What a rank reports that is there so late, by default `rank` seconds, and makes so many calls
    by count."""
    events = until(rank, last)
    ready_ns = events[-1]["time_ns"] if last == "ready" else until(rank, "ready")[-1]["time_ns"]
    for number, made in enumerate(calls):
        at_s = (rank if late_s is None else late_s) + number * every_s
        events.append({
            "kind": "count", "pid": events[0]["pid"], "time_ns": ready_ns + int(at_s * 1e9),
            # Each host has a clock of its own.
            "monotonic_s": 100 + 1000 * rank + at_s, "calls": made, "cpu_s": 2 * at_s,
        })  # fmt: skip
    return events
