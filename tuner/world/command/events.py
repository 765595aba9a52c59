"""What the processes of a program report, event by event. A program can write there, too, and a
killed process leaves half a line: what is no event of the hook's is left out. Standard library
only, as `tuner.run`."""

import json
import math
import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
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
_FILE = re.compile(r"\d+-\d+(\.operators)?")
_HALF = re.compile("[\ud800-\udfff]")


def _number(least: float, most: float, *kinds: type) -> _Check:
    return lambda value: type(value) in kinds and least <= value <= most


def _list_of(check: _Check) -> _Check:
    return lambda value: type(value) is list and all(map(check, value))


def _tuple_of(*checks: _Check) -> _Check:
    return lambda value: (
        type(value) is list
        and len(value) == len(checks)
        and all(check(each) for check, each in zip(checks, value, strict=True))
    )


def _is_text(value: Any) -> bool:
    return type(value) is str and len(value) <= MOST_TEXT and not _HALF.search(value)


def _are_variables(value: Any) -> bool:
    """Whether a process can have this environment."""
    with suppress(UnicodeEncodeError):
        return type(value) is dict and all(
            type(text) is str and name and b"=" not in os.fsencode(name)
            and b"\0" not in os.fsencode(name + text)
            for name, text in value.items()
        )  # fmt: skip
    return False


_is_whole = _number(1 - (1 << 62), (1 << 62) - 1, int)
_is_count = _number(0, (1 << 62) - 1, int)
_is_amount = _number(0, 1 << 32, int, float)
_KINDS: dict[str, _Check] = {
    "flag": lambda value: type(value) is bool,
    "whole": _is_whole,
    "count": _is_count,
    # How many ranks, threads or CPUs there are.
    "size": _number(0, (1 << 31) - 1, int),
    # A rank, or how many there are, as a program says it: torch takes -1 for unknown.
    "rank": _number(-1, (1 << 31) - 1, int),
    # Seconds, or megabytes.
    "amount": _is_amount,
    "timeout": _number(0, math.inf, int, float),
    "binding": lambda value: value in (EQUAL, UNBOUND),
    "text": _is_text,
    "any-text": lambda value: type(value) is str,
    # The name of a file that a process records into.
    "file": lambda value: type(value) is str and bool(_FILE.fullmatch(value)),
    "texts": _list_of(_is_text),
    "variables": _are_variables,
    "times": _tuple_of(_is_amount, _is_amount),
    "names": _list_of(_tuple_of(_is_whole, _is_text)),
    "counts": _list_of(_tuple_of(_is_text, _is_text, _is_count)),
}


def _facts(text: str) -> dict[str, _Check]:
    """The check of each fact in `name:kind` pairs; it may be None where a ? follows the kind."""

    def check(kind: str) -> _Check:
        known = _KINDS[kind.removesuffix("?")]
        return known if kind in _KINDS else lambda value: value is None or known(value)

    return {name: check(kind) for name, kind in (each.split(":") for each in text.split())}


_OF_ALL = _facts("pid:whole time_ns:whole")
_OPTIONAL = _facts(
    "pid_there:whole pid_namespace:whole operators:file local_size:size switch_interval:amount "
    "cpu_binding:binding has_gil:flag overridden:text"
)
_USAGE = "cpu_s:amount threads:size peak_rss_mb:amount"
_EVENTS = {
    "started": _facts(""),
    "imported": _facts("modules:texts environment:variables"),
    "hook-failed": _facts("error:any-text"),
    "rendezvous": _facts("url:text rank:rank world_size:rank? no_listener:flag"),
    "init_rpc": _facts(
        "name:text rank:rank world_size:rank? role:text backend:text num_worker_threads:size? "
        "rpc_timeout:timeout transports:texts? channels:texts? intra_op_threads:size "
        "cuda_devices:size"
    ),
    "ready": _facts(_USAGE),
    "init-failed": _facts("name:text rank:rank error:text traceback:text"),
    "shutdown": _facts(f"calls:count {_USAGE}"),
    "ended": _facts(f"calls:count {_USAGE}"),
    "raised": _facts("error:text"),
    "exit": _facts("error:text traceback:text"),
    "gone": _facts("code:whole?"),
    "state": _facts(
        "number:count name:text rank:rank monotonic_s:amount calls:count pool_size:count? "
        "idle:count? serving:count? calling:count? waiting:count busy_s:amount? sleeps:flag "
        f"daemon_sleeps:flag {_USAGE}"
    ),
    "count": _facts("monotonic_s:amount calls:count cpu_s:amount"),
    "slice": _facts("number:count late_s:amount seconds:amount done:count"),
    "recording": _facts("journal:file host:text boot_id:text cpu_count:size"),
    "record-start": _facts("num_worker_threads:size? rpc_timeout_s:timeout"),
    "window-end": _facts(""),
    "record-end": _facts(
        "reason:text cpu_s:amount main_thread_s:times? threads:names issued:counts "
        "counted_ns:whole is_cut:flag disturbed:flag"
    ),
}
"""The facts of each event, beside those of all."""


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
    worlds: list[dict[int, _T]] = []
    for agent in agents:
        if not worlds or rank_of(agent) in worlds[-1]:
            worlds.append({})
        worlds[-1][rank_of(agent)] = agent
    return [[*world.values()] for world in worlds]
