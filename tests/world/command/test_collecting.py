"""What the processes of a program have sent, put together as it comes."""

from collections.abc import Iterator
from typing import Any

from tests.steps import steps_of
from tests.world.command.reported import (
    BEGAN_NS,
    NAMES,
    PIDS,
    collected,
    counting,
    events_of,
    report_of,
    until,
)
from tuner.world.command.collecting import Collector
from tuner.world.command.ends import given_up, suspected_ns
from tuner.world.command.judging import records_of
from tuner.world.postmortem import starvation


def sent(seconds: int) -> Iterator[tuple[int, dict[str, Any]]]:
    """What two ranks send in so many seconds: each second they count, answer, and a call raises."""
    for rank, pid in enumerate(PIDS):
        yield from ((pid, event) for event in counting(rank, 1))
    answer = next(event for event in events_of(0) if event["kind"] == "answer")
    for second in range(seconds):
        for rank, pid in enumerate(PIDS):
            of = {
                "pid": pid,
                "time_ns": BEGAN_NS + (1 + second) * 10**9,
                "monotonic_s": 1.0 + second,
            }
            state = {"number": second + 1, "rank": rank, "name": NAMES[rank], "calls": second}
            yield pid, {**answer, **of, **state}
            yield pid, {"kind": "count", **of, "calls": second, "cpu_s": 1.0}
            yield pid, {"kind": "raised", "error": "KeyError: 1", **of}


def test_a_look_costs_the_same_however_much_was_sent() -> None:
    def steps(seconds: int) -> int:
        collector = Collector()
        for pid, message in sent(seconds):
            collector.take(pid, message)

        def look() -> None:
            report = collector.report()
            assert len(report.states) == 2 * seconds
            assert suspected_ns(report) == report.raised[-1].time_ns
            assert given_up(report, BEGAN_NS + (seconds + 1) * 10**9) is None
            assert starvation(records_of(report, report.latest_states(3))) is None

        return steps_of(look)

    assert steps(200) < 1.1 * steps(100)


def test_what_comes_piece_by_piece_is_the_same_as_all_at_once() -> None:
    processes = [events_of(0), events_of(1)]
    collector = Collector()
    # What the second one sends comes first, and is in its place all the same.
    for events, pid in zip(reversed(processes), reversed(PIDS), strict=True):
        for event in events:
            collector.take(pid, event)
            collector.report()
    found, known = collector.report(), collected(processes)
    for fact in ("ranks", "states", "raised", "unmet", "gone", "other_ends", "problems"):
        assert sorted(map(str, getattr(found, fact))) == sorted(map(str, getattr(known, fact)))
    assert [state["rank"] for state in found.states] == [0, 1, 0, 1]
    assert [rank.name for rank in found.ranks] == [*NAMES]
    assert found.counts == known.counts


def test_ranks_have_run_once_all_have_run_their_exit_handlers() -> None:
    """A command's own process, too, unless the hook did not reach it."""
    live, ended = until(0, "ready"), events_of(1)
    assert report_of(ended).has_run([])
    assert not report_of(live, ended).has_run([])
    assert not report_of().has_run([])
    parent = {"kind": "started", "pid": 3, "time_ns": 1}
    assert not report_of([parent], ended).has_run([3])
    assert report_of([parent], ended).has_run([4])
