"""What processes of a program report is read as far as it can be, and never without end."""

import gc
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from testing.known import known
from testing.outcomes import failed, measured
from tests.world.command.reported import (
    BEGAN_NS,
    NAMES,
    PIDS,
    events_of,
    journal_of,
    report_of,
    write_journals,
)
from tuner.errors import TraceError
from tuner.plan.program_request import ProgramRequest
from tuner.trace.files.native_reader import trace_of
from tuner.trace.model.trace import Trace
from tuner.trace.record.journal_reader import read_journal
from tuner.world.command.ends import failed_first
from tuner.world.command.joining import join_recorded
from tuner.world.command.judging import Counted, ProgramEnd, outcome_of, records_of
from tuner.world.measurement import Failure, Measurement
from tuner.world.messages import of_program

Events = list[dict[str, Any]]
BOTH = [events_of(rank) for rank in range(len(NAMES))]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    write_journals(tmp_path / "reports")
    return tmp_path / "reports"


def trace_in(folder: Path, processes: Sequence[Events] = BOTH) -> Trace:
    return trace_of(join_recorded(folder, processes), "the trace")


def outcome(*processes: Events, **facts: Any) -> Measurement | Failure:
    report = report_of(*processes)
    known: dict[str, Any] = {"exit_codes": (0,), "output": "", "cause": failed_first(report)}
    end = ProgramEnd(run_s=3.0, report=report, states=records_of(report), **(known | facts))
    return outcome_of(end, ProgramRequest(commands=(("python", "main.py"),)))


def test_a_whole_report_is_a_measurement_and_a_trace(folder: Path) -> None:
    assert known(measured(outcome(*BOTH)).program).calls == 3
    trace = trace_in(folder)
    assert list(trace.calls["server_rank"]) == [1, 1, 1]
    assert (len(trace.operators), trace.losses) == (1, ())


@pytest.mark.parametrize("collects", [True, False])
def test_the_garbage_collector_is_left_as_it_was(folder: Path, collects: bool) -> None:
    if not collects:
        gc.disable()
    try:
        join_recorded(folder, BOTH)
        assert gc.isenabled() is collects
        with pytest.raises(TraceError):
            join_recorded(folder, [])
        assert gc.isenabled() is collects
    finally:
        gc.enable()


def test_calls_that_end_after_a_run_was_stopped_were_still_under_way(folder: Path) -> None:
    """They fail because it was."""
    document = join_recorded(folder, BOTH, stopped_ns=BEGAN_NS + 82_000_000)
    trace = trace_of(document, "the trace")
    assert list(trace.calls["status"]) == ["ok", "ok", "unfinished"]
    assert any(loss.startswith("1 call of agent had no answer") for loss in trace.losses)


@pytest.mark.parametrize(
    ("kind", "fact", "value"),
    [
        ("init_rpc", "rank", "0"),
        ("init_rpc", "rank", True),
        ("init_rpc", "name", "\ud800"),
        ("init_rpc", "world_size", 2**40),
        ("ready", "cpu_s", -1.0),
        ("ended", "peak_rss_mb", float("nan")),
        ("recording", "journal", "../../etc/passwd"),
        ("record-end", "operators", "/etc/passwd"),
        ("record-end", "issued", [["agent", "python"]]),
        ("record-end", "main_thread_s", [0.5]),
        ("record-end", "pool_threads_s", [0.5]),
        ("record-end", "intra_op_threads", 0.5),
        ("imported", "environment", {"A=B": "C"}),
        ("imported", "environment", {"A": "\0"}),
    ],
)
def test_a_fact_of_another_kind_leaves_its_event_out(kind: str, fact: str, value: Any) -> None:
    (event,) = [each for each in events_of(0) if each["kind"] == kind]
    assert known(of_program(event))[fact] == event[fact]
    assert of_program({**event, fact: value}) is None


def test_a_rank_may_not_know_its_number_before_the_rendezvous() -> None:
    event = known(of_program({**events_of(0)[2], "rank": -1, "world_size": None}))
    assert [each.rank for each in report_of([event]).unmet] == [-1]


def fails_to_begin(rank: int, error: str, after_ns: int) -> Events:
    """What a rank reports that fails in `init_rpc`: nothing comes after that."""
    kept = ("rendezvous", "init_rpc", "recording")
    begun = [event for event in events_of(rank) if event["kind"] in kept]
    failed = {"kind": "init-failed", "pid": PIDS[rank], "time_ns": BEGAN_NS + after_ns,
              "name": NAMES[rank], "rank": rank, "error": error,
              "traceback": f"Traceback: {error}"}  # fmt: skip
    return [*begun, failed]


@pytest.mark.parametrize(
    ("exit_code", "others"),
    [(1, ""), (0, ""), (None, " (0 calls made; agent in init_rpc, observer1 in init_rpc)")],
)
def test_the_rank_that_failed_first_in_init_rpc_is_the_cause(
    folder: Path, exit_code: int | None, others: str
) -> None:
    both = [
        fails_to_begin(0, "DistNetworkError: Connection reset by peer", 10**9),
        fails_to_begin(1, "DistStoreError: wait timeout after 0ms", 10**9 - 1),
    ]
    told = {"output": "RuntimeError: what came last", "exit_codes": (exit_code,)}
    failure = failed(outcome(*both, **told))
    assert failure.failure == "init-failed"
    cause = "observer1 failed first, in init_rpc: DistStoreError: wait timeout after 0ms"
    assert failure.message == f"{cause}{others}"
    assert failure.detail == "Traceback: DistStoreError: wait timeout after 0ms"
    for rank in range(len(NAMES)):
        for kind in ("calls", "served", "done"):
            (folder / f"{journal_of(rank)}.{kind}").write_bytes(b"")
    with pytest.raises(TraceError, match="no rank of the program got through init_rpc"):
        join_recorded(folder, both)


def test_a_rank_that_starts_after_all_has_not_failed() -> None:
    """In the same process, or in another one."""
    fails, starts = fails_to_begin(1, "RuntimeError: no", 0), events_of(1)
    assert report_of(events_of(0), fails).init_failure is not None
    assert report_of(events_of(0), fails, starts).init_failure is None
    assert report_of(events_of(0), [*fails, *starts]).init_failure is None


@pytest.mark.slow
def test_no_file_is_read_without_end(folder: Path) -> None:
    """Each has a hole of a terabyte at its end."""
    journal = read_journal(folder / journal_of(1))
    for file in folder.iterdir():
        os.truncate(file, 1 << 40)
    found = read_journal(folder / journal_of(1))
    assert found.server_spans == journal.server_spans
    assert "recorded operators that cannot be read" in " ".join(trace_in(folder).losses)


def test_a_world_of_any_size_is_told_of_by_its_first_ranks(folder: Path) -> None:
    size = {"world_size": 2_000_000_000}
    huge = [event | (size if "world_size" in event else {}) for event in events_of(0)]
    report = report_of(huge, events_of(1))
    assert len(report.missing_ranks) == 9998
    assert "ranks 2, 3, 4, 5, 6, 7, 8, 9, 9990 more" in report.why_missing()
    (told,) = [
        loss for loss in trace_in(folder, [huge, events_of(1)]).losses if "recorded nothing" in loss
    ]
    assert told == "rank 2, 3, 4, 5, 6, 7, 8, 9, 9990 more recorded nothing"


@pytest.mark.parametrize("suffix", ["calls", "texts"])
def test_a_rank_without_its_record_is_told(folder: Path, suffix: str) -> None:
    (folder / f"{journal_of(0)}.{suffix}").unlink()
    trace = trace_in(folder)
    assert len(trace.calls) == 0
    assert any("agent recorded calls that cannot be read" in loss for loss in trace.losses)


def test_a_clock_that_was_set_makes_no_measurement() -> None:
    early = {"shutdown": {"time_ns": BEGAN_NS - 10**9}, "init_rpc": {"world_size": 1}}
    events = [event | early.get(event["kind"], {}) for event in events_of(0)]
    assert failed(outcome(events)).message.startswith("its ranks report 3 calls in -1.0")


def test_a_rank_that_comes_after_the_window_is_not_measured() -> None:
    counted = Counted(calls=7, seconds=2.0, cpu_s={0: 0.25})
    found = measured(outcome(*BOTH, counted=counted))
    assert [(rank.name, rank.cpu_s) for rank in found.ranks] == [("agent", 0.25)]
