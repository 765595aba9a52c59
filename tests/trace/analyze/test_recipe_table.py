from typing import Any

import pytest

from testing.synthetic import call, ns, operator, trace
from tuner.trace.analyze.recipe_table import (
    RECIPE_COLUMNS,
    format_table,
    of_all_ranks,
    recipe_table,
)

Row = dict[str, Any]
UDF = "rpc_async#udf(worker0 -> worker1)"
SYNC = UDF.replace("async", "sync")
INNER = "rpc_sync#inner(worker1 -> worker2)"
MM = "#remote_op: aten::mm"


SERVED = call(1, 0, 10, served_ms=(1, 9))
GAVE_UP = call(1, 0, 4, served_ms=(2, 9))
LOST = call(1, 0, None, served_ms=(1, None))
CHILD = call(2, 3, 7, served_ms=(4, 6), thread=21, parent_call=1, kind="rpc_sync",
             function="inner", client_rank=1, server_rank=2)  # fmt: skip


def mine(name: str, start_ms: float, end_ms: float, thread: int = 1) -> Row:
    """An operator of the client."""
    return operator(name, start_ms, end_ms, rank=0, thread=thread)


@pytest.mark.parametrize(
    ("calls", "operators", "own"),
    [
        # Operators on two threads count once where they overlap.
        ([SERVED], [operator("aten::mm", 2, 6, of=SERVED), operator("aten::mm", 4, 7, of=SERVED,
                                                                    thread=12)],
         {UDF: 5, UDF + MM: 7}),
        # An operator counts in its call only as far as the client waited.
        ([GAVE_UP], [operator("aten::mm", 3, 8, of=GAVE_UP)], {UDF: 3, UDF + MM: 5}),
        # Also one inside of an operator that is linked to no call, which keeps its own name.
        ([SERVED], [operator("forward", 2, 8), operator("aten::mm", 3, 5, of=SERVED)],
         {UDF: 8, UDF + MM: 2, "forward": 4}),
        # Operators that cross lessen each other only by their overlap.
        ([], [operator("a", 0, 4), operator("b", 2, 6), operator("c", 3, 8)],
         {"a": 2, "b": 1, "c": 5}),
        # Of its 10, 5 are in its operator or the inner call, which overlap for 1.
        ([SERVED, CHILD], [operator("aten::mm", 4, 5, of=CHILD, rank=2, thread=21),
                           operator("aten::mm", 2, 4, of=SERVED)],
         {UDF: 5, INNER: 3, UDF + MM: 2, INNER + MM: 1}),
        # What the client's thread ran while it issued a call counts in its own row.
        ([call(1, 0, 10, issued_ns=ns(4))],
         [mine("clone", 1, 3), mine("other", 1, 3, 2), operator("namesake", 0, 4, thread=1),
          mine("after", 5, 6)],
         {UDF: 8, "clone": 2, "other": 2, "namesake": 4, "after": 1}),
        # Where no issue is known, all that it ran in the call.
        *(([call(1, 0, 10, kind=kind, issued_ns=None)],
           [mine("add", 2, 7), mine("mul", 2, 7, 2), mine("forward", 0, 12)],
           {UDF.replace("rpc_async", kind): 5, "add": 5, "mul": 5, "forward": 2})
          for kind in ("rpc_sync", "rpc_async", "rpc_remote")),
        # Asynchronous calls that overlap: what runs is beside each of them, whatever their order.
        ([call(1, 0, 10, issued_ns=None), call(2, 1, 11, function="f", issued_ns=None)],
         [mine("add", 2, 6)], {UDF: 6, UDF.replace("udf", "f"): 6, "add": 4}),
        ([call(1, 0, 14, issued_ns=None), call(2, 1, 13, function="f", issued_ns=None),
          call(3, 2, 12, function="g", issued_ns=None)],
         [mine("add", 4, 8), mine("mul", 5, 6)],
         {UDF: 10, UDF.replace("udf", "f"): 8, UDF.replace("udf", "g"): 6, "add": 3, "mul": 1}),
        # An operator is inside of an operator, whatever calls cross there.
        ([call(1, 0, 10, issued_ns=None), call(2, 1, 11, function="f", issued_ns=None)],
         [mine("add", 2, 10.5), mine("mul", 10.2, 10.4)],
         {UDF: 2, UDF.replace("udf", "f"): 1.5, "add": 8.3, "mul": 0.2}),
        # What ran on the server at the same time counts once.
        ([call(1, 0, 10, served_ms=(1, 9), issued_ns=None)],
         [mine("add", 2, 6), operator("aten::mm", 4, 8, of=SERVED)],
         {UDF: 4, UDF + MM: 4, "add": 4}),
        # A call that a thread makes while it waits for another is inside that.
        ([call(1, 0, 10, kind="rpc_sync", issued_ns=None),
          call(2, 2, 6, kind="rpc_sync", function="f", issued_ns=None)],
         [mine("add", 3, 4)], {SYNC: 6, SYNC.replace("udf", "f"): 3, "add": 1}),
        # Calls beside an asynchronous one are not inside it.
        ([call(1, 0, 10, issued_ns=None), call(2, 2, 6, function="f", issued_ns=None)], [],
         {UDF: 10, UDF.replace("udf", "f"): 4}),
        # An operator leaves out the call that its thread waits for in it.
        ([call(1, 2, 8, kind="rpc_sync", issued_ns=ns(3)), call(2, 9, 30, issued_ns=ns(10))],
         [mine("f", 0, 12)], {"f": 5, SYNC: 6, UDF: 21}),
        # A call that never ended has no row, but its operators do.
        ([LOST], [operator("aten::mm", 2, 3, of=LOST)], {UDF + MM: 1}),
    ],
)  # fmt: skip
def test_what_counts_as_whose_own_time(
    calls: list[Row], operators: list[Row], own: dict[str, float]
) -> None:
    table = recipe_table(trace(calls, operators)).set_index("Name")["Self CPU"] / 1e3
    assert table.to_dict() == own


def test_the_text_has_pytorchs_layout() -> None:
    served = call(1, 0, 1234.5, served_ms=(1, 9))
    table = recipe_table(trace([served], [operator("aten::mm", 2, 2.0125, of=served)]))
    name, rule = UDF + MM, "-" * len(UDF + MM) + "  ------------" * 7
    cells = [
        [f"{each:>{len(name)}}", *(f"{cell:>12}" for cell in rest)]
        for each, *rest in (
            RECIPE_COLUMNS,
            (UDF, "100.00%", "1.234s", "100.00%", "1.234s", "1.234s", "1", "0"),
            (name, "0.00%", "12.500us", "0.00%", "12.500us", "12.500us", "1", "1"),
        )
    ]
    header, *rows = map("  ".join, cells)
    end = [rule, "Self CPU time total: 1.234s"]
    assert format_table(table).splitlines() == [rule, header, rule, *rows, *end]
    limited = format_table(table, row_limit=1).splitlines()
    assert [limited[3].split(), limited[5:]] == [rows[0].split(), end[1:]]
    empty = recipe_table(trace())
    assert tuple(empty.columns) == RECIPE_COLUMNS
    assert format_table(empty).endswith("Self CPU time total: 0.000us")


def test_the_rows_of_all_ranks_are_one_per_name() -> None:
    ran = [operator("aten::mm", 0, rank + 1, rank=rank) for rank in range(3)]
    own = recipe_table(trace([], [*ran, operator("aten::add", 5, 6)]))
    # An operator that no call ran keeps its rank.
    assert sorted(own.loc[own["Name"] == "aten::mm", "Node ID"]) == [0, 1, 2]
    table = of_all_ranks(own)
    assert table.drop(columns=["Self CPU", "Self CPU %", "CPU total %"]).values.tolist() == [
        ["aten::mm", 6_000, 2_000, 3, 3], ["aten::add", 1_000, 1_000, 1, 1],
    ]  # fmt: skip
    assert table["Self CPU %"].sum() == pytest.approx(100)


def test_where_operators_are_left_out_the_table_is_of_the_time_before() -> None:
    """No call of a later time stands there as if it had run no operator."""
    calls = [call(i, 10 * i, 10 * i + 10, served_ms=(10 * i, 10 * i + 9)) for i in range(3)]
    operators = [
        operator("aten::mm", 1, 8, of=calls[0]),
        operator("aten::mm", 11, 18, of=calls[1]),  # it ends later
    ]
    cut = trace(calls, operators, window_ms=(0, 30), operators_until_ns=ns(15))
    table = recipe_table(cut).set_index("Name")
    assert table["# of Calls"].to_dict() == {UDF: 1, UDF + MM: 1}
    assert table["Self CPU"].to_dict() == {UDF: 3000, UDF + MM: 7000}
