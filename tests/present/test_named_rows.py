import math

import pandas as pd
import pytest

from tuner.present.named_rows import Column, named_rows, time_columns

COLUMNS = [Column("calls", ["1", "20"]), Column("wait\n(ms)", ["1.5", ""]), Column("no", ["", ""])]


def test_names_stand_beside_their_numbers_where_there_is_room() -> None:
    assert named_rows("call", ["f", "longer"], COLUMNS, width=19) == [
        "               wait",
        "call    calls  (ms)",
        "───────────────────",
        "f           1   1.5",
        "longer     20      ",
    ]


def test_names_stand_above_their_numbers_where_there_is_none() -> None:
    assert named_rows("call", ["f", "longer"], COLUMNS, width=18) == [
        "call",
        "           wait",
        "    calls  (ms)",
        "───────────────",
        "f",
        "        1   1.5",
        "longer",
        "       20      ",
    ]


def test_the_rule_is_no_wider_than_the_screen() -> None:
    lines = named_rows("call", ["a" * 50, "b"], COLUMNS, width=20)
    assert lines[3] == "─" * 20
    assert "a" * 50 in lines


def test_an_empty_column_is_left_out() -> None:
    assert not [line for line in named_rows("call", ["f", "g"], COLUMNS, width=80) if "no" in line]


@pytest.mark.parametrize(
    ("us", "heading", "cells"),
    [
        ([9999.0, 0.0004, 12.345], "time\n(us)", ["9999", "0", "12.3"]),
        ([10_000.0, 1.0, 999.6], "time\n(ms)", ["10", "0.001", "1"]),
        ([20e6, math.nan, 1e3], "time\n(s)", ["20", "", "0.001"]),
        ([1e12, 1e10, 1e9], "time\n(s)", ["1,000,000", "10,000", "1000"]),
    ],
)
def test_times_of_a_column_share_the_unit_of_the_largest(
    us: list[float], heading: str, cells: list[str]
) -> None:
    assert time_columns(pd.DataFrame({"us": us}), {"us": "time"}) == [Column(heading, cells)]


def test_columns_of_one_table_share_one_unit() -> None:
    table = pd.DataFrame({"short_us": [5.0], "long_us": [50_000.0]})
    assert time_columns(table, {"short_us": "short", "long_us": "long"}) == [
        Column("short\n(ms)", ["0.005"]),
        Column("long\n(ms)", ["50"]),
    ]
