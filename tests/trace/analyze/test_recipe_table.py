from typing import Any

import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.trace.synthetic import call, ns, operator, trace
from tuner.trace.analyze.recipe_table import (
    RECIPE_COLUMNS,
    format_table,
    of_all_ranks,
    recipe_table,
)

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

    def test_operators_that_cross_lessen_each_other_only_by_their_overlap(self) -> None:
        crossing = [operator("aten::a", 0, 4), operator("aten::b", 2, 6), operator("aten::c", 3, 8)]
        table = recipe_table(trace([], crossing)).set_index("Name")["Self CPU"]
        assert table.to_dict() == {"aten::a": 2_000, "aten::b": 1_000, "aten::c": 5_000}
        doubled = [operator("aten::a", 0, 4), operator("aten::b", 1, 5), operator("aten::b", 2, 9)]
        assert (recipe_table(trace([], doubled))["Self CPU"] >= 0).all()

    def test_a_call_within_a_call_counts_in_its_own_row(self) -> None:
        outer = call(1, 0, 10, served_ms=(1, 9))
        inner = call(2, 3, 7, served_ms=(4, 6), thread=21, parent_call=1, kind="rpc_sync",
                     function="inner", client_rank=1, server_rank=2)  # fmt: skip
        ran = operator("aten::mm", 4, 5, of=inner, rank=2, thread=21)
        before = operator("aten::mm", 2, 4, of=outer)
        table = recipe_table(trace([outer, inner], [ran, before]))
        # 5 of its 10 are in its operator or the inner call, which overlap for 1.
        assert row_of(table, UDF)["Self CPU"] == 5_000
        assert row_of(table, INNER)["Self CPU"] == 3_000
        assert row_of(table, INNER)["Node ID"] == 1
        assert row_of(table, f"{INNER}#remote_op: aten::mm")["Node ID"] == 2

    def test_what_the_client_ran_while_it_issued_a_call_counts_in_its_own_row(self) -> None:
        handed = call(1, 0, 10, issued_ns=ns(4))
        during = operator("aten::clone", 1, 3, rank=0, thread=1)
        elsewhere = operator("aten::clone", 1, 3, rank=0, thread=2)
        namesake = operator("aten::add", 0, 4, rank=1, thread=1)
        after = operator("aten::clone", 5, 6, rank=0, thread=1)
        table = recipe_table(trace([handed], [during, elsewhere, namesake, after]))
        assert row_of(table, UDF)["Self CPU"] == 8_000
        assert row_of(table, "aten::clone")["CPU total"] == 5_000

    @pytest.mark.parametrize("kind", ["rpc_sync", "rpc_async", "rpc_remote", "to_here"])
    def test_where_no_issue_is_known_what_the_clients_thread_ran_in_the_call_counts_there(
        self, kind: str
    ) -> None:
        annotated = call(1, 0, 10, kind=kind, issued_ns=None)
        inside = operator("aten::add", 2, 7, rank=0, thread=1)
        beside = operator("aten::mul", 2, 7, rank=0, thread=2)
        around = operator("forward", 0, 12, rank=0, thread=1)
        table = recipe_table(trace([annotated], [inside, beside, around]))
        own = table.set_index("Name")["Self CPU"].to_dict()
        assert own == {
            annotated["name"]: 5_000, "aten::add": 5_000, "aten::mul": 5_000, "forward": 2_000,
        }  # fmt: skip

    def test_calls_beside_an_asynchronous_one_are_not_inside_it(self) -> None:
        outer = call(1, 0, 10, issued_ns=None)
        inner = call(2, 2, 6, function="other", issued_ns=None)
        table = recipe_table(trace([outer, inner]))
        assert table["Self CPU"].tolist() == [10_000, 4_000]

    def test_an_operator_leaves_out_the_call_that_its_thread_waits_for_in_it(self) -> None:
        waited = call(1, 2, 8, kind="rpc_sync", issued_ns=ns(3))
        asked = call(2, 9, 30, issued_ns=ns(10))
        table = recipe_table(trace([waited, asked], [operator("f", 0, 12, rank=0, thread=1)]))
        assert row_of(table, "f")["Self CPU"] == 5_000

    def test_a_call_that_never_ended_has_no_row_but_its_operators_do(self) -> None:
        lost = call(1, 0, None, served_ms=(1, None))
        table = recipe_table(trace([lost], [operator("aten::mm", 2, 3, of=lost)]))
        assert table["Name"].tolist() == [f"{UDF}#remote_op: aten::mm"]

    def test_an_empty_trace_has_an_empty_table(self) -> None:
        table = recipe_table(trace())
        assert tuple(table.columns) == RECIPE_COLUMNS
        assert table.empty
        assert format_table(table).endswith("Self CPU time total: 0.000us")


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


def test_the_text_has_pytorchs_layout() -> None:
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
    limited = format_table(recipe_table(trace([served])), row_limit=0).splitlines()
    assert [line[:4] for line in limited] == ["----", "    ", "----", "----", "Self"]
    assert {len(line) for line in lines[:6]} == {len(lines[0])}


def test_the_rows_of_all_ranks_are_one_per_name() -> None:
    ran = [operator("aten::mm", 0, rank + 1, rank=rank) for rank in range(3)]
    table = of_all_ranks(recipe_table(trace([], [*ran, operator("aten::add", 5, 6)])))
    assert tuple(table.columns) == RECIPE_COLUMNS
    assert table["Name"].tolist() == ["aten::mm", "aten::add"]
    assert table["CPU total"].tolist() == [6_000, 1_000]
    assert table["CPU time avg"].tolist() == [2_000, 1_000]
    assert table["# of Calls"].tolist() == [3, 1]
    assert table["Node ID"].tolist() == [3, 1]
    assert table["Self CPU %"].sum() == pytest.approx(100)
