from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.trace.synthetic import Part, call, ns, operator, simulate, trace
from tuner.trace.analyze.tables import (
    RECIPE_COLUMNS,
    breakdown,
    call_times,
    format_table,
    latency,
    outermost,
    recipe_table,
    rpc_cpu_total_ms,
    rpc_p99_ms,
)
from tuner.trace.model.trace import Trace

UDF = "rpc_async#udf(worker0 -> worker1)"
INNER = "rpc_sync#inner(worker1 -> worker2)"


def row_of(table: pd.DataFrame, name: str) -> dict[str, Any]:
    """The one row of that name."""
    (row,) = table[table["Name"] == name].to_dict("records")
    return {str(column): value for column, value in row.items()}


class TestRecipeTable:
    def test_a_call_and_the_operators_it_ran(self) -> None:
        served = call(7, 0, 10, served_ms=(2, 8))
        outer = operator("aten::sigmoid", 3, 6, of=served)
        inner = operator("aten::empty", 4, 5, of=served)
        table = recipe_table(trace([served], [outer, inner]))
        assert tuple(table.columns) == RECIPE_COLUMNS
        assert table["Name"].tolist() == [
            UDF,
            f"{UDF}#remote_op: aten::sigmoid",
            f"{UDF}#remote_op: aten::empty",
        ]
        assert table["CPU total"].tolist() == [10_000, 3_000, 1_000]
        assert table["Self CPU"].tolist() == [7_000, 2_000, 1_000]
        assert table["Self CPU %"].tolist() == [70, 20, 10]
        assert table["CPU total %"].tolist() == [100, 30, 10]
        assert table["# of Calls"].tolist() == [1, 1, 1]
        assert table["Node ID"].tolist() == [0, 1, 1]

    def test_calls_of_one_key_are_one_row(self) -> None:
        calls = [call(1, 0, 10), call(2, 5, 9), call(3, 6, 8, function="other")]
        table = recipe_table(trace(calls))
        udf = row_of(table, UDF)
        assert (udf["# of Calls"], udf["CPU total"], udf["CPU time avg"]) == (2, 14_000, 7_000)
        assert len(table) == 2

    def test_an_operator_that_no_call_ran_keeps_its_name_and_its_rank(self) -> None:
        served = call(1, 0, 10, served_ms=(2, 8))
        mine = operator("aten::mul", 3, 4, of=served)
        others = [operator("aten::mul", 3, 4, thread=12), operator("aten::mul", 3, 4, rank=0)]
        table = recipe_table(trace([served], [mine, *others]))
        assert sorted(table.loc[table["Name"] == "aten::mul", "Node ID"]) == [0, 1]
        assert row_of(table, UDF)["Self CPU"] == 9_000

    def test_operators_of_a_call_on_two_threads_count_once_where_they_overlap(self) -> None:
        served = call(1, 0, 10, served_ms=(1, 9))
        operators = [
            operator("aten::mm", 2, 6, of=served, thread=11),
            operator("aten::mm", 4, 7, of=served, thread=12),
        ]
        assert row_of(recipe_table(trace([served], operators)), UDF)["Self CPU"] == 5_000

    def test_an_operator_counts_in_its_call_only_as_far_as_the_client_waited(self) -> None:
        served = call(1, 0, 4, served_ms=(2, 9))
        table = recipe_table(trace([served], [operator("aten::mm", 3, 8, of=served)]))
        assert row_of(table, UDF)["Self CPU"] == 3_000
        assert row_of(table, f"{UDF}#remote_op: aten::mm")["CPU total"] == 5_000

    def test_an_operator_inside_one_that_is_linked_to_no_call_counts_in_its_call(self) -> None:
        served = call(1, 0, 10, served_ms=(1, 9))
        outer, inner = operator("forward", 2, 8), operator("aten::mm", 3, 5, of=served)
        assert row_of(recipe_table(trace([served], [outer, inner])), UDF)["Self CPU"] == 8_000

    def test_operators_that_cross_take_from_each_other_only_what_they_share(self) -> None:
        crossing = [operator("aten::a", 0, 4), operator("aten::b", 2, 6), operator("aten::c", 3, 8)]
        table = recipe_table(trace([], crossing)).set_index("Name")["Self CPU"]
        assert table.to_dict() == {"aten::a": 2_000, "aten::b": 1_000, "aten::c": 5_000}
        doubled = [operator("aten::a", 0, 4), operator("aten::b", 1, 5), operator("aten::b", 2, 9)]
        assert (recipe_table(trace([], doubled))["Self CPU"] >= 0).all()

    def test_operators_of_equal_start_nest_whatever_their_order(self) -> None:
        inner, outer = operator("aten::empty", 1, 2), operator("aten::rand", 1, 4)
        table = recipe_table(trace([], [inner, outer]))
        assert row_of(table, "aten::rand")["Self CPU"] == 2_000
        assert row_of(table, "aten::empty")["Self CPU"] == 1_000

    def test_a_call_within_a_call_counts_in_its_own_row(self) -> None:
        nested: dict[str, Any] = {
            "kind": "rpc_sync",
            "function": "inner",
            "client_rank": 1,
            "server_rank": 2,
        }
        outer = call(1, 0, 10, served_ms=(1, 9))
        inner = call(2, 3, 7, served_ms=(4, 6), thread=21, parent_call=1, **nested)
        ran = operator("aten::mm", 4, 5, of=inner, rank=2, thread=21)
        before = operator("aten::mm", 2, 4, of=outer)
        table = recipe_table(trace([outer, inner], [ran, before]))
        # Of 10: 1 in its operator alone, and 4 in the call, the first of which it shares with it.
        assert row_of(table, UDF)["Self CPU"] == 5_000
        assert row_of(table, INNER)["Self CPU"] == 3_000
        assert row_of(table, INNER)["Node ID"] == 1
        assert row_of(table, f"{INNER}#remote_op: aten::mm")["Node ID"] == 2

    def test_what_the_client_ran_while_it_handed_over_counts_in_its_own_row(self) -> None:
        handed = call(1, 0, 10, issued_ns=ns(4))
        during = operator("aten::clone", 1, 3, rank=0, thread=1)
        elsewhere = operator("aten::clone", 1, 3, rank=0, thread=2)
        namesake = operator("aten::add", 0, 4, rank=1, thread=1)
        after = operator("aten::clone", 5, 6, rank=0, thread=1)
        table = recipe_table(trace([handed], [during, elsewhere, namesake, after]))
        assert row_of(table, UDF)["Self CPU"] == 8_000
        assert row_of(table, "aten::clone")["CPU total"] == 5_000

    def test_a_call_that_never_ended_has_no_row_but_its_operators_do(self) -> None:
        lost = call(1, 0, None, served_ms=(1, None))
        table = recipe_table(trace([lost], [operator("aten::mm", 2, 3, of=lost)]))
        assert table["Name"].tolist() == [f"{UDF}#remote_op: aten::mm"]

    def test_the_whole_is_the_time_of_the_calls(self) -> None:
        parts = [Part("gil", 1), Part("operator", 2), Part("sleep", 1)]
        taken = simulate(parts, threads=2, at_once=4, steps=3)
        table = recipe_table(taken)
        span = (taken.calls["end_ns"] - taken.calls["start_ns"]).sum() / 1e3
        assert table["Self CPU"].sum() == pytest.approx(span)
        assert table["Self CPU %"].sum() == pytest.approx(100)
        assert row_of(table, f"{UDF}#remote_op: aten::mm")["# of Calls"] == 12

    def test_an_empty_trace_has_an_empty_table(self) -> None:
        table = recipe_table(trace())
        assert tuple(table.columns) == RECIPE_COLUMNS
        assert table.empty
        assert format_table(table).endswith("Self CPU time total: 0.000us")


@settings(deadline=None)
@given(st.lists(st.tuples(st.integers(0, 1), st.integers(0, 30), st.integers(0, 9)), max_size=20))
def test_operators_self_times_add_up_to_the_time_a_thread_is_inside_any(
    drawn: list[tuple[int, int, int]],
) -> None:
    kept: list[tuple[int, int, int]] = []
    for thread, start, length in drawn:
        end = start + length
        if not any(
            own == thread and (first < start < last < end or start < first < end < last)
            for own, first, last in kept
        ):
            kept.append((thread, start, end))
    rows = [operator(f"aten::op{i % 3}", s, e, thread=t) for i, (t, s, e) in enumerate(kept)]
    inside = {(thread, t) for thread, start, end in kept for t in range(start, end)}
    table = recipe_table(trace([], rows))
    assert table["Self CPU"].sum() == pytest.approx(1e3 * len(inside))
    assert (table["Self CPU"] <= table["CPU total"]).all()


def test_the_text_is_laid_out_as_pytorch_does() -> None:
    served = call(1, 0, 1234.5, served_ms=(1, 9))
    text = format_table(recipe_table(trace([served], [operator("aten::mm", 2, 2.0125, of=served)])))
    lines = text.splitlines()
    width = len(f"{UDF}#remote_op: aten::mm")
    header = f"{'Name':>{width}}    Self CPU %      Self CPU   CPU total %     CPU total"
    assert lines[0] == lines[2] == lines[5]
    assert set(lines[0]) == {"-", " "}
    assert lines[1] == f"{header}  CPU time avg    # of Calls       Node ID"
    assert lines[3].endswith(
        "       100.00%        1.234s       100.00%        1.234s        1.234s"
        "             1             0"
    )
    assert lines[4].endswith(
        "         0.00%      12.500us         0.00%      12.500us      12.500us"
        "             1             1"
    )
    assert lines[6] == "Self CPU time total: 1.234s"
    assert {len(line) for line in lines[:6]} == {len(lines[0])}


def test_the_text_can_be_cut_short() -> None:
    table = recipe_table(trace([call(1, 0, 3), call(2, 0, 2, function="other")]))
    text = format_table(table, row_limit=1)
    assert "udf" in text
    assert "other" not in text
    assert text.endswith("Self CPU time total: 5.000ms")


class TestLatency:
    def test_percentiles_and_sums_of_each_name(self) -> None:
        calls = [call(i, 0, i) for i in range(1, 101)]
        calls += [call(101, 0, 7, function="other", status="raised")]
        calls += [call(102, 0, None, status="timed-out"), call(103, 0, 9, status="timed-out")]
        table = latency(trace(calls).calls)
        assert table.index.tolist() == [UDF, UDF.replace("udf", "other")]
        udf, other = table.to_dict("records")
        assert udf["calls"] == 101
        assert udf["p50_us"] == 50_000
        assert udf["p90_us"] == 90_000
        assert udf["p99_us"] == 99_000
        assert udf["max_us"] == 100_000
        assert udf["total_us"] == 5_059_000
        assert (udf["failed"], udf["unfinished"]) == (1, 1)
        assert (other["calls"], other["failed"], other["unfinished"]) == (1, 1, 0)

    def test_a_name_of_which_no_call_ended_is_there(self) -> None:
        (row,) = latency(trace([call(1, 0, None)]).calls).to_dict("records")
        assert (row["calls"], row["unfinished"], row["total_us"]) == (0, 1, 0)
        assert np.isnan(row["p50_us"])

    def test_no_calls_no_rows(self) -> None:
        assert latency(trace().calls).empty


class TestCallTimes:
    def test_the_parts_of_one_call(self) -> None:
        calls = [
            call(1, 0, 10, served_ms=(2, 7), cpu_ms=2, run_queue_ms=1),
            call(2, 0, 12, served_ms=(5, 9), cpu_ms=4, run_queue_ms=0, done_ns=ns(11)),
        ]
        first, second = call_times(trace(calls).calls).to_dict("records")
        assert first == {
            "latency_us": 10_000,
            "wire_us": 5_000,
            "to_server_us": 2_000,
            "to_client_us": 3_000,
            "queue_us": 0,
            "on_cpu_us": 2_000,
            "run_queue_us": 1_000,
            "off_cpu_us": 2_000,
            "pending_us": 0,
        }
        assert (second["wire_us"], second["to_client_us"]) == (6_000, 1_000)
        assert (second["queue_us"], second["pending_us"]) == (3_000, 2_000)
        assert second["off_cpu_us"] == 0

    def test_a_one_way_time_below_the_clock_error_is_not_shown(self) -> None:
        calls = trace([call(1, 0, 10, served_ms=(2, 7)), call(2, 0, 10, served_ms=(4, 9))]).calls
        times = call_times(calls, clock_error_ns=ns(2.5))
        assert times["to_server_us"].isna().tolist() == [True, False]
        assert times["to_client_us"].isna().tolist() == [False, True]
        assert times["wire_us"].tolist() == [5_000, 5_000]
        assert times["queue_us"].tolist() == [0, 2_000]

    def test_the_queue_does_not_depend_on_the_clocks_offset(self) -> None:
        def queues(offset_ms: float) -> list[float]:
            served = [(0.1, 1.0), (0.1, 1.3), (0.2, 2.0)]
            rows = [
                call(i, start, start + 5, served_ms=(began + offset_ms, began + 1 + offset_ms))
                for i, (start, began) in enumerate(served)
            ]
            return call_times(trace(rows).calls)["queue_us"].tolist()

        assert queues(0) == pytest.approx([0, 300, 900])
        assert queues(-50) == pytest.approx(queues(0))

    def test_each_name_has_a_fastest_request_of_its_own(self) -> None:
        rows = [
            call(1, 0, 10, served_ms=(1, 2)),
            call(2, 0, 10, served_ms=(4, 5), function="large"),
            call(3, 0, 10, served_ms=(6, 7), function="large"),
        ]
        assert call_times(trace(rows).calls)["queue_us"].tolist() == [0, 0, 2_000]

    def test_the_last_calls_of_a_full_pool_waited_as_long_as_the_first_slept(self) -> None:
        taken = simulate([Part("sleep", 1000)], threads=4, at_once=8, steps=1)
        queue_ms = call_times(taken.calls)["queue_us"] / 1e3
        assert queue_ms.tolist() == pytest.approx([0] * 4 + [1000] * 4, abs=0.01)

    def test_what_is_not_known_is_null(self) -> None:
        rows = [
            call(1, 0, None),
            call(2, 0, 5),
            call(3, 0, 5, served_ms=(1, 4), body="builtin", link="inferred"),
        ]
        times = call_times(trace(rows).calls)
        assert times.loc[0].isna().all()
        assert times.loc[[1]].dropna(axis="columns").columns.tolist() == ["latency_us"]
        assert times.loc[2, ["on_cpu_us", "run_queue_us", "off_cpu_us"]].isna().all()
        assert times.loc[2, "wire_us"] == 2_000

    def test_there_is_no_wire_time_when_the_client_gave_up_first(self) -> None:
        gave_up = trace([call(1, 0, 3, served_ms=(1, 9), status="timed-out")]).calls
        assert call_times(gave_up)["wire_us"].isna().all()

    def test_clock_readings_beyond_the_wall_time_are_cut(self) -> None:
        rows = [
            call(1, 0, 9, served_ms=(1, 5), cpu_ms=5, run_queue_ms=1),
            call(2, 0, 9, served_ms=(1, 5), cpu_ms=3, run_queue_ms=2),
        ]
        times = call_times(trace(rows).calls)
        assert times[["on_cpu_us", "run_queue_us", "off_cpu_us"]].to_numpy().tolist() == [
            [4_000, 0, 0],
            [3_000, 1_000, 0],
        ]

    def test_rows_keep_the_calls_index(self) -> None:
        calls = trace([call(i, i, i + 1) for i in range(4)]).calls.iloc[[2, 3]]
        assert call_times(calls).index.tolist() == [2, 3]


class TestBreakdown:
    def test_the_parts_add_up(self) -> None:
        parts = [Part("gil", 1), Part("sleep", 2), Part("cpu", 1)]
        taken = simulate(parts, threads=4, at_once=8, cores=1)
        (row,) = breakdown(taken.calls).to_dict("records")
        ways = row["transport_us"] + row["queue_us"] + row["pending_us"]
        on_server = row["on_cpu_us"] + row["run_queue_us"] + row["off_cpu_us"]
        assert row["calls"] == 80
        assert row["transport_us"] == pytest.approx(200, abs=0.01)
        assert row["queue_us"] > 0
        assert row["run_queue_us"] > 0
        assert on_server == pytest.approx(row["served_us"])
        assert ways + on_server == pytest.approx(row["latency_us"])

    def test_it_rests_on_measured_calls_where_there_are_any(self) -> None:
        rows = [
            call(1, 0, 10, served_ms=(2, 8), cpu_ms=6, run_queue_ms=0),
            call(2, 0, 90, served_ms=(2, 8)),
            call(3, 0, 5, served_ms=(2, 4), function="add", body="builtin", link="inferred"),
            call(4, 0, 5, function="unseen"),
        ]
        table = breakdown(trace(rows).calls)
        assert table.index.tolist() == [UDF, UDF.replace("udf", "add")]
        assert table["calls"].tolist() == [1, 1]
        assert table["latency_us"].tolist() == [10_000, 5_000]
        assert table["served_us"].tolist() == [6_000, 2_000]
        assert table["on_cpu_us"].isna().tolist() == [False, True]

    def test_what_waits_for_a_future_is_pending(self) -> None:
        row = call(1, 0, 10, served_ms=(2, 3), cpu_ms=1, run_queue_ms=0, done_ns=ns(8))
        (means,) = breakdown(trace([row]).calls).to_dict("records")
        assert (means["transport_us"], means["pending_us"]) == (4_000, 5_000)

    def test_no_calls_no_rows(self) -> None:
        assert breakdown(trace().calls).empty


class TestTheSumTheRecipeReads:
    def of(self, **facts: Any) -> Trace:
        rows = [
            call(1, 0, 10),
            call(2, 5, 9, parent_call=1),
            call(3, 20, 26),
            call(4, 27, None),
            call(5, 40, 44),
        ]
        return trace(rows, **facts)

    def test_it_is_of_the_outermost_calls_that_ended_per_step(self) -> None:
        taken = self.of(steps=4)
        assert outermost(taken.calls)["call_id"].tolist() == [1, 3, 4, 5]
        assert rpc_cpu_total_ms(taken) == 5.0
        assert rpc_p99_ms(taken) == pytest.approx(9.92)

    def test_it_leaves_out_what_began_outside_of_the_window(self) -> None:
        taken = self.of(steps=2, window_ms=(0, 30))
        assert rpc_cpu_total_ms(taken) == 8.0

    def test_it_is_unknown_without_steps(self) -> None:
        assert np.isnan(rpc_cpu_total_ms(self.of()))

    def test_without_calls_the_sum_is_zero_and_the_percentile_unknown(self) -> None:
        assert rpc_cpu_total_ms(trace(steps=3)) == 0.0
        assert np.isnan(rpc_p99_ms(trace(steps=3)))
