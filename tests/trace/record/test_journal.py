"""What a process wrote into its journal is there, however the process ended."""

import os
from pathlib import Path

import pytest

from tuner.trace.model.spans import ClientSpan, OperatorSpan, ServerSpan
from tuner.trace.record.journal import NOTHING, STATUSES, Journal
from tuner.trace.record.journal_reader import read_journal

TARGET = '["rpc_sync", "work", "worker1", 1, "python", "store.py:9"]'


def test_calls_come_back_as_they_were_written(tmp_path: Path) -> None:
    journal = Journal(tmp_path / "one")
    target, problem = journal.text(TARGET), journal.text("[Errno 2]: no")
    site = journal.text("main.py:42")
    raised, unfinished = STATUSES.index("raised"), STATUSES.index("unfinished")
    unknown, sent = (NOTHING,) * 5, (0.5, 99, 3, 2**32 + 5, site)
    journal.calls.put(7, target, 11, NOTHING, 100, 105, unfinished, NOTHING, *sent, NOTHING)
    journal.calls.put(7, target, 11, NOTHING, 100, 105, raised, problem, *sent, 150)
    journal.calls.put(8, target, 12, 7, 120, 0, 0, NOTHING, *unknown, 125)
    journal.calls.put(9, target, 12, 7, 130, 0, unfinished, NOTHING, *unknown, NOTHING)
    first, second, third = read_journal(tmp_path / "one").client_spans
    assert first == ClientSpan(
        7, "rpc_sync", "python", "work", "worker1", 1, 11, None, 100, 105, 150, "raised",
        "[Errno 2]: no", 0.5, 99, site="main.py:42", defined="store.py:9", request_tensors=3,
        same_as=2**32 + 5,
    )  # fmt: skip
    assert (second.timeout_s, second.request_bytes, second.site) == (None, None, "")
    assert (second.request_tensors, second.same_as) == (None, None)
    # An answer that came before the issue was noted.
    assert (second.issued_ns, second.end_ns, second.status) == (125, 125, "ok")
    assert (third.call_id, third.end_ns, third.status) == (9, None, "unfinished")
    assert (third.thread, third.parent_call) == (12, 7)


def test_served_calls_come_back_with_their_time_on_the_run_queue(tmp_path: Path) -> None:
    journal = Journal(tmp_path / "one")
    problem = journal.text("KeyError: 1")
    journal.served.put(7, 21, 1000, 300, b"5000 100 3\n", b"5300 150 4\n", 1900)
    # It was noted as being served when it had just ended.
    journal.served.put(7, 21, 1000, 0, b"", b"", NOTHING)
    journal.served.put(8, 22, 1100, 0, b"", b"", NOTHING)
    journal.served.put(9, 21, 2000, 300, b"", b"", 2900)
    journal.raised.put(9, 1 + journal.text("BaseException"))
    journal.raised.put(9, 1 + problem)
    journal.answered.put(9, 4000, 16_000, 2950)
    journal.unpickled.put(9, 1800, 1950)
    journal.gil.put(1500, 0, 300)
    journal.gil.put(-5, 0, 300)
    journal.pauses.put(21, journal.text('["sleep", "main.py:31", true]'), 1500)
    journal.pauses.put(21, journal.text('["sleep", 31]'), 1500)
    journal.done.put(7, 2500)
    content = read_journal(tmp_path / "one")
    assert content.server_spans == [
        ServerSpan(7, 21, 1000, 1900, 300, 50, slices=1), ServerSpan(8, 22, 1100, None, None, None),
        ServerSpan(9, 21, 2000, 2900, 300, None, 2950, "KeyError: 1", None, 1800, 1950, 4000,
                   16_000),
    ]  # fmt: skip
    assert (content.gil, content.damaged) == ([(1500, 0, 300)], 2)
    assert content.pauses == [(1500, 21, "sleep", "main.py:31", True)]
    assert content.done_ns == {7: 2500}


def test_the_calls_that_had_arrived_come_back(tmp_path: Path) -> None:
    journal = Journal(tmp_path / "one")
    assert read_journal(tmp_path / "one").arrivals is None
    journal.note_arrivals([7, 2**40, 9])
    assert read_journal(tmp_path / "one").arrivals == [7, 2**40, 9]
    # The disk was full.
    (tmp_path / "one.arrivals").write_bytes((tmp_path / "one.arrivals").read_bytes()[:-3])
    assert read_journal(tmp_path / "one").arrivals == [7, 2**40]


def test_a_full_disk_loses_calls_and_does_no_harm(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(descriptor: int, start: int, size: int) -> None:
        raise OSError(28, "No space left on device")

    journal = Journal(tmp_path / "one")
    for number in range(1, 8001):
        if number == 3000:
            monkeypatch.setattr(os, "posix_fallocate", full)
        journal.done.put(number, number)
    assert journal.is_full
    kept = [*read_journal(tmp_path / "one").done_ns]
    assert kept == [*range(1, len(kept) + 1)]
    assert 3000 < len(kept) < 8000


def test_what_comes_after_the_end_is_not_kept_and_nothing_stays_open(tmp_path: Path) -> None:
    before = len([*Path("/proc/self/fd").iterdir()])
    journal = Journal(tmp_path / "one")
    journal.noted.put(journal.text("dist_autograd.backward"), 11, 100, 200)
    journal.close()
    journal.noted.put(0, 11, 300, 400)
    assert journal.text("late") == NOTHING
    assert len([*Path("/proc/self/fd").iterdir()]) == before
    content = read_journal(tmp_path / "one")
    assert content.noted == [OperatorSpan("dist_autograd.backward", 11, 100, 200, True)]
    assert content.damaged == 0


def test_a_site_that_is_none_is_not_known_and_a_target_that_is_none_is_damaged(
    tmp_path: Path,
) -> None:
    journal = Journal(tmp_path / "one")
    ends = (11, NOTHING, 100, 105, 0, NOTHING, 0.5, 99, 0, NOTHING)
    journal.calls.put(7, journal.text(TARGET), *ends, 2**40, 150)
    for number, defined in enumerate(("9", "null", "[]")):
        target = journal.text(TARGET.replace('"store.py:9"', defined))
        journal.calls.put(8 + number, target, *ends, NOTHING, 150)
    journal.calls.put(20, journal.text(TARGET.replace(', "store.py:9"', "")), *ends, NOTHING, 150)
    content = read_journal(tmp_path / "one")
    (span,) = content.client_spans
    assert (span.site, span.defined, content.damaged) == ("", "store.py:9", 4)
