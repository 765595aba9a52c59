"""What a process wrote into its journal is there, however the process ended."""

import os
import signal
from pathlib import Path

import pytest

from tuner.trace.record.journal import NEVER_SENT, NOTHING, Journal, Slots, read_journal

TARGET = '["rpc_sync", "work", "worker1", 1, "python"]'


def test_calls_come_back_as_they_were_written(tmp_path: Path) -> None:
    journal = Journal(tmp_path / "one")
    target, problem = journal.text(TARGET), journal.text("ValueError: no")
    ended = journal.calls.open(7, target, 11, NOTHING, 100)
    never = journal.calls.open(8, target, 11, 7, 120)
    journal.calls.open(9, target, 12, 7, 130)
    journal.calls.close(ended, 105, 1, problem, 150)
    journal.calls.close(never, 0, NEVER_SENT, NOTHING, 121)
    first, second = read_journal(tmp_path / "one").client_spans
    assert (first.call_id, first.kind, first.function) == (7, "rpc_sync", "work")
    assert (first.server, first.server_rank) == ("worker1", 1)
    assert (first.start_ns, first.issued_ns, first.end_ns) == (100, 105, 150)
    assert (first.status, first.error, first.parent_call) == ("raised", "ValueError: no", None)
    assert (second.call_id, second.end_ns, second.status) == (9, None, "unfinished")
    assert (second.thread, second.parent_call) == (12, 7)


def test_served_calls_come_back_with_their_time_on_the_run_queue(tmp_path: Path) -> None:
    journal = Journal(tmp_path / "one")
    served = journal.served.open(7, 21, 1000)
    journal.served.open(8, 22, 1100)
    journal.served.close(served, 300, b"5000 100 3\n", b"5300 150 4\n", 1900)
    unknown = journal.served.open(9, 21, 2000)
    journal.served.close(unknown, 300, b"", b"", 2900)
    journal.done.open(7, 2500)
    content = read_journal(tmp_path / "one")
    assert content.server_spans == [
        (7, 21, 1000, 1900, 300, 50), (8, 22, 1100, None, None, None),
        (9, 21, 2000, 2900, 300, None),
    ]  # fmt: skip
    assert content.done_ns == {7: 2500}


def test_a_killed_process_leaves_all_that_it_wrote(tmp_path: Path) -> None:
    number = 30_000
    child = os.fork()
    if child == 0:
        slots = Slots("2q")
        slots.create(tmp_path / "slots")
        for place in range(number):
            slots.close(slots.open(place, 1 + place), 2 + place)
        slots.open(number, 1 + number)
        os.kill(os.getpid(), signal.SIGKILL)
    assert os.waitpid(child, 0)[1] == signal.SIGKILL
    found = list(Slots("2q").read(tmp_path / "slots"))
    assert found == [
        *(((place, 1 + place), (2 + place,)) for place in range(number)),
        ((number, 1 + number), None),
    ]


def test_a_full_disk_loses_calls_and_does_no_harm(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(descriptor: int, start: int, size: int) -> None:
        raise OSError(28, "No space left on device")

    slots = Slots("q")
    slots.create(tmp_path / "slots")
    monkeypatch.setattr(os, "posix_fallocate", full)
    opened = [slots.open(number + 1) for number in range(5000)]
    kept = [slot for slot in opened if slot != NOTHING]
    assert kept == list(range(len(kept)))
    assert 1000 < len(kept) < 5000
    for slot in opened:
        slots.close(slot, 1)
    assert len(list(slots.read(tmp_path / "slots"))) == len(kept)
