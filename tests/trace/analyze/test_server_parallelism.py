import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from testing.synthetic import call, ns, operator, trace
from tuner.trace.analyze.server_parallelism import (
    LEVEL_COLUMNS,
    PARALLELISM_COLUMNS,
    THREAD_COLUMNS,
    levels,
    parallelism,
    remote_parallelism,
    thread_use,
    threads_at_work,
    window,
)
from tuner.trace.model.spans import TraceRank
from tuner.trace.model.trace import UNKNOWN_RANK


def test_unknown_threads_count_as_different_ones() -> None:
    calls = [call(i, 0, 9, served_ms=(1, 5), thread=None) for i in range(3)]
    assert parallelism(trace(calls))["max"].tolist() == [3]
    assert thread_use(trace(calls)).empty


@pytest.mark.parametrize(
    ("server", "served_ms", "servers"),
    [(2, None, [2]), (UNKNOWN_RANK, None, [0, 1, 2]), (1, (1, 2), [])],
)
def test_where_no_operator_has_a_call_all_operators_of_servers_count(
    server: int, served_ms: tuple[float, float] | None, servers: list[int]
) -> None:
    """As where a client annotated its calls: a server whose rank is unknown may be any."""
    operators = [operator("aten::mm", 0, 4, rank=rank) for rank in range(3)]
    row = call(1, 0, 9, server_rank=server, served_ms=served_ms)
    assert parallelism(trace([row], operators), "operators")["rank"].tolist() == servers


served_spans = st.lists(
    st.tuples(st.integers(1, 3), st.integers(0, 25), st.integers(0, 9)), min_size=1, max_size=15
)


@given(served_spans, st.sampled_from(["calls", "operators"]))
def test_every_number_agrees_with_counting_threads_at_every_moment(
    drawn: list[tuple[int, int, int]], source: Any
) -> None:
    calls = [
        call(i, 0, 40, served_ms=(start, start + length), thread=thread)
        for i, (thread, start, length) in enumerate(drawn)
    ]
    operators = [
        operator("aten::mm", start, start + length, of=served, thread=thread)
        for served, (thread, start, length) in zip(calls, drawn, strict=True)
    ]
    operators.append(operator("aten::mm", 1, 8, rank=0, thread=1))
    taken = trace(calls, operators)
    at_work = [
        {thread for thread, start, length in drawn if start <= t < start + length}
        for t in range(40)
    ]
    count = [len(threads) for threads in at_work]
    busy = sum(level > 0 for level in count)
    (row,) = parallelism(taken, source).to_dict("records")
    assert row["mean"] == pytest.approx(sum(count) / 40)
    assert row["busy_fraction"] == pytest.approx(busy / 40)
    assert row["max"] == max(count)
    assert row["mean_while_busy"] == pytest.approx(
        sum(count) / busy if busy else np.nan, nan_ok=True
    )
    shares = levels(taken, source)
    assert shares["share"].tolist() == pytest.approx(
        [count.count(level) / 40 for level in range(max(count) + 1)]
    )
    use = thread_use(taken, source).set_index("thread")["busy_fraction"]
    for thread in use.index:
        assert use[thread] == pytest.approx(sum(thread in threads for threads in at_work) / 40)


def test_an_idle_thread_that_the_trace_names_has_a_row() -> None:
    named = ((5, "main"), (11, "RPC worker"), (12, "RPC worker"))
    processes = (TraceRank(rank=1, name="worker1", threads=named),)
    calls = [call(i, 0, 4, served_ms=(i, i + 1)) for i in (0, 2)]
    table = thread_use(trace(calls, processes=processes))
    assert table["thread"].tolist() == [11, 12]
    assert table["busy_fraction"].tolist() == [0.5, 0.0]
    assert table["calls"].tolist() == [2, 0]


BUILTIN = [call(i, 0, 10, function="add", body="builtin") for i in (1, 2)]
RAN = [operator("aten::add", i, i + 2, of=row, thread=i) for i, row in enumerate(BUILTIN, 1)]


@pytest.mark.parametrize(
    ("calls", "operators", "mean", "most"),
    [
        # Servers count by the time they were busy.
        ([call(1, 0, 10, served_ms=(0, 2), thread=11), call(2, 0, 10, served_ms=(0, 2), thread=12),
          call(3, 0, 10, served_ms=(0, 6), server_rank=2)], [], 10 / 8, 2.0),
        # Operators count where no server's side is known.
        (BUILTIN, RAN, 4 / 3, 2.0),
        ([*BUILTIN, call(3, 0, 10, served_ms=(5, 6))], RAN, 1.0, 1.0),
        ([call(1, 0, 10)], [], math.nan, math.nan),
    ],
)  # fmt: skip
def test_remote_parallelism(
    calls: list[dict[str, Any]], operators: list[dict[str, Any]], mean: float, most: float
) -> None:
    found = remote_parallelism(trace(calls, operators))
    assert found == pytest.approx((mean, most), nan_ok=True)


@pytest.mark.parametrize("given_ms", [(0, 0), (2.5, 3)])
def test_the_window_is_no_smaller_than_the_events(given_ms: tuple[float, float]) -> None:
    served = call(1, 2, 6, served_ms=(3, 5), done_ns=ns(8))
    events = [operator("aten::mm", 1, 4, of=served)]
    assert window(trace([served], events, window_ms=given_ms)) == (ns(1), ns(8))


@pytest.mark.parametrize("source", ["calls", "operators"])
def test_an_empty_trace_gives_empty_tables(source: Any) -> None:
    assert parallelism(trace(), source).dtypes.astype(str).to_dict() == PARALLELISM_COLUMNS
    assert levels(trace(), source).dtypes.astype(str).to_dict() == LEVEL_COLUMNS
    assert thread_use(trace(), source).dtypes.astype(str).to_dict() == THREAD_COLUMNS
    assert threads_at_work(trace(), source) == {}


def test_where_operators_are_left_out_parallelism_is_of_the_time_before() -> None:
    """Two builtin operators at once all the time, of which those after 10 ms are not known."""
    known = [call(i, 0, 12, served_ms=(0, 12), body="builtin", thread=i) for i in (1, 2)]
    later = [call(i, 12, 100, body="builtin") for i in (3, 4)]
    operators = [operator("aten::mm", 0, 12, of=each, thread=each["call_id"]) for each in known]
    cut = trace([*known, *later], operators, window_ms=(0, 100), operators_until_ns=ns(10))
    for source in ("calls", "operators"):
        (row,) = parallelism(cut, source).to_dict("records")
        assert (row["mean"], row["busy_fraction"], row["max"]) == (2.0, 1.0, 2)
        assert levels(cut, source)["share"].tolist() == [0.0, 0.0, 1.0]
        assert thread_use(cut, source)["busy_fraction"].tolist() == [1.0, 1.0]
    assert remote_parallelism(cut) == (2.0, 2.0)


def test_python_calls_are_known_of_the_whole_trace_whatever_operators_are_left_out() -> None:
    calls = [call(i, 50 * i, 50 * i + 50, served_ms=(50 * i, 50 * i + 50)) for i in range(2)]
    cut = trace(calls, [operator("aten::mm", 0, 5, of=calls[0])], window_ms=(0, 100),
                operators_until_ns=ns(10))  # fmt: skip
    assert parallelism(cut)["busy_fraction"].tolist() == [1.0]
    assert parallelism(cut, "operators")["busy_fraction"].tolist() == [0.5]
