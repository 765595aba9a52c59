import math
from dataclasses import replace

import pandas as pd
import pytest

from tests.present.screen import Screen
from tests.trace.synthetic import Part, call, operator, ranks, simulate, trace
from tuner.analyze import FEW_ROWS
from tuner.present.analysis import MOST_LISTED, Analysis, named_rows, print_analysis, time_columns
from tuner.trace.model.trace import RankFile, Trace

SECTIONS = [
    "Time by call and by operator",
    "Latency of calls",
    "Where the time of a call goes, on average",
    "The critical path: what the driver waited for, and what that waited for in turn",
    "Parallelism of each server: its threads at work",
]

LEFT_OUT = (
    "{} left out: less than 0.5 %, even at the upper end of the interval; --row-limit 0 shows all"
)


def printed(
    found: Trace, *, width: int = 200, terminal: bool = False, row_limit: int | None = 30
) -> list[str]:
    screen = Screen(width=width, terminal=terminal)
    print_analysis(Analysis.of(found), screen.console, row_limit, None)
    return screen.lines


def section(lines: list[str], title: str) -> list[str]:
    """The lines of a section below its title."""
    start = lines.index(title) + 1
    return lines[start : lines.index("", start)]


def served_in_turn() -> Trace:
    """Ten steps of four calls, each 1 ms of an operator, on a server of one thread."""
    made = simulate([Part("operator", 1.0)], threads=1, at_once=4, steps=10)
    return replace(made, steps=10, tracing_overhead=1.25)


def test_a_trace_lasts_as_long_as_what_it_holds() -> None:
    """A call may end after the driver's `shutdown`, which ended the recording."""
    late = [call(n, n, n + 2, served_ms=(n, n + 1)) for n in (0, 1000)]
    found = trace(late, window_ms=(0, 200))
    assert " for 1002 ms; " in printed(found)[0]
    assert Analysis.of(found).to_json()["window_ns"] == (0, 1_002_000_000)


def test_of_several_files_it_is_said_which_is_which_rank() -> None:
    files = [
        RankFile(rank=0, file="runs/b.json", by="calls"),
        RankFile(rank=1, file="runs/a.json", by="order"),
        RankFile(rank=2, file="runs/c.json", by="order"),
    ]
    found = replace(served_in_turn(), rank_files=tuple(files))
    assert printed(found)[1] == (
        "Ranks: 0 is b.json, by the names in their calls; 1 is a.json, 2 is c.json, by the order "
        "of the files' names."
    )
    namesake = [*files, RankFile(rank=3, file="others/b.json", by="order")]
    said = printed(replace(found, rank_files=tuple(namesake)))[1]
    assert said.startswith("Ranks: 0 is runs/b.json, ")
    assert "Ranks:" not in "".join(printed(replace(found, rank_files=tuple(files[:1]))))
    many = [RankFile(rank=rank, file=f"{rank}.json", by="file") for rank in range(64)]
    assert printed(replace(found, rank_files=tuple(many)))[1].endswith(
        "11 is 11.json, 52 more, as the files say."
    )
    assert Analysis.of(found).to_json()["rank_files"] == tuple(files)


@pytest.mark.parametrize(("size", "rows"), [(MOST_LISTED, 2 * MOST_LISTED), (MOST_LISTED + 1, 2)])
def test_of_many_ranks_the_rows_of_a_name_are_one(size: int, rows: int) -> None:
    ran = [
        operator(name, at, at + 2, rank=rank)
        for rank in range(size)
        for at, name in ((0, "aten::mm"), (3, "aten::add"))
    ]
    found = trace([], ran, processes=ranks(size))
    lines = section(printed(found, row_limit=1), SECTIONS[0])
    assert lines[-1] == f"1 of {rows} rows; --row-limit shows more"
    is_merged = rows == 2
    assert lines[-2].endswith("; each row is of all ranks" if is_merged else "; Node ID: rank")
    if is_merged:
        assert lines[-3].split()[0] == "aten::mm"
        assert lines[-3].split()[-2:] == [str(size), str(size)]
    assert len(Analysis.of(found).to_json()["recipe_table"]) == 2 * size


def test_roles_of_which_nothing_is_known_have_no_line() -> None:
    lines = printed(trace([call(n, n, n + 2, body="script") for n in range(20)]))
    assert not any("deadlock" in line or "it may need more" in line for line in lines)
    assert lines[-1] == Analysis.of(trace([call(1, 0, 2, body="script")])).diagnosis.text


def test_the_busiest_servers_come_first_and_others_are_left_out() -> None:
    calls = [call(n, 0, 20, served_ms=(1, 1 + n), server_rank=n) for n in range(1, FEW_ROWS + 3)]
    table = section(printed(trace(calls), row_limit=FEW_ROWS), SECTIONS[4])
    named = [line.split(",")[0] for line in table if line.startswith("rank ") and "%" in line]
    assert named == [f"rank {n}" for n in range(FEW_ROWS + 2, 2, -1)]
    assert f"{FEW_ROWS} of {FEW_ROWS + 2} rows; --row-limit shows more" in table


def test_many_threads_are_cut_to_the_busiest() -> None:
    calls = [call(n, 0, 100, served_ms=(0, n), thread=n) for n in range(1, MOST_LISTED + 4)]
    table = section(printed(trace(calls, window_ms=(0, 100))), SECTIONS[4])
    shares = ", ".join(f"{n} %" for n in range(15, 15 - MOST_LISTED, -1))
    assert table[-1] == f"  time at work by thread: {shares}, 3 more"
    assert table[-2].endswith(", 4 more")


def test_what_is_not_seen_is_no_row_among_the_shares() -> None:
    calls = [call(n, 10 * n, 10 * n + 10, served_ms=(10 * n, 10 * n + 1) if n % 4 == 0 else None)
             for n in range(40)]  # fmt: skip
    found = trace(calls)
    table = section(printed(found), SECTIONS[3])
    rows = [line for line in table if ": udf on worker1 " in line]
    assert [row.split(":")[0] for row in rows] == ["to_client", "served", "unseen"]
    assert rows[-1].split(" worker1 ")[1].split() == ["75", "%"]
    last = Analysis.of(found).to_json()["critical_path"][-1]
    assert (last["part"], last["share"]) == ("unseen", pytest.approx(0.75))
    assert (last["ci_low"], last["ci_high"]) == (None, None)


def test_small_parts_of_the_critical_path_are_left_out() -> None:
    calls = [
        call(n, 10 * n, 10 * n + 9, served_ms=(10 * n + 0.0001, 10 * n + 8.9999)) for n in range(40)
    ]
    table = section(printed(trace(calls)), SECTIONS[3])
    assert not any(line.startswith("to_server: udf ") for line in table)
    assert any(line.endswith(LEFT_OUT.format("")) for line in table)
    every = section(printed(trace(calls), row_limit=None), SECTIONS[3])
    assert any(line.startswith("to_server: udf ") for line in every)
    assert not any("left out" in line for line in every)


def test_tables_have_so_many_rows_at_most_and_say_so() -> None:
    calls = [call(n, n, n + 1, served_ms=(n, n + 0.5), function=f"f{n}") for n in range(9)]
    for title in SECTIONS[:3]:
        table = section(printed(trace(calls), row_limit=4), title)
        assert table[-1] == "4 of 9 rows; --row-limit shows more"
        assert sum("rpc_async#" in line for line in table) == 4
    assert sum("f8" in line for line in printed(trace(calls), row_limit=18)) == 5
    assert not [line for line in printed(trace(calls), row_limit=18) if "--row-limit" in line]


def test_an_empty_trace_has_no_sections() -> None:
    assert printed(trace())[1:] == ["", "No clear limit: the trace holds no calls."]


COLUMNS = [("calls", ["1", "20"]), ("wait\n(ms)", ["1.5", ""]), ("no", ["", ""])]


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
    assert time_columns(pd.DataFrame({"us": us}), {"us": "time"}) == [(heading, cells)]
