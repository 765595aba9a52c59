import json
import subprocess
import sys
from pathlib import Path

import pytest

from testing.golden_files import KINETO, KINETO_1_9, SPAN, operator, rows, write_kineto
from tuner.trace.files.kineto_join import CLIENTS_ONLY, NO_CALLS
from tuner.trace.files.reader import read_trace, read_traces
from tuner.trace.model.spans import TraceRank

NO_EVENT = "2 events not in the Chrome trace format, first event 0"


def test_annotations_with_names_of_calls_are_the_clients_side_of_calls() -> None:
    calls = read_trace(KINETO[0]).calls
    assert rows(calls, "call_id", "name", "kind", "body", "function", "client_thread") == [
        (1, "to_here#(trainer)->(ps)", "to_here", "fetch", "", 72),
        (2, "rpc_sync#serve(trainer -> ps)", "rpc_sync", "python", "serve", 70),
    ]
    assert rows(calls, "start_ns", "end_ns") == [(50_000, 51_000), (100_000, 300_500)]
    assert set(rows(calls, "client", "server", "client_rank", "server_rank", "status", "link",
                    "server_thread")) == {("trainer", "ps", 0, -1, "ok", "", None)}  # fmt: skip


def test_processes_of_one_file_are_ranks_in_order(tmp_path: Path) -> None:
    events = [operator(pid=9, name="a"), operator(pid=3, name="b"), operator(pid=9, name="c")]
    trace = read_trace(write_kineto(tmp_path / "a", events, distributedInfo={"rank": 5}))
    assert rows(trace.operators, "rank", "name") == [(0, "a"), (0, "c"), (1, "b")]
    assert [(rank.rank, rank.pid) for rank in trace.ranks] == [(0, 9), (1, 3)]


def test_files_of_pytorch_1_9_are_read() -> None:
    """Operators and annotations are of one category, ids of threads are text, and no GPU counts."""
    trace = read_trace(KINETO_1_9)
    assert trace.base_time_ns == 1_623_143_093_496_439_000
    assert trace.window_ns == (0, 1_000_000)
    assert rows(trace.operators, *SPAN) == [
        (0, 25738, "ProfilerStep#16", 100_000, 900_000),
        (0, 25738, "aten::empty", 110_000, 131_000),
        (0, 25738, "aten::zeros", 110_000, 174_000),
        (0, 25738, "aten::zero_", 131_000, 174_000),
        (0, 25772, "AddmmBackward", 700_000, 740_000),
    ]
    assert rows(trace.calls, "kind", "client_thread", "start_ns", "end_ns") == [
        ("rpc_async", 25738, 180_000, 680_000)
    ]
    assert trace.ranks == (
        TraceRank(rank=0, name="trainer", pid=25738, threads=((25738, "main"), (25772, "python"))),
    )
    others = "2 arrow, 1 Kernel, 1 Runtime, 1 mark"
    unread = f"Only operators and calls are read, not 5 of the 14 events: {others}."
    assert trace.losses == (unread, CLIENTS_ONLY)


@pytest.mark.parametrize(
    ("pids", "ranks"),
    [
        (("[rank3] 7", "[Rank 1] 8"), [(1, 8), (3, 7)]),
        (("[TP03 7]", "[WR01 8]"), [(1, 8), (3, 7)]),
        (("[rank1] 7", "other 8"), [(0, 8), (1, 7)]),
        (("[TP00-DP00] 7", "[TP00-DP01] 8"), [(0, 7), (1, 8)]),
        (("frank3 7", "ranks"), [(0, 7), (1, None)]),
    ],
)
def test_ids_of_processes_may_say_their_ranks(
    pids: tuple[str, str], ranks: list[tuple[int, int | None]], tmp_path: Path
) -> None:
    trace = read_trace(write_kineto(tmp_path / "a", [operator(pid=pid) for pid in pids]))
    assert [(rank.rank, rank.pid) for rank in trace.ranks] == ranks


def test_only_processes_with_operators_or_calls_are_ranks(tmp_path: Path) -> None:
    step = operator(cat="user_annotation", name="ProfilerStep#1", pid=9)
    call = operator(cat="user_annotation", name="rpc_sync#f(a -> b)", pid=8)
    info = {"rank": 5}
    alone = read_trace(write_kineto(tmp_path / "a", [step, operator()], distributedInfo=info))
    assert [(rank.rank, rank.pid) for rank in alone.ranks] == [(5, 7)]
    both = read_trace(write_kineto(tmp_path / "b", [step, operator(), call]))
    assert [rank.pid for rank in both.ranks] == [7, 8]
    idle = write_kineto(tmp_path / "c", [step], distributedInfo={"rank": 1})
    trace = read_traces([tmp_path / "a", idle])
    assert [(rank.rank, rank.pid) for rank in trace.ranks] == [(1, 9), (5, 7)]


def test_thread_ids_may_be_text(tmp_path: Path) -> None:
    events = [
        operator(tid="loader", name="a"),
        operator(tid=1, name="b"),
        operator(tid=2**70, name="c"),
        operator(tid=None, name="d"),
        {"ph": "M", "name": "thread_name", "pid": 7, "tid": 1, "args": {"name": "first"}},
        {"ph": "M", "name": "thread_name", "pid": 7, "tid": 7, "args": {"name": "x"}},
        {"ph": "M", "name": "thread_name", "pid": 7, "tid": 8, "args": ["no name"]},
    ]
    trace = read_trace(write_kineto(tmp_path / "a", events))
    threads = dict(rows(trace.operators, "name", "thread"))
    assert threads["b"] == 1
    assert len(set(threads.values())) == 4
    assert trace.ranks[0].threads == ((1, "first"), (threads["a"], "loader"), (7, "main"))


@pytest.mark.parametrize(
    ("unusable", "loss"),
    [
        (operator(ts=None), "2 operators without a time stamp"),
        (operator(ts=1e300), "2 operators without a time stamp"),
        (operator(ts="9" * 400), "2 operators without a time stamp"),
        (operator(ts="sNaN"), "2 operators without a time stamp"),
        (operator(dur=None, ph="B"), "2 operators without a duration"),
        (operator(dur=-0.5), "2 operators with a negative duration"),
        (operator(ts="noon"), f"{NO_EVENT}: Invalid decimal string - at `$.ts`"),
        (5, f"{NO_EVENT}: Expected `object`, got `int`"),
        (operator(cat="user_annotation", name="rpc_sync#f(a -> b)", dur=-1),
         "2 calls with a negative duration"),
    ],
)  # fmt: skip
def test_unusable_events_are_left_out_and_stated(
    unusable: object, loss: str, tmp_path: Path
) -> None:
    path = tmp_path / "a.json"
    path.write_text(json.dumps({"traceEvents": [unusable, operator(name="good"), unusable]}))
    trace = read_trace(path)
    assert list(trace.operators["name"]) == ["good"]
    assert trace.losses == (f"Left out of {path}: {loss}.", NO_CALLS)


@pytest.mark.slow
def test_reads_what_this_torch_writes(tmp_path: Path) -> None:
    """In a separate process, since profiling changes the process that does it."""
    path = tmp_path / "trace.json"
    program = (
        "import sys, threading, torch\n"
        "def work():\n"
        "    for _ in range(3): torch.ones(2, 2).neg()\n"
        "config = torch._C._profiler._ExperimentalConfig(profile_all_threads=True)\n"
        "with torch.profiler.profile(experimental_config=config) as profiler:\n"
        "    thread = threading.Thread(target=work)\n"
        "    thread.start(); thread.join()\n"
        "    with torch.profiler.record_function('rpc_sync#work(a -> b)'): work()\n"
        "profiler.export_chrome_trace(sys.argv[1])\n"
    )
    subprocess.run(
        [sys.executable, "-c", program, str(path)], check=True, capture_output=True, timeout=120
    )
    trace = read_trace(path)
    neg = trace.operators[trace.operators["name"] == "aten::neg"]
    assert neg.groupby("thread").size().tolist() == [3, 3]
    ((name, thread, *span),) = rows(trace.calls, "name", "client_thread", "start_ns", "end_ns")
    assert (name, thread) == ("rpc_sync#work(a -> b)", trace.ranks[0].pid)
    assert neg[neg["thread"] == thread]["start_ns"].between(*span).all()
    assert dict(trace.ranks[0].threads)[thread] == "main"
    assert trace.window_ns[1] >= trace.operators["end_ns"].max()
