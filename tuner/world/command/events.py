"""What the processes of a program report, event by event, each checked as it is read.

A program can write there, too, and a killed process leaves half a line: what is no event of the
hook's is left out. Standard library only, as `tuner.run`.
"""

import json
import math
import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any, TypeVar

from tuner.files import head_of
from tuner.process_knobs import EQUAL, UNBOUND
from tuner.torch_private.exceptions import MOST_TEXT

MOST_BYTES = 1 << 24
"""So much is read of what one process reports."""

Event = Mapping[str, Any]
_T = TypeVar("_T")
_Check = Callable[[Any], bool]
_MOST_LINE = 1 << 22
_MOST_WHOLE, _MOST_SIZE = (1 << 62) - 1, (1 << 31) - 1
_HALF = re.compile("[\ud800-\udfff]")


def _number(least: float, most: float, *kinds: type) -> _Check:
    return lambda value: type(value) in kinds and least <= value <= most


def _or_none(check: _Check) -> _Check:
    return lambda value: value is None or check(value)


def _list_of(check: _Check) -> _Check:
    return lambda value: type(value) is list and all(map(check, value))


def _tuple_of(*checks: _Check) -> _Check:
    return lambda value: (
        type(value) is list
        and len(value) == len(checks)
        and all(check(each) for check, each in zip(checks, value, strict=True))
    )


_is_whole = _number(-_MOST_WHOLE, _MOST_WHOLE, int)
_is_count = _number(0, _MOST_WHOLE, int)
_is_size = _number(0, _MOST_SIZE, int)
"""How many ranks, threads or CPUs there are, or a rank."""
_is_reported_size = _number(-1, _MOST_SIZE, int)
"""Such a number as a program says it, before anybody looked: torch takes -1 for unknown."""
_is_amount = _number(0, 1 << 32, int, float)
"""Seconds, or megabytes."""
_is_timeout = _number(0, math.inf, int, float)
_is_flag = _number(0, 1, bool)


def _is_text(value: Any) -> bool:
    return type(value) is str and len(value) <= MOST_TEXT and not _HALF.search(value)


def _is_file(value: Any) -> bool:
    """Whether it is the name of a file that a process records into."""
    return type(value) is str and re.fullmatch(r"\d+-\d+(\.operators)?", value) is not None


def _are_variables(value: Any) -> bool:
    """Whether a process can have this environment."""
    try:
        return type(value) is dict and all(
            type(text) is str and name and b"=" not in os.fsencode(name)
            and b"\0" not in os.fsencode(name + text)
            for name, text in value.items()
        )  # fmt: skip
    except UnicodeEncodeError:
        return False


_USAGE: dict[str, _Check] = {"cpu_s": _is_amount, "threads": _is_size, "peak_rss_mb": _is_amount}
_RANK: dict[str, _Check] = {"name": _is_text, "rank": _is_reported_size}
_EVENTS: dict[str, dict[str, _Check]] = {
    "started": {},
    "imported": {"modules": _list_of(_is_text), "environment": _are_variables},
    "hook-failed": {"error": lambda value: type(value) is str},
    "rendezvous": {
        "url": _is_text,
        "rank": _is_reported_size,
        "world_size": _or_none(_is_reported_size),
        "no_listener": _is_flag,
    },
    "init_rpc": {
        **_RANK,
        "world_size": _or_none(_is_reported_size),
        "role": _is_text,
        "backend": _is_text,
        "num_worker_threads": _or_none(_is_size),
        "rpc_timeout": _is_timeout,
        **dict.fromkeys(("transports", "channels"), _or_none(_list_of(_is_text))),
        "intra_op_threads": _is_size,
        "cuda_devices": _is_size,
    },
    "ready": _USAGE,
    "init-failed": {**_RANK, "error": _is_text, "traceback": _is_text},
    "shutdown": {"calls": _is_count, **_USAGE},
    "ended": {"calls": _is_count, **_USAGE},
    "raised": {"error": _is_text},
    "exit": {"error": _is_text, "traceback": _is_text},
    "gone": {"code": _or_none(_is_whole)},
    "state": {
        **_RANK,
        "number": _is_count,
        "monotonic_s": _is_amount,
        "calls": _is_count,
        **dict.fromkeys(("pool_size", "idle", "serving", "calling"), _or_none(_is_count)),
        "waiting": _is_count,
        "busy_s": _or_none(_is_amount),
        **dict.fromkeys(("sleeps", "daemon_sleeps"), _is_flag),
        **_USAGE,
    },
    "recording": {
        "journal": _is_file,
        "host": _is_text,
        "boot_id": _is_text,
        "cpu_count": _is_size,
    },
    "record-start": {"num_worker_threads": _or_none(_is_size), "rpc_timeout_s": _is_timeout},
    "window-end": {},
    "record-end": {
        "reason": _is_text,
        "cpu_s": _is_amount,
        "main_thread_s": _or_none(_tuple_of(_is_amount, _is_amount)),
        "threads": _list_of(_tuple_of(_is_whole, _is_text)),
        "issued": _list_of(_tuple_of(_is_text, _is_text, _is_count)),
        "counted_ns": _is_whole,
        **dict.fromkeys(("is_cut", "disturbed"), _is_flag),
    },
}
"""The facts of each event, beside those of all."""
_OF_ALL: dict[str, _Check] = {"pid": _is_whole, "time_ns": _is_whole}
_OPTIONAL: dict[str, _Check] = {
    "pid_there": _is_whole,
    "pid_namespace": _is_whole,
    "operators": _is_file,
    "local_size": _is_size,
    "switch_interval": _is_amount,
    "cpu_binding": lambda value: value in (EQUAL, UNBOUND),
    "has_gil": _is_flag,
    "overridden": _is_text,
}


def read_events(file: Path) -> list[dict[str, Any]]:
    """What one process has reported so far, in order."""
    lines = head_of(file, MOST_BYTES).split(b"\n")
    return [event for event in map(_event, lines) if event is not None]


def read_all(folder: Path) -> list[list[dict[str, Any]]]:
    """What each process has reported to the folder so far."""
    return [read_events(file) for file in sorted(folder.glob("*.jsonl"))]


def object_in(line: bytes) -> dict[str, Any] | None:
    """The object that a line of JSON is; None if it is none."""
    try:
        found = json.loads(line) if len(line) <= _MOST_LINE else None
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) else None


def _event(line: bytes) -> dict[str, Any] | None:
    """The event in a line, with the facts that are known of it alone; None if it is none."""
    found = object_in(line) or {}
    kind = found.get("event")
    if not isinstance(kind, str) or kind not in _EVENTS:
        return None
    optional = {name: check for name, check in _OPTIONAL.items() if name in found}
    checks = {**_OF_ALL, **_EVENTS[kind], **optional}
    if not all(name in found and check(found[name]) for name, check in checks.items()):
        return None
    return {"event": kind, **{name: found[name] for name in checks}}


def agents(events: Sequence[Event]) -> Iterator[dict[str, Event]]:
    """The events of each agent of a process, by name: a process may start RPC again."""
    starts = [place for place, event in enumerate(events) if event["event"] == "init_rpc"]
    for start, end in pairwise([*starts, len(events)]):
        yield {event["event"]: event for event in events[start:end]}


def by_world(agents: Iterable[_T], rank_of: Callable[[_T], int]) -> list[list[_T]]:
    """Agents in the order of their starts, by world: a rank that is there begins another one."""
    worlds: list[list[_T]] = []
    there: set[int] = set()
    for agent in agents:
        if not worlds or rank_of(agent) in there:
            worlds.append([])
            there.clear()
        worlds[-1].append(agent)
        there.add(rank_of(agent))
    return worlds
