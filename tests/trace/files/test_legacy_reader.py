import json
from pathlib import Path
from typing import Any

import pytest

from testing.golden_files import LEGACY, rows
from tuner.errors import UsageError
from tuner.trace.files.legacy_reader import OVERLAP_LOSS, REMOTE_LOSS
from tuner.trace.files.reader import read_trace

KEY = "rpc_sync#f(one -> two)"


def span(name: str, tid: int | str = 1, ts: float = 1.0, dur: float = 2.0) -> dict[str, Any]:
    where = {"tid": tid, "pid": "CPU functions"}
    return {"name": name, "ph": "X", "ts": ts, "dur": dur, **where, "args": {}}


def remote(rank: int, thread: int) -> str:
    return f" node_id:{rank}, thread_id:{thread} "


def write(path: Path, spans: list[dict[str, Any]]) -> Path:
    path.write_text(json.dumps(spans))
    return path


def test_calls_and_operators_have_ranks_by_the_names_of_the_calls() -> None:
    trace = read_trace(LEGACY)
    served, inner = "rpc_async#serve(trainer -> ps)", "rpc_sync#inner(ps -> helper)"
    columns: tuple[str, ...] = (
        "rank", "thread", "name", "start_ns", "end_ns", "call_id", "call_name", "link"
    )  # fmt: skip
    assert rows(trace.operators, *columns) == [
        (0, 1, "aten::ones", 100_000, 120_000, None, "", ""),
        (1, 3, "aten::neg", 640_000, 645_000, 2, inner, "inferred"),
        (2, 5, "aten::mul", 500_125, 530_125, 1, served, "inferred"),
        (2, 5, "aten::add", 540_000, 550_000, 1, served, "inferred"),
    ]
    assert trace.window_ns == (100_000, 1_200_750)
    columns = ("call_id", "name", "client_rank", "server_rank", "client_thread", "start_ns",
               "end_ns", "status", "link", "server_start_ns", "parent_call")  # fmt: skip
    assert rows(trace.calls, *columns) == [
        (1, served, 0, 2, 1, 300_500, 1_200_750, "ok", "", None, None),
        (2, inner, 2, 1, 5, 600_000, 700_000, "ok", "", None, 1),
    ]


def test_only_exact_repetitions_are_left_out(tmp_path: Path) -> None:
    same, there = f"{KEY}#remote_op: aten::mul", remote(1, 1)
    spans = [
        span(same, there), span(same, remote(1, 2)), span(same, remote(2, 1)),
        span(same, there, ts=1.001), span(same, there, dur=2.001),
        span(same.replace("mul", "add"), there), span(same.replace("sync", "async"), there),
        span("aten::mul", 1),
    ]  # fmt: skip
    assert len(read_trace(write(tmp_path / "a", spans)).operators) == len(spans)
    trace = read_trace(write(tmp_path / "b", [*spans, *spans, span(KEY), span(KEY)]))
    assert (len(trace.operators), len(trace.calls)) == (len(spans), 1)
    assert ": 9 spans repeated" in trace.losses[0]


def test_the_profiling_rank_is_the_one_of_its_name(tmp_path: Path) -> None:
    """It calls itself, which tells its number; rank 0 is taken."""
    to_itself = "rpc_sync#f(two -> two)"
    spans = [
        span(to_itself),
        span(f"{to_itself}#remote_op: aten::mul", remote(2, 4)),
        span("rpc_sync#f(two -> zero)#remote_op: aten::mul", remote(0, 4)),
    ]
    trace = read_trace(write(tmp_path / "a", spans))
    assert [(rank.rank, rank.name) for rank in trace.ranks] == [(0, "zero"), (2, "two")]
    assert rows(trace.calls, "client_rank", "server_rank") == [(2, 2)]


def test_what_ran_belongs_to_the_last_call_of_its_name_that_had_begun(tmp_path: Path) -> None:
    ran, nested = f"{KEY}#remote_op: aten::mul", f"{KEY}#remote_op: {KEY}"
    spans = [
        span(KEY, ts=10, dur=5),
        span(KEY, ts=20, dur=50),
        *(span(ran, remote(1, 1), ts=ts, dur=1) for ts in (9, 10, 14, 16, 20, 45)),
        span(nested, remote(1, 1), ts=40, dur=10),
        span("rpc_sync#g(two -> one)#remote_op: aten::mul", remote(1, 1), ts=30, dur=1),
    ]
    trace = read_trace(write(tmp_path / "a", spans))
    assert rows(trace.calls, "call_id", "start_ns", "parent_call") == [
        (1, 10_000, None), (2, 20_000, None), (3, 40_000, 2)
    ]  # fmt: skip
    called = dict(rows(trace.operators, "start_ns", "call_id"))
    assert called == {
        9000: None, 10_000: 1, 14_000: 1, 16_000: None, 20_000: 2, 30_000: None, 45_000: 3,
    }  # fmt: skip


def test_a_process_alone_is_rank_0(tmp_path: Path) -> None:
    for name, rank, losses in (
        (KEY, "one", (OVERLAP_LOSS, REMOTE_LOSS)),
        ("aten::mul", "rank 0", ()),
    ):
        trace = read_trace(write(tmp_path / "a", [span(name)]))
        assert [(each.rank, each.name) for each in trace.ranks] == [(0, rank)]
        # The server has no operators, and so no rank.
        assert rows(trace.calls, "client_rank", "server_rank") == [(0, -1)] * (name == KEY)
        assert trace.losses == losses


def test_events_that_the_legacy_profiler_does_not_write_are_no_spans(tmp_path: Path) -> None:
    others = [{**span("a"), "pid": 7}, {**span("b"), "ph": "i"}, {"name": "c"}]
    trace = read_trace(write(tmp_path / "a", [*others, span("good")]))
    assert list(trace.operators["name"]) == ["good"]
    said = "not 3 of the 4 events: 1 mark, 1 of phase (none), 1 without a category"
    assert trace.losses == (f"Only operators and calls are read, {said}.",)


@pytest.mark.parametrize(("begin", "is_doubtful"), [(2.0, False), (3.0, True)])
def test_calls_of_one_function_that_overlap_are_not_said_to_be_one(
    begin: float, is_doubtful: bool, tmp_path: Path
) -> None:
    spans = [span(KEY), span(KEY, ts=begin), span(KEY.replace("f", "g"), ts=2.0)]
    losses = read_trace(write(tmp_path / "a", spans)).losses
    assert losses == (*([OVERLAP_LOSS] if is_doubtful else []), REMOTE_LOSS)


def test_an_array_without_spans_of_the_legacy_profiler_is_no_trace_of_it(tmp_path: Path) -> None:
    others = [{**span("a"), "pid": 7}, {**span("b"), "ph": "i"}, {"name": "c"}]
    with pytest.raises(UsageError, match=r"not of torch\.profiler: .* 1 event of other categories"):
        read_trace(write(tmp_path / "a", others))
