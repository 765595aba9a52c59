"""Reads the journal of a process, also one that was killed, or that the program has damaged."""

import json
import re
from array import array
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, get_args

from tuner.files import head_of
from tuner.trace.model.spans import (
    CALLS_PER_RANK,
    CallbackSpan,
    CallBody,
    CallKind,
    ClientSpan,
    GilWait,
    OperatorSpan,
    Pause,
    ServerSpan,
)
from tuner.trace.record.journal import (
    CHUNK_RECORDS,
    LAYOUTS,
    MOST_CALLS,
    NOTHING,
    STATUSES,
    callback_span,
    chunk_bytes,
    served_span,
)

# So much of a file is read: of a call there may be two records, and many may call one server.
_MOST_RECORDS, _MOST_TEXT_BYTES = 4 * MOST_CALLS, 1 << 26
_RANKS = range(1 << 21)  # more would make no ids of calls that every reader of JSON keeps
_IDS = range(len(_RANKS) * CALLS_PER_RANK)
_NS = range(1 << 62)
_MOST_S = 1 << 32
_SCHEDULE = re.compile(rb"(\d+ \d+(\s.*)?)?", re.DOTALL)


@dataclass(frozen=True, kw_only=True)
class JournalContent:
    """The calls of one process, from its journal."""

    client_spans: list[ClientSpan] = field(default_factory=list)
    server_spans: list[ServerSpan] = field(default_factory=list)
    done_ns: dict[int, int] = field(default_factory=dict)
    noted: list[OperatorSpan] = field(default_factory=list)  # operators that were noted in Python
    callbacks: list[CallbackSpan] = field(default_factory=list)
    gil: list[GilWait] = field(default_factory=list)
    pauses: list[Pause] = field(default_factory=list)
    arrivals: list[int] | None = None  # calls that had arrived when the process noted them, if ever
    damaged: int = 0  # how many records are none that a process writes


def read_journal(path: Path) -> JournalContent:
    """What a journal holds, also while its process is still writing it, or was killed.

    The program can write to its files, too: what is no record is left out, and counted.

    Raises:
        OSError: The files cannot be read.
    """
    for name in ("texts", *LAYOUTS):
        if not path.with_suffix(f".{name}").is_file():
            raise FileNotFoundError(f"{path.name} has no {name}")
    texts = dict(_texts(path.with_suffix(".texts")))
    targets = {number: _target(text) for number, text in texts.items()}
    calls, served = _last_of_each(_records(path, "calls")), _last_of_each(_records(path, "served"))
    errors = {call_id: texts.get(text - 1, "") for call_id, text in _records(path, "raised")}
    noted = [*_records(path, "noted")]
    answers = {
        call_id: (time_ns, tensors, their_bytes)
        for call_id, tensors, their_bytes, time_ns in _records(path, "answered")
        if time_ns in _NS and tensors in _NS and their_bytes in _NS
    }
    unpickled = {
        call_id: (began_ns, ended_ns)
        for call_id, began_ns, ended_ns in _records(path, "unpickled")
        if 0 <= began_ns <= ended_ns < _NS.stop
    }
    received_ns = dict(_moments(path, "received"))
    client_spans = [
        span._replace(received_ns=received_ns.get(span.call_id))
        for call in calls
        if (span := _client_span(call, targets, texts))
    ]
    server_spans = [
        each
        for call in served
        if (
            each := _server_span(
                call, answers.get(call[0]), unpickled.get(call[0]), errors.get(call[0], "")
            )
        )
    ]
    operators = [
        OperatorSpan(texts[name], thread, start_ns, end_ns, is_operator=True)
        for name, thread, start_ns, end_ns in noted
        if name in texts and thread in _NS and 0 <= start_ns <= end_ns < _NS.stop
    ]
    ran = _last_of_each(_records(path, "callbacks"))
    callbacks = [callback_span(row, texts[row[1]]) for row in ran if _is_callback(row, texts)]
    asked = [*_records(path, "gil")]
    gil = [GilWait._make(row) for row in asked if all(value in _NS for value in row)]
    seen = [*_records(path, "pauses")]
    pauses = [pause for row in seen if (pause := _pause(row, texts))]
    kept = len(client_spans) + len(server_spans) + len(operators) + len(callbacks) + len(gil)
    kept += len(pauses)
    return JournalContent(
        client_spans=client_spans,
        server_spans=server_spans,
        done_ns=dict(_moments(path, "done")),
        noted=operators,
        callbacks=callbacks,
        gil=gil,
        pauses=pauses,
        arrivals=_arrivals(path.with_suffix(".arrivals")),
        damaged=len(calls) + len(served) + len(noted) + len(ran) + len(asked) + len(seen) - kept,
    )


def _records(path: Path, name: str) -> Iterator[tuple[Any, ...]]:
    """The values of every record of a file that is whole, up to a bound."""
    layout = LAYOUTS[name]
    with path.with_suffix(f".{name}").open("rb") as file:
        for _ in range(-(-_MOST_RECORDS // CHUNK_RECORDS)):
            chunk = file.read(chunk_bytes(layout))
            whole = min(len(chunk) // layout.size, CHUNK_RECORDS)
            records = layout.iter_unpack(chunk[: whole * layout.size])
            yield from (values for values in records if values[-1])
            if len(chunk) < chunk_bytes(layout):
                return


def _last_of_each(records: Iterable[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
    """One record per call: that of its end, if it has ended."""
    found: dict[int, tuple[Any, ...]] = {}
    for record in records:
        if record[-1] != NOTHING or record[0] not in found:
            found[record[0]] = record
    return list(found.values())


def _moments(path: Path, name: str) -> Iterator[tuple[int, int]]:
    for call_id, time_ns in _records(path, name):
        if call_id in _IDS and time_ns in _NS:
            yield call_id, time_ns


def _arrivals(path: Path) -> list[int] | None:
    if not path.is_file():
        return None
    content = head_of(path, _MOST_RECORDS * 8)
    # The process may have been killed, or the disk full, while it was written.
    return array("q", content[: len(content) // 8 * 8]).tolist()


def _texts(path: Path) -> Iterator[tuple[int, str]]:
    # The last line has no end if the process was killed while it wrote it.
    for line in head_of(path, _MOST_TEXT_BYTES).split(b"\n")[:-1]:
        match _json(line):
            case [int(number), str(text)]:
                yield number, text


def _target(text: str) -> tuple[str, str, str, int, str, str] | None:
    """What a call calls: its kind, function, server, that one's rank, its body, and where the
    function is defined."""
    match _json(text):
        case [str(kind), str(function), str(server), int(rank), str(body), str(defined)] if (
            kind in get_args(CallKind) and body in get_args(CallBody) and rank in _RANKS
        ):
            return kind, function, server, rank, body, defined
    return None


def _json(text: str | bytes) -> Any:
    """What JSON says; None for what is none."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


def _client_span(
    call: tuple[Any, ...], targets: Mapping[int, Any], texts: Mapping[int, str]
) -> ClientSpan | None:
    call_id, target, thread, parent, start_ns, issued_ns, status, error, limit_s, *others = call
    size, tensors, same, site, end = others
    is_valid = (
        targets.get(target) is not None
        and call_id in _IDS
        and (parent in _IDS or parent == NOTHING)
        and thread in _NS
        and start_ns in _NS
        and issued_ns in _NS
        and 0 <= status < len(STATUSES)
        and (0 <= limit_s < _MOST_S or limit_s == NOTHING)
        and all(amount in _NS or amount == NOTHING for amount in (size, tensors))
        and (same in _IDS or same == NOTHING)
        and (start_ns <= end < _NS.stop or end == NOTHING)
    )
    if not is_valid:
        return None
    kind, function, server, server_rank, body, defined = targets[target]
    parent_call, end_ns, timeout_s, request_bytes, request_tensors, same_as = (
        None if value == NOTHING else value for value in (parent, end, limit_s, size, tensors, same)
    )
    # It may have ended, or the process, before the thread that issued it noted the time.
    issued_ns = issued_ns or end_ns or start_ns
    return ClientSpan(
        call_id, kind, body, function, server, server_rank, thread, parent_call, start_ns,
        issued_ns, end_ns, STATUSES[status], texts.get(error, ""), timeout_s, request_bytes,
        site=texts.get(site, ""), defined=defined, request_tensors=request_tensors, same_as=same_as,
    )  # fmt: skip


def _server_span(
    call: tuple[Any, ...], answer: Sequence[int] | None, unpickled: tuple[int, int] | None,
    error: str,
) -> ServerSpan | None:  # fmt: skip
    call_id, thread, start_ns, cpu_ns, before, after, end_ns = call
    is_known = all(_SCHEDULE.fullmatch(schedule.rstrip(b"\0")) for schedule in (before, after))
    if not (is_known and call_id in _IDS and all(t in _NS for t in (thread, start_ns, cpu_ns))):
        return None
    if end_ns == NOTHING:
        return ServerSpan(call_id, thread, start_ns, None, None, None)
    is_valid = start_ns <= end_ns < _NS.stop
    return served_span(call, answer, unpickled, error) if is_valid else None


def _pause(record: tuple[Any, ...], texts: Mapping[int, str]) -> Pause | None:
    thread, text, at_ns = record
    match _json(texts.get(text, "")):
        case [str(why), str(site), bool(is_open)] if thread in _NS and at_ns in _NS:
            return Pause(at_ns, thread, why, site, is_open)
    return None


def _is_callback(record: tuple[Any, ...], texts: Mapping[int, str]) -> bool:
    _, name, call_id, _, thread, start_ns, cpu_ns, run_queue_ns, end_ns = record
    return (
        name in texts
        and (call_id in _IDS or call_id == NOTHING)
        and all(value in _NS for value in (thread, start_ns))
        and all(value in _NS or value == NOTHING for value in (cpu_ns, run_queue_ns))
        and (start_ns <= end_ns < _NS.stop or end_ns == NOTHING)
    )
