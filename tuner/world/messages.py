"""What processes of a world report: one set of messages, over one channel
(`tuner.world.socket_channel`). A host of a cluster passes them on. Whoever is tuned can write
there, too: what is none is left out. Standard library only, as `tuner.run`."""

import math
import os
import re
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any, Literal, NamedTuple, get_args

from tuner.process_knobs import EQUAL, UNBOUND
from tuner.torch_private.exceptions import MOST_TEXT

FailureKind = Literal[
    "deadlocked", "timed-out", "crashed", "init-failed", "wrong-answer", "trace-failed"
]
Message = Mapping[str, Any]
"""Its `kind` says what it is; `pid` is its process, `time_ns` Unix time by one clock for all."""
_Check = Callable[[Any], bool]
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
        and all(check(item) for check, item in zip(checks, value, strict=True))
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
    "failure": lambda value: value in get_args(FailureKind),
    "binding": lambda value: value in (EQUAL, UNBOUND),
    "text": _is_text,
    "any-text": lambda value: type(value) is str,
    # The name of a file that a process records into.
    "file": lambda value: type(value) is str and bool(_FILE.fullmatch(value)),
    "texts": _list_of(_is_text),
    "reasons": lambda value: type(value) is dict and all(type(e) is str for e in value.values()),
    "variables": _are_variables,
    "times": _tuple_of(_is_amount, _is_amount),
    "names": _list_of(_tuple_of(_is_whole, _is_text)),
    "counts": _list_of(_tuple_of(_is_text, _is_text, _is_count)),
    "tally": _list_of(_tuple_of(_is_text, _is_count)),
    "amounts": _list_of(_is_amount),
}


def _facts(text: str) -> dict[str, _Check]:
    """The check of each fact in `name:kind` pairs; it may be None where a ? follows the kind."""

    def check(kind: str) -> _Check:
        known = _KINDS[kind.removesuffix("?")]
        return known if kind in _KINDS else lambda value: value is None or known(value)

    return {name: check(kind) for name, kind in (pair.split(":") for pair in text.split())}


_OF_ALL = _facts("pid:whole time_ns:whole")
_OPTIONAL = _facts(
    "pid_namespace:whole operators:file operators_until_ns:whole local_size:size "
    "switch_interval:amount cpu_binding:binding has_gil:flag overridden:text in_callbacks:count "
    "failed:count functions:tally intra_op_threads:size"
)
_USAGE = "cpu_s:amount threads:size peak_rss_mb:amount"
_GAUGES = "pool_size:count? idle:count? serving:count? calling:count? waiting:count"
_FROM_RANKS_OF_WORKLOADS = {
    "phase": _facts("phase:text"),
    "state": _facts(f"steps_done:count {_GAUGES}"),
    "result": _facts(
        "step_s:amounts steps:count wall_s:amount cpu_s:amounts tracing_overhead:amount?"
    ),
    "failed": _facts("phase:text failure:failure error:any-text traceback:any-text"),
    "finished": _facts("threads:size peak_rss_mb:amount"),
}
_FROM_PROGRAMS = {
    "listening": _facts(""),
    "started": _facts(""),
    "imported": _facts("modules:texts environment:variables"),
    "hook-failed": _facts("error:any-text"),
    "warned": _facts("warning:any-text"),
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
    "answer": _facts(
        f"number:count name:text rank:rank monotonic_s:amount calls:count {_GAUGES} "
        f"busy_s:amount? sleeps:flag daemon_sleeps:flag {_USAGE}"
    ),
    "count": _facts("monotonic_s:amount calls:count cpu_s:amount"),
    "recording": _facts("journal:file host:text boot_id:text cpu_count:size"),
    "record-start": _facts("num_worker_threads:size? rpc_timeout_s:timeout"),
    "window-end": _facts(""),
    "hand-over": _facts(""),
    "record-end": _facts(
        "reason:text cpu_s:amount main_thread_s:times? other_threads_s:times? "
        "pool_threads_s:times? intra_op_threads:size switch_interval_s:amount? threads:names "
        "issued:counts counted_ns:whole is_cut:flag disturbed:flag scripts_call:flag"
    ),
}
_FROM_WARM_SERVERS = {
    "preloaded": _facts("unfit:any-text? left_out:reasons changed:variables"),
    "forked": _facts(""),
    "gone": _facts("code:whole?"),
}


class RankMessage(NamedTuple):
    """A message of one rank of a workload, or that its process is gone."""

    rank: int
    message: dict[str, Any]


def gone(pid: int, code: int | None) -> dict[str, Any]:
    """The message that a process is gone, with its exit code if that is known."""
    return {"kind": "gone", "pid": pid, "time_ns": time.time_ns(), "code": code}


def of_workload_rank(found: object) -> dict[str, Any] | None:
    """What a rank of a workload has sent; None if that is no message. One with wrong values is its
    failure: the world would wait for it."""
    message = _checked(found, _FROM_RANKS_OF_WORKLOADS)
    if message is not None or not isinstance(found, dict):
        return message
    if (kind := found.get("kind")) not in [*_FROM_RANKS_OF_WORKLOADS]:
        return None
    error = f"the values of its message {kind!r} cannot be; has the workload changed a clock?"
    said = {"phase": "a report", "failure": "crashed", "error": error, "traceback": ""}
    return {"kind": "failed", "pid": 0, "time_ns": time.time_ns(), **said}


def of_warm_server(found: object) -> dict[str, Any] | None:
    """What a server of warm starts has sent; None if that is no message."""
    return _checked(found, _FROM_WARM_SERVERS)


def of_program(found: object) -> dict[str, Any] | None:
    """What a process of a program has sent; None if that is no message."""
    return _checked(found, _FROM_PROGRAMS)


def _checked(found: object, kinds: Mapping[str, Mapping[str, _Check]]) -> dict[str, Any] | None:
    """The facts that are known of a message alone; None if it is none of these kinds."""
    if not isinstance(found, dict):
        return None
    kind = found.get("kind")
    if not isinstance(kind, str) or kind not in kinds:
        return None
    optional = {name: check for name, check in _OPTIONAL.items() if name in found}
    checks = {**_OF_ALL, **kinds[kind], **optional}
    if not all(name in found and check(found[name]) for name, check in checks.items()):
        return None
    return {"kind": kind, **{name: found[name] for name in checks}}
