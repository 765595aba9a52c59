"""What holds for every trace that the program wrote."""

from itertools import pairwise

import pytest

from tests.trace.perfetto_rules import broken_rules
from tests.trace.record.program_run import TRACES, ProgramRun
from tests.trace.record.tools import NAMES, THREADS

pytestmark = [pytest.mark.world, pytest.mark.thorough]


@pytest.mark.parametrize("name", TRACES)
def test_the_trace_follows_perfettos_rules(ran: ProgramRun, name: str) -> None:
    assert broken_rules(ran.trace(name).document) == []


@pytest.mark.parametrize("name", TRACES)
def test_the_reader_returns_what_the_file_holds(ran: ProgramRun, name: str) -> None:
    trace, file = ran.frames(name), ran.trace(name)
    assert trace.calls["name"].astype("str").tolist() == [call.name for call in file.calls]
    assert trace.calls["start_ns"].tolist() == [call.start_ns for call in file.calls]
    ends = [
        None if end is None else int(end)
        for end in trace.calls["end_ns"].replace({float("nan"): None})
    ]
    assert ends == [call.end_ns for call in file.calls]
    assert len(trace.operators) == len(file.operators)
    linked = trace.operators["call_id"].notna().sum()
    assert linked == sum(each.call is not None for each in file.operators)
    assert list(trace.losses) == file.facts["losses"]


@pytest.mark.parametrize("name", TRACES)
def test_every_call_that_ended_says_when(ran: ProgramRun, name: str) -> None:
    for call in ran.trace(name).calls:
        assert (call.end_ns is None) == (call.status == "unfinished"), call


@pytest.mark.parametrize("name", TRACES)
def test_times_come_in_their_order(ran: ProgramRun, name: str) -> None:
    trace = ran.trace(name)
    # Times on different clocks may be wrong by this.
    error_ns = trace.facts["clock_error_ns"]
    for call in trace.calls:
        assert call.start_ns <= call.issued_ns
        assert call.end_ns is None or call.start_ns < call.end_ns
        if call.server_start_ns is None:
            continue
        assert call.start_ns <= call.server_start_ns + error_ns
        if call.server_end_ns is not None:
            assert call.server_start_ns <= call.server_end_ns
            assert call.done_ns is None or call.server_start_ns <= call.done_ns
        if call.status in ("ok", "raised") and call.body == "python":
            assert call.end_ns is not None
            assert call.server_end_ns is not None
            assert call.server_end_ns <= call.end_ns + error_ns
            assert call.done_ns is None or call.done_ns <= call.end_ns + error_ns


@pytest.mark.parametrize("name", TRACES)
def test_the_parts_of_serving_fit_into_its_time(ran: ProgramRun, name: str) -> None:
    for call in ran.trace(name).calls:
        if call.body != "python" or call.server_end_ns is None:
            assert (call.cpu_ns, call.run_queue_ns) == (None, None)
            continue
        assert call.cpu_ns is not None
        assert call.run_queue_ns is not None
        # The two clocks may differ by some parts in a million.
        assert 0 < call.cpu_ns <= 1.001 * call.served_ns
        # The clocks are read one after another, and the thread may lose its CPU in between.
        assert 0 <= call.run_queue_ns <= call.served_ns - call.cpu_ns + 5_000_000


@pytest.mark.parametrize("name", TRACES)
def test_operators_lie_in_their_calls(ran: ProgramRun, name: str) -> None:
    for call in ran.trace(name).calls:
        for each in call.operators:
            assert (each.rank, each.thread) == (call.server_rank, call.server_thread)
            assert each.link == call.link
            assert call.server_start_ns is not None
            assert call.server_end_ns is not None
            assert call.server_start_ns <= each.start_ns <= each.end_ns <= call.server_end_ns


@pytest.mark.parametrize("name", TRACES)
def test_a_thread_serves_one_call_at_a_time(ran: ProgramRun, name: str) -> None:
    busy: dict[tuple[int, int], list[tuple[int, int]]] = {}
    for call in ran.trace(name).calls:
        if call.server_start_ns is not None and call.server_end_ns is not None:
            assert call.server_thread is not None
            spans = busy.setdefault((call.server_rank, call.server_thread), [])
            spans.append((call.server_start_ns, call.server_end_ns))
    for spans in busy.values():
        spans.sort()
        assert all(end <= start for (_, end), (start, _) in pairwise(spans))


@pytest.mark.parametrize("name", TRACES)
def test_the_ranks_are_described(ran: ProgramRun, name: str) -> None:
    ranks = ran.trace(name).facts["ranks"]
    assert [rank["name"] for rank in ranks] == list(NAMES)
    assert [rank["num_worker_threads"] for rank in ranks] == [THREADS] * 3
    assert len({rank["pid"] for rank in ranks}) == 3
    for rank in ranks:
        assert [rank["pid"], "main"] in rank["threads"]
        assert rank["cpu_s"] > 0
