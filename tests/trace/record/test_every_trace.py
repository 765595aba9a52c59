"""What holds for every trace that the program wrote."""

from collections.abc import Sequence
from itertools import pairwise

import pytest

from tests.trace.perfetto_rules import broken_rules
from tests.trace.record.conftest import ProgramRun
from tests.trace.record.seen_trace import SeenCall
from tests.trace.record.tools import NAMES, THREADS

pytestmark = [pytest.mark.world, pytest.mark.thorough]

TRACES = (
    "kinds", "failures", "others", "places", "edges", "unfinished", "after", "again", "outer",
    "beside", "kineto inside", "legacy inside", "gradients", "hammered", "clocks", "naps", "work",
)  # fmt: skip


@pytest.mark.parametrize("name", TRACES)
def test_a_trace_fits_together(ran: ProgramRun, name: str) -> None:
    trace = ran.trace(name)
    error_ns = trace.frames.clock_error_ns
    # Within the error of its clocks an arrow may point back.
    broken = [each for each in broken_rules(trace.document) if "back in time" not in each]
    assert (broken if error_ns else broken_rules(trace.document)) == []
    assert [rank.name for rank in trace.frames.ranks] == list(NAMES)
    for rank in trace.frames.ranks:
        assert rank.num_worker_threads == THREADS
        assert (rank.pid, "main") in rank.threads
        assert (rank.cpu_s or 0) > 0
    for call in trace.calls:
        times_come_in_their_order(call, error_ns)
        the_parts_of_serving_fit_into_its_time(call)
        for each in call.operators:
            assert (each.rank, each.thread) == (call.server_rank, call.server_thread)
            assert each.link == call.link
            assert call.server_start_ns <= each.start_ns <= each.end_ns <= call.server_end_ns
    a_thread_serves_one_call_at_a_time(trace.calls)


def times_come_in_their_order(call: SeenCall, error_ns: int) -> None:
    """Those of different clocks may be wrong by `error_ns`."""
    assert (call.end_ns is None) == (call.status == "unfinished"), call
    assert call.start_ns <= call.issued_ns
    assert call.end_ns is None or call.start_ns < call.end_ns
    if call.server_start_ns is None:
        return
    assert call.start_ns <= call.server_start_ns + error_ns
    if call.server_end_ns is not None:
        assert call.server_start_ns <= call.server_end_ns
        assert call.done_ns is None or call.server_start_ns <= call.done_ns
    if call.status in ("ok", "raised") and call.body == "python":
        assert max(call.server_end_ns, call.done_ns or 0) <= call.end_ns + error_ns


def the_parts_of_serving_fit_into_its_time(call: SeenCall) -> None:
    if call.body != "python" or call.server_end_ns is None:
        assert (call.cpu_ns, call.run_queue_ns) == (None, None)
        return
    # The two clocks may differ by some parts in a million.
    assert 0 < call.cpu_ns <= 1.001 * call.served_ns
    # The clocks are read one after another, and the thread may lose its CPU in between.
    assert 0 <= call.run_queue_ns <= call.served_ns - call.cpu_ns + 5_000_000


def a_thread_serves_one_call_at_a_time(calls: Sequence[SeenCall]) -> None:
    ended = [call for call in calls if call.server_end_ns is not None]
    ended.sort(key=lambda call: (call.server_rank, call.server_thread, call.server_start_ns))
    for one, other in pairwise(ended):
        if (one.server_rank, one.server_thread) == (other.server_rank, other.server_thread):
            assert one.server_end_ns <= other.server_start_ns
