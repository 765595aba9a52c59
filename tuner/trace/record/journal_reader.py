"""Reads the journal of a process, also one that was killed, or that the program has damaged."""

import json
import re
from array import array
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, NamedTuple, get_args

from tuner.files import head_of
from tuner.trace.model.spans import (
    CALLS_PER_RANK,
    CallBody,
    CallKind,
    ClientSpan,
    OperatorSpan,
    ServerSpan,
)
from tuner.trace.record.journal import (
    LAYOUTS,
    MOST_RECORDS,
    NOTHING,
    STATUSES,
    Records,
    served_span,
)

_MOST_TEXT_BYTES = 1 << 26
_MOST_RANKS = 1 << 21
"""More would make no ids of calls that every reader of JSON keeps."""
_MOST_NS = 1 << 62
_MOST_S = 1 << 32
_SCHEDULE = re.compile(rb"(\d+ \d+(\s.*)?)?", re.DOTALL)


@dataclass(frozen=True, kw_only=True)
class JournalContent:
    """The calls of one process, from its journal."""

    client_spans: list[ClientSpan] = field(default_factory=list)
    server_spans: list[ServerSpan] = field(default_factory=list)
    done_ns: dict[int, int] = field(default_factory=dict)
    noted: list[OperatorSpan] = field(default_factory=list)
    """Operators that were noted in Python."""
    arrivals: list[int] | None = None
    """The ids of the calls that had arrived when the process noted them; None if it never did."""
    damaged: int = 0
    """How many records are none that a process writes."""


class _Target(NamedTuple):
    """What a call calls, as the journal has it in JSON."""

    kind: str
    function: str
    server: str
    server_rank: int
    body: str


def read_journal(path: Path) -> JournalContent:
    """What a journal holds, also while its process is still writing it, or was killed.

    The program can write to its files, too: what is no record is left out, and counted.

    Raises:
        OSError: The files cannot be read.
    """
    for name in ("texts", *LAYOUTS):
        if not path.with_suffix(f".{name}").is_file():
            raise FileNotFoundError(f"{path.name} has no {name}")

    def records(name: str) -> Iterator[tuple[Any, ...]]:
        return Records(LAYOUTS[name]).read(path.with_suffix(f".{name}"))

    texts = dict(_texts(path.with_suffix(".texts")))
    calls = _last_of_each(records("calls"))
    targets = {number: _target(texts.get(number, "")) for number in {call[1] for call in calls}}
    served = _last_of_each(records("served"))
    errors = {call: texts.get(text - 1, "") for call, text in records("raised")}
    answered_ns = dict(filter(_is_moment, records("answered")))
    noted = list(records("noted"))
    content = JournalContent(
        client_spans=[
            _client_span(call, target, texts)
            for call in calls
            if (target := targets[call[1]]) is not None and _is_call(call)
        ],
        server_spans=[
            _server_span(call, answered_ns.get(call[0]), errors.get(call[0], ""))
            for call in served
            if _is_served(call)
        ],
        done_ns=dict(filter(_is_moment, records("done"))),
        noted=[
            OperatorSpan(texts[name], thread, start_ns, end_ns, is_operator=True)
            for name, thread, start_ns, end_ns in noted
            if name in texts and _is_time(thread) and 0 <= start_ns <= end_ns < _MOST_NS
        ],
        arrivals=_arrivals(path.with_suffix(".arrivals")),
    )
    kept = len(content.client_spans) + len(content.server_spans) + len(content.noted)
    return replace(content, damaged=len(calls) + len(served) + len(noted) - kept)


def _is_id(call: int) -> bool:
    return 0 <= call < _MOST_RANKS * CALLS_PER_RANK


def _is_time(time_ns: int) -> bool:
    return 0 <= time_ns < _MOST_NS


def _is_moment(record: tuple[Any, ...]) -> bool:
    call_id, time_ns = record
    return _is_id(call_id) and _is_time(time_ns)


def _is_call(call: tuple[Any, ...]) -> bool:
    call_id, _, thread, parent, start_ns, issued_ns, status, _, limit_s, size, end_ns = call
    return (
        _is_id(call_id)
        and _is_time(thread)
        and (parent == NOTHING or _is_id(parent))
        and _is_time(start_ns)
        and _is_time(issued_ns)
        and 0 <= status < len(STATUSES)
        and (limit_s == NOTHING or 0 <= limit_s < _MOST_S)
        and (size == NOTHING or _is_time(size))
        and (end_ns == NOTHING or start_ns <= end_ns < _MOST_NS)
    )


def _is_served(call: tuple[Any, ...]) -> bool:
    call_id, thread, start_ns, cpu_ns, before, after, end_ns = call
    times = map(_is_time, (thread, start_ns, cpu_ns))
    has_ended = end_ns == NOTHING or start_ns <= end_ns < _MOST_NS
    known = all(_SCHEDULE.fullmatch(each.rstrip(b"\0")) for each in (before, after))
    return _is_id(call_id) and all(times) and has_ended and known


def _arrivals(path: Path) -> list[int] | None:
    if not path.is_file():
        return None
    content = head_of(path, MOST_RECORDS * 8)
    # The process may have been killed, or the disk full, while it was written.
    return array("q", content[: len(content) // 8 * 8]).tolist()


def _last_of_each(records: Iterable[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
    """One record per call: that of its end, if it has ended."""
    found: dict[int, tuple[Any, ...]] = {}
    for record in records:
        if record[-1] != NOTHING or record[0] not in found:
            found[record[0]] = record
    return list(found.values())


def _texts(path: Path) -> Iterator[tuple[int, str]]:
    # The last line has no end if the process was killed while it wrote it.
    for line in head_of(path, _MOST_TEXT_BYTES).split(b"\n")[:-1]:
        match _json(line):
            case [int(number), str(text)]:
                yield number, text


def _target(text: str) -> _Target | None:
    match _json(text):
        case [str(kind), str(function), str(server), int(rank), str(body)] if (
            kind in get_args(CallKind) and body in get_args(CallBody) and 0 <= rank < _MOST_RANKS
        ):
            return _Target(kind, function, server, rank, body)
    return None


def _json(text: str | bytes) -> Any:
    """What JSON says; None for what is none."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


def _client_span(call: tuple[Any, ...], target: _Target, texts: Mapping[int, str]) -> ClientSpan:
    call_id, _, thread, parent, start_ns, issued_ns, status, error, limit_s, size, end = call
    end_ns = None if end == NOTHING else end
    return ClientSpan(
        call_id=call_id,
        kind=target.kind,
        body=target.body,
        function=target.function,
        server=target.server,
        server_rank=target.server_rank,
        thread=thread,
        parent_call=None if parent == NOTHING else parent,
        start_ns=start_ns,
        # It may have ended, or the process, before the thread that issued it noted the time.
        issued_ns=issued_ns or end_ns or start_ns,
        end_ns=end_ns,
        status=STATUSES[status],
        error=texts.get(error, ""),
        timeout_s=None if limit_s == NOTHING else limit_s,
        request_bytes=None if size == NOTHING else size,
    )


def _server_span(call: tuple[Any, ...], answered_ns: int | None, error: str) -> ServerSpan:
    if call[-1] == NOTHING:
        call_id, thread, start_ns, *_ = call
        return ServerSpan(call_id, thread, start_ns, None, None, None)
    return served_span(call, answered_ns, error)
