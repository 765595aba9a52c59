from typing import Any

import pytest

from testing.synthetic import call, ranks, trace
from tests.present.screen import printed
from tuner.present.analysis import Analysis
from tuner.present.trace_summary import Shown, print_trace
from tuner.trace.analyze.deadlock import Deadlock, deadlocks
from tuner.trace.analyze.headroom import least_threads
from tuner.trace.model.trace import Trace

Row = dict[str, Any]
STAGE: Row = {"client_rank": 1, "client": "worker1", "server_rank": 2, "server": "worker2"}


def forward(number: int, *ways: str, begun: bool = True) -> list[Row]:
    """A call of stage1 that is served, or queued, and waits so for the last of its own calls."""
    served = (1.0, None) if begun else None
    made = call(number, 0, None, served_ms=served, thread=number, function="forward")
    own = [
        call(10 * number + place, 2 + place, None, parent_call=number, kind=way, **STAGE,
             function="" if way == "to_here" else "second")
        for place, way in enumerate(ways)
    ]  # fmt: skip
    return [made, *own]


def stuck(*calls: list[Row], threads: int) -> Trace:
    rows = [row for each in calls for row in each]
    return trace(rows, processes=ranks(3, threads=threads), window_ms=(0, 100))


def found_in(taken: Trace) -> Deadlock:
    (found,) = deadlocks(taken, least_threads(taken))
    return found


@pytest.mark.parametrize(
    ("ways", "said"),
    [
        (("rpc_remote", "to_here"), "in to_here for second on worker2"),
        (("rpc_sync",), "in a nested rpc_sync for second on worker2"),
        (("rpc_async",), "in wait() for second on worker2"),
        # Only the first one surely blocks the thread.
        (("rpc_async", "rpc_sync"), "in a nested rpc_sync for second on worker2"),
    ],
)
def test_a_deadlock_names_its_chain_and_how_each_thread_waits(
    ways: tuple[str, ...], said: str
) -> None:
    taken = stuck(*(forward(number, *ways) for number in (1, 2)), threads=2)
    assert found_in(taken).sentence == (
        f"Deadlock: all 2 worker threads of worker1 wait, inside forward, {said}. Each answer "
        "needs a free thread of worker1: use 3 threads or more (num_worker_threads)."
    )


def test_queued_calls_of_the_same_function_need_threads_too() -> None:
    waiting, queued = forward(1, "rpc_sync"), forward(2, begun=False)
    found = found_in(stuck(waiting, queued, threads=1))
    assert found.needs == 3
    assert "the only worker thread of worker1 waits, inside forward" in found.sentence


def test_a_call_that_timed_out_keeps_its_thread_or_its_place_in_the_queue() -> None:
    waiting, queued = forward(1, "rpc_sync"), forward(2, begun=False)
    for row in (waiting[0], queued[0]):
        row |= {"end_ns": 50_000_000, "status": "timed-out"}
    assert found_in(stuck(waiting, queued, threads=1)).needs == 3


def test_the_answer_begins_with_the_deadlock() -> None:
    taken = stuck(forward(1, "rpc_sync"), threads=1)
    analysis = Analysis.of(taken)
    shown = printed(print_trace, analysis, Shown(), width=300)
    assert shown.startswith("Deadlock: the only worker thread of worker1 waits, inside forward")
    assert "use 2 threads or more" in shown.splitlines()[0]
    (document,) = analysis.to_json()["deadlocks"]
    assert (document["process"], document["threads"], document["needs"]) == ("worker1", 1, 2)


def test_where_a_thread_does_something_else_there_is_no_deadlock() -> None:
    computing = call(2, 0, None, served_ms=(1, None), thread=2, function="forward")
    taken = stuck(forward(1, "rpc_sync"), [computing], threads=2)
    assert deadlocks(taken, least_threads(taken)) == []
