"""The least threads, from traces written by hand."""

from dataclasses import replace
from typing import Any

import pytest

from testing.synthetic import call, ranks, trace
from tuner.trace.analyze.headroom import ALLOWED_OFF_US, LeastThreads, least_threads
from tuner.trace.model.trace import Trace

Row = dict[str, Any]


def traced(*calls: Row, threads: int = 16) -> Trace:
    return trace(calls, processes=ranks(4, threads=threads))


def served(call_id: int, start_ms: float, end_ms: float, *, off_ms: float, **columns: Any) -> Row:
    """A call of worker0 to worker1 that is served throughout, and off the CPU for so long."""
    return call(
        call_id, start_ms, end_ms, served_ms=(start_ms, end_ms), thread=10 + call_id,
        cpu_ms=end_ms - start_ms - off_ms, run_queue_ms=0, **columns,
    )  # fmt: skip


def nested(call_id: int, parent: int, start_ms: float, end_ms: float | None, **columns: Any) -> Row:
    """A call of worker1 to worker2, made while it served `parent`."""
    return call(call_id, start_ms, end_ms, client_rank=1, server_rank=2, parent_call=parent,
                **{"kind": "rpc_sync", **columns})  # fmt: skip


def relay_of(seen: Trace, names: str = "worker1") -> LeastThreads:
    return next(each for each in least_threads(seen, [("relay", names)]) if each.role == "relay")


USUAL_MS = ALLOWED_OFF_US / 1e3
COMPUTES = [served(i, 10 * i, 10 * i + 5, off_ms=USUAL_MS) for i in range(99)]
LATER: Row = {"kind": "rpc_async"}


@pytest.mark.parametrize(
    ("calls", "least", "says"),
    [
        # Threads that wait at once count, and one with two calls under way counts once.
        ([served(1, 0, 50, off_ms=30), served(2, 0, 50, off_ms=20), served(3, 60, 90, off_ms=10),
          nested(11, 1, 10, 30), nested(14, 1, 12, 40), nested(12, 2, 20, 40),
          nested(13, 3, 70, 80)], 3,
         "relay never had more than 2 calls waiting inside served calls: 3 threads are enough not "
         "to deadlock."),
        # A function that ended before the answer did not wait for it.
        ([served(1, 0, 20, off_ms=0), nested(11, 1, 10, 30, **LATER)], 1,
         "relay never had a call waiting inside a served call: 1 thread is enough not to "
         "deadlock."),
        # Of three calls at a time, the last one to come lets all of them go on.
        ([served(3 * n + i, 10 * n + i, 10 * n + 3, off_ms=2 - i) for n in range(10)
          for i in range(3)], None,
         "relay ran calls of udf that were off the CPU, up to 2 at once. If they waited for each "
         "other, or for calls that the trace does not show, fewer than 3 threads may deadlock."),
        ([served(i, 10 * i, 10 * i + 5, off_ms=1) for i in range(10)], None,
         "relay ran calls of udf that were off the CPU, one at a time. If they waited for calls "
         "that the trace does not show, fewer than 2 threads may deadlock."),
        # Of five calls, three wait for calls of their own and two for a semaphore.
        ([*(served(i, 0, 50, off_ms=40) for i in range(5)),
          *(nested(10 + i, i, 5, 45) for i in range(3))], None,
         "relay ran calls of udf that were off the CPU or waited for calls of their own, up to 5 "
         "at once. Fewer than 6 threads may deadlock."),
        # It computes beside a call of as long, and then waits for another served call.
        ([served(1, 0, 20, off_ms=10), nested(11, 1, 0, 10, **LATER)], None,
         "relay ran calls of udf that were off the CPU or waited for calls of their own, one at a "
         "time. Fewer than 2 threads may deadlock."),
        # Of a call that takes longer than all that it computes, the rest is a wait for it.
        ([served(1, 0, 20, off_ms=20), nested(11, 1, 0, 20, **LATER)], 2, None),
        ([served(1, 0, 20, off_ms=15), nested(11, 1, 5, 20), nested(12, 1, 5, 15, **LATER)], 2,
         None),
        # One that is off the CPU for longer takes the promise away, but is no reason to warn.
        (COMPUTES, 1, None),
        ([*COMPUTES, served(99, 990, 995, off_ms=2 * USUAL_MS)], None, ""),
        # What is served without Python, what scripts call, and what was lost, promises nothing.
        *(([call(1, 0, 9, body=body, served_ms=served_ms)], None, "")
          for body in ("builtin", "script") for served_ms in (None, (1, 5))),
        ([served(1, 0, 9, off_ms=0), call(2, 0, 9, body="script", server_rank=2)], None, ""),
        ([served(1, 0, 9, off_ms=0), call(2, 0, 9)], None, ""),
        # A fetch holds no thread.
        ([served(1, 0, 9, off_ms=0), call(2, 0, 9, kind="to_here", body="fetch", function="")], 1,
         None),
    ],
)  # fmt: skip
def test_how_many_threads_are_enough(calls: list[Row], least: int | None, says: str | None) -> None:
    found = relay_of(traced(*calls))
    assert found.least == least
    assert says in (None, found.text)


STUCK = [call(i, 0, None, served_ms=(1, None), thread=10 + i) for i in (1, 2)]
"""What it did before it waited is not known."""


@pytest.mark.parametrize(
    ("calls", "threads", "at_least", "says"),
    [
        # Calls that were all off the CPU let each other go on.
        ([served(i, 0, 9, off_ms=5) for i in range(3)], 16, 3, "ewer than 3 threads may"),
        # What never ends holds its thread.
        *(([*STUCK, nested(11, 1, 10, None), nested(12, 2, 20, None)], threads, 3, says)
          for threads, says in ((2, "that is a deadlock"), (3, "ewer than 3 threads may"),
                                (16, "ewer than 3 threads may"))),
        # With more calls under way, more threads might have waited.
        ([served(1, 0, 50, off_ms=20), served(2, 50, 90, off_ms=0) | {"start_ns": 0},
          nested(11, 1, 10, 30)], 2, 2, "with 2 threads: it may need more."),
        # As many threads as there were did not deadlock.
        ([served(i, 0, 9, off_ms=5) for i in range(4)], 4, 4, "fewer than 4 threads may"),
        ([served(i, 10 * i, 10 * i + 9, off_ms=9) for i in range(4)], 1, 1, None),
    ],
)  # fmt: skip
def test_where_the_least_is_not_known(
    calls: list[Row], threads: int, at_least: int, says: str | None
) -> None:
    found = relay_of(traced(*calls, threads=threads))
    assert found.least is None
    assert found.at_least == at_least
    assert says in found.text if says else found.text == ""


def test_a_deadlock_of_one_process_is_said_though_as_many_calls_sleep_in_another() -> None:
    stuck = [
        row
        for i in (3, 4)
        for row in (
            call(i, 0, None, served_ms=(1, None), thread=i, server_rank=2),
            nested(10 + i, i, 10, None) | {"client_rank": 2, "server_rank": 3},
        )
    ]
    asleep = (served(i, 0, 50, off_ms=50) for i in (1, 2))
    found = relay_of(traced(*asleep, *stuck, threads=2), "worker[12]")
    assert found.is_deadlock
    assert "had 2 calls waiting inside served calls at once, with 2 threads: that is" in found.text


@pytest.mark.parametrize("server_rank", [1, 2])
def test_a_call_that_is_still_served_is_no_deadlock(server_rank: int) -> None:
    """The only call that waited for one of its own has ended, on the same server or another one."""
    lasting = call(2, 60, None, served_ms=(61, None), server_rank=server_rank)
    seen = traced(served(1, 0, 50, off_ms=20), nested(11, 1, 10, 30), lasting, threads=1)
    found = relay_of(seen, "worker[12]")
    assert not found.is_deadlock
    assert "that is a deadlock" not in found.text


def test_of_a_role_that_served_nothing_nothing_is_said() -> None:
    found = least_threads(traced(served(1, 0, 9, off_ms=0)), [("server", "worker1")])
    assert [(each.role, each.least, bool(each.text)) for each in found] == [
        ("worker", None, False), ("server", 1, True),
    ]  # fmt: skip


def test_where_a_rank_is_missing_nothing_is_concluded() -> None:
    whole = traced(call(1, 0, 50, served_ms=(1, 49)))
    assert least_threads(whole)
    first, *others = whole.ranks
    assert not least_threads(replace(whole, ranks=(first,)))
    assert not least_threads(replace(whole, ranks=tuple(others)))
    assert not least_threads(traced())
