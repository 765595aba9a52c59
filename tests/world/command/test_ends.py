"""From what the processes of a program report follows which one failed first, if any did."""

from collections.abc import Callable
from typing import Any

import pytest

from tests.world.command.reported import PIDS, events_of, report_of, until
from tuner.world.command.ends import GRACE_S, STILL_S, UNBEGUN_S, failed_first, given_up, stuck
from tuner.world.command.reports import ProgramReport

LAST_NS = events_of(1)[-1]["time_ns"]
END_NS = LAST_NS + 10**9
"""When a rank ended, after all else that both have reported."""
Event = dict[str, Any]


def exit_of(rank: int, error: str = "", time_ns: int = END_NS) -> Event:
    return {"kind": "exit", "pid": PIDS[rank], "time_ns": time_ns, "error": error,
            "traceback": f"Traceback: {error}"}  # fmt: skip


def gone(rank: int, code: int | None = None, time_ns: int = END_NS) -> Event:
    return {"kind": "gone", "pid": PIDS[rank], "time_ns": time_ns, "code": code}


NO = "ValueError: no"
BROKEN = "RuntimeError: eof (this error originated at tensorpipe/transport/shm/c.cc:259)"
LEAVES = [*until(1, "ready"), exit_of(1), gone(1)]
FAILS = [*until(1, "ready"), exit_of(1, NO)]
BREAKS = [*until(0, "ready"), exit_of(0, BROKEN)]
GRACE_NS, LATE_NS = int(GRACE_S * 1e9), END_NS + 60 * 10**9


def again(events: list[Event]) -> list[Event]:
    return [{**event, "time_ns": event["time_ns"] + 2 * 10**9} for event in events]


def told(report: ProgramReport, until_ns: int | None = None) -> str:
    cause = failed_first(report, until_ns)
    return "" if cause is None else cause.text


@pytest.mark.parametrize(
    ("ending", "text"),
    [
        ([exit_of(1, NO)], "observer1 failed first: ValueError: no"),
        ([exit_of(1), gone(1, 1)], ""),
        ([exit_of(1, NO), gone(1, 1)], "observer1 failed first: ValueError: no"),
        ([exit_of(1, NO), gone(1, 0)], ""),  # it has handled that
        ([gone(1, -11)], "observer1 failed first (signal 11, SIGSEGV)"),
        ([gone(1, 7)], "observer1 failed first (exit code 7)"),
        *(([gone(1, code)], "") for code in (0, -15, -9, None)),
    ],
)
def test_only_an_end_that_nobody_asked_for_is_a_failure(ending: list[Event], text: str) -> None:
    report = report_of(until(0, "ended"), [*until(1, "ready"), *ending])
    assert told(report) == told(report, END_NS) == text
    assert told(report, END_NS - 1) == ""  # the program had ended before


@pytest.mark.parametrize(
    ("processes", "text"),
    [
        ([[*until(1, "init_rpc"), exit_of(1, NO)]], f"observer1 failed first, in init_rpc: {NO}"),
        ([[*until(1, "shutdown"), exit_of(1, NO)]], f"observer1 failed first, in shutdown: {NO}"),
        ([[*until(1, "ended"), exit_of(1, NO)]], f"observer1 failed first: {NO}"),
        # One that was started again has not failed, in whatever process.
        ([until(0, "ready"), FAILS, again(until(1, "ready"))], ""),
        ([until(0, "ready"), [*FAILS, *again(until(1, "ready"))]], ""),
        # A broken connection is the fault of the peer.
        ([BREAKS, [*until(1, "ready"), exit_of(1, time_ns=END_NS - 1), gone(1)]],
         "observer1 ended without shutdown, and others wait for it"),
        ([BREAKS, [*until(1, "ready"), gone(1, time_ns=END_NS + 1)]],
         "observer1 was killed first, or it called os._exit"),
        ([BREAKS, [*until(1, "ready"), exit_of(1, NO, END_NS + 1)]],
         f"observer1 failed first: {NO}"),
        ([BREAKS, until(1, "ready")], f"agent failed first: {BROKEN}"),
        ([[*until(0, "ready"), exit_of(0, "OSError: later", END_NS + 1)], FAILS],
         f"observer1 failed first: {NO}"),
    ],
)  # fmt: skip
def test_the_first_failure_is_told_and_where_the_rank_was(
    processes: list[list[Event]], text: str
) -> None:
    report = report_of(*processes)
    assert told(report) == text
    if (cause := failed_first(report)) is not None and NO in text:
        assert cause.in_init == ("init_rpc" in text)
        assert (cause.rank, cause.traceback) == ("observer1", f"Traceback: {NO}")


@pytest.mark.parametrize("grace_s", [GRACE_S, UNBEGUN_S])
def test_a_program_gets_time_to_end_or_to_start_the_rank_again(grace_s: float) -> None:
    new = [{"kind": "started", "pid": 7, "time_ns": END_NS + 1}] * (grace_s == UNBEGUN_S)
    report = report_of(until(0, "ready"), FAILS, new)
    assert given_up(report, END_NS + int(grace_s * 1e9)) is None
    assert given_up(report, END_NS + int(grace_s * 1e9) + 1) is not None


def test_what_stood_still_while_another_rank_went_on_does_not_wait_yet() -> None:
    """A server that is called now and then is as still as one that nobody calls."""
    last_ns = states(raised_s=0)[-1]["time_ns"]
    client = [{**event, "pid": 7, "rank": 2} for event in LEAVES]
    for ended_ns, is_stuck in ((END_NS, True), (last_ns, False)):
        ends = [{**each, "time_ns": ended_ns} if each["kind"] in ("exit", "gone") else each
                for each in client]  # fmt: skip
        server = [*until(0, "ready"), *states(raised_s=0)[1:]]
        report = report_of(server, LEAVES, ends)
        assert (stuck(report, last_ns + 10**9) is not None) == is_stuck


@pytest.mark.parametrize("ending", [[exit_of(1), gone(1)], [gone(1)]])
def test_shutdown_waits_in_vain_for_a_rank_that_is_gone(ending: list[Event]) -> None:
    leaves = [*until(1, "ready"), *ending]
    waits = report_of(until(0, "shutdown"), leaves)
    assert stuck(waits, END_NS + GRACE_NS) is None
    assert (cause := stuck(waits, END_NS + GRACE_NS + 1))
    assert cause.rank == "observer1"
    for goes_on in (until(0, "ready"), until(0, "ended")):
        assert stuck(report_of(goes_on, leaves), END_NS + 10 * GRACE_NS) is None
    # A thread of it may go on when it has told of its end.
    lives = [*until(1, "ready"), exit_of(1)]
    assert stuck(report_of(until(0, "shutdown"), lives), END_NS + 10 * GRACE_NS) is None


@pytest.mark.parametrize(
    ("changes", "is_stuck"),
    [
        (lambda second: {"serving": 0}, True),  # it waits for something else, and in vain
        (lambda second: {"daemon_sleeps": True}, True),  # it calls nothing that is needed
        (lambda second: {"sleeps": True}, False),
        (lambda second: {"calls": second}, False),
    ],
)
def test_ranks_outside_shutdown_may_go_on_without_one_that_is_gone(
    changes: Callable[[int], Event], is_stuck: bool
) -> None:
    leaves = [{**event, "pid": 7, "rank": 2} for event in LEAVES
              if event["kind"] in ("init_rpc", "ready", "exit", "gone")]  # fmt: skip
    goes_on = [*until(0, "ready"), *states(raised_s=0, changes=changes)[1:]]
    report = report_of(goes_on, until(1, "shutdown"), leaves)
    assert (stuck(report, LATE_NS) is not None) == is_stuck


def test_a_program_gets_time_after_the_last_of_its_ranks_that_went_on() -> None:
    other = [{**event, "pid": 7, "rank": 2, "time_ns": LATE_NS} for event in LEAVES]
    report = report_of(until(0, "shutdown"), LEAVES, other)
    assert stuck(report, LATE_NS + GRACE_NS) is None
    assert stuck(report, LATE_NS + GRACE_NS + 1) is not None
    ending = report_of(until(0, "shutdown"), LEAVES, other[:-1])
    assert stuck(ending, LATE_NS + 10 * GRACE_NS) is None  # it is not gone yet


def test_a_shutdown_with_a_time_limit_is_waited_for() -> None:
    failed = {"pool_size": None, "busy_s": None}
    for change in ({"sleeps": True}, failed):
        answers = [{**state, **change} for state in states(raised_s=0)[1:]]
        report = report_of([*until(0, "shutdown"), *answers], LEAVES)
        assert stuck(report, LATE_NS) is None


def states(*, raised_s: float, changes: Callable[[int], Event] = lambda second: {}) -> list[Event]:
    """A rank that raised something so many seconds after it began to answer once a second."""
    answer = next(event for event in events_of(0) if event["kind"] == "answer")
    found: list[Event] = [
        {**answer, "number": second, "monotonic_s": float(second),
         "time_ns": END_NS + second * 10**9, **changes(second)}
        for second in range(int(STILL_S) + 4)
    ]  # fmt: skip
    raised = {"kind": "raised", "pid": PIDS[0], "time_ns": END_NS + int(raised_s * 1e9),
              "error": "KeyError: 1 (in a call that agent served)"}  # fmt: skip
    return [raised, *found]


@pytest.mark.parametrize(
    ("answers", "is_stuck"),
    [
        (states(raised_s=-1), True),
        (states(raised_s=2.5), True),
        (states(raised_s=5), False),  # not long enough ago
        (states(raised_s=1.5, changes=lambda second: {"calls": min(second, 2)}), True),
        (states(raised_s=-1, changes=lambda second: {"calls": min(second, 2)}), False),
        (states(raised_s=-1, changes=lambda second: {"calls": second}), False),
        (states(raised_s=-1, changes=lambda second: {"sleeps": True}), False),
        (states(raised_s=-1, changes=lambda second: {"daemon_sleeps": True}), False),
        (states(raised_s=-1, changes=lambda second: {"serving": 0}), False),
        (states(raised_s=-1, changes=lambda second: {"serving": 0, "calling": 1}), True),
        (states(raised_s=-1, changes=lambda second: {"busy_s": second / 10}), False),
        (states(raised_s=-1, changes=lambda second: {"busy_s": second / 1000}), True),
        (states(raised_s=-1, changes=lambda second: {"serving": second % 2}), False),
        (states(raised_s=-1, changes=lambda second: {"busy_s": None}), False),
    ],
)
def test_what_a_call_raised_is_a_cause_where_nothing_happens_since(
    answers: list[Event], is_stuck: bool
) -> None:
    report = report_of([*until(0, "ready"), *answers], until(1, "ended"))
    cause = stuck(report, LATE_NS)
    text = "agent failed first: KeyError: 1 (in a call that agent served)"
    assert (None if cause is None else cause.text) == (text if is_stuck else None)
    assert told(report) == ""  # it may have been handled


def test_ranks_wait_for_one_whose_process_failed_before() -> None:
    """They have no agent yet that could be asked what it does."""
    waiting = [{**event, **dict.fromkeys(("pool_size", "idle"), None)}
               for event in states(raised_s=0)[1:]]  # fmt: skip
    failed = [{**exit_of(1, "FileNotFoundError: no data", END_NS), "pid": 7}]
    cause = stuck(report_of([*until(0, "rendezvous"), *waiting], failed), LATE_NS)
    text = "a process that is no rank failed first: FileNotFoundError: no data"
    assert (cause and cause.text) == text
