import json
import math
import re
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pandas as pd
import pytest

from testing.synthetic import Part, call, ns, operator, ranks, simulate, trace
from tests.present.screen import printed
from tuner.json_text import json_of
from tuner.present.analysis import Analysis
from tuner.present.text_table import Column
from tuner.present.trace_summary import Shown, print_trace
from tuner.present.trace_tables import MOST_LISTED, TABLES, TableName, time_columns
from tuner.trace.model.trace import RankFile, Trace

RECIPE, LATENCY, PARTS, PATH, PARALLELISM = SECTIONS = [
    "Time by call and by operator",
    "Latency of calls",
    "Where the time of a call goes, on average",
    "The critical path: what the driver waited for, and what that waited for in turn",
    "Parallelism of each server: its threads at work",
]

WHOLE = Shown(whole=True, row_limit=30)


def lines_of(found: Trace, shown: Shown = WHOLE, *, width: int = 200, **how: Any) -> list[str]:
    return printed(print_trace, Analysis.of(found), shown, width=width, **how).splitlines()


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
    late = [call(n, n, n + 2, served_ms=(n, n + 1)) for n in (0, 1028)]
    found = trace(late, window_ms=(0, 200))
    assert any(line.endswith(", 1s.") for line in lines_of(found))
    assert Analysis.of(found).to_json()["window_ns"] == (0, 1_030_000_000)


def test_the_table_of_calls_has_their_sites_where_there_is_room() -> None:
    calls = [call(n, n, n + 1, site="main.py:42") for n in range(3)]
    found, shown = trace(calls, window_ms=(0, 9)), Shown(tables=("calls",))
    wide, narrow = (lines_of(found, shown, width=width) for width in (120, 60))
    assert [line.split()[-1] for line in wide if "rpc_async#" in line] == ["main.py:42"]
    assert "main.py:42" not in "".join(narrow)
    assert Analysis.of(found).to_json()["latency"][0]["site"] == "main.py:42"
    unknown = trace([call(1, 0, 1)], window_ms=(0, 9))
    assert Analysis.of(unknown).to_json()["latency"][0]["site"] is None
    assert not any("site" in line for line in lines_of(unknown, shown))


def test_of_several_files_it_is_said_which_is_which_rank() -> None:
    files = [
        RankFile(rank=0, file="runs/b.json", by="calls"),
        RankFile(rank=1, file="runs/a.json", by="order"),
        RankFile(rank=2, file="runs/c.json", by="order"),
    ]
    found = replace(served_in_turn(), rank_files=tuple(files))
    assert (
        "Ranks: 0 is b.json, by the names in their calls; 1 is a.json, 2 is c.json, by the order "
        "of the files' names."
    ) in lines_of(found)
    namesake = [*files, RankFile(rank=3, file="others/b.json", by="order")]
    said = lines_of(replace(found, rank_files=tuple(namesake)))
    assert any(line.startswith("Ranks: 0 is runs/b.json, ") for line in said)
    assert "Ranks:" not in "".join(lines_of(replace(found, rank_files=tuple(files[:1]))))
    many = [RankFile(rank=rank, file=f"{rank}.json", by="file") for rank in range(64)]
    said = lines_of(replace(found, rank_files=tuple(many)))
    assert any(line.endswith("11 is 11.json, 52 more, as the files say.") for line in said)


@pytest.mark.parametrize(("size", "rows"), [(MOST_LISTED, 2 * MOST_LISTED), (MOST_LISTED + 1, 2)])
def test_of_many_ranks_the_rows_of_a_name_are_one(size: int, rows: int) -> None:
    ran = [
        operator(name, at, at + 2, rank=rank)
        for rank in range(size)
        for at, name in ((0, "aten::mm"), (3, "aten::add"))
    ]
    found = trace([], ran, processes=ranks(size))
    lines = section(lines_of(found, Shown(whole=True, row_limit=1)), RECIPE)
    assert lines[-2] == f"1 of {rows} rows; --row-limit 0 shows all"
    assert lines[-1].endswith("; each row is of all ranks" if rows == 2 else "; Node ID: rank")
    assert len(Analysis.of(found).to_json()["recipe_table"]) == 2 * size


def test_roles_of_which_nothing_is_known_have_no_line() -> None:
    lines = lines_of(trace([call(n, n, n + 2, body="script") for n in range(20)]))
    assert not any("deadlock" in line or "it may need more" in line for line in lines)


def test_the_busiest_servers_come_first_and_others_are_left_out() -> None:
    calls = [call(n, 0, 20, served_ms=(1, 1 + n), server_rank=n) for n in range(1, 13)]
    table = section(lines_of(trace(calls), Shown(whole=True, row_limit=10)), PARALLELISM)
    named = [line.split(",")[0] for line in table if line.startswith("rank ") and "%" in line]
    assert named == [f"rank {n}" for n in range(12, 2, -1)]
    brief = lines_of(trace(calls), Shown())
    shown = [line.split()[1] for line in brief if line.startswith("rank ")]
    assert shown == ["12", "11", "10", "9"]
    assert "and 8 more" in brief


def test_one_screen_has_the_answer_first_and_thirty_lines_at_most() -> None:
    calls = [
        call(100 * f + n, 100 * f + n, 100 * f + n + 1, served_ms=(100 * f + n, 100 * f + n + 0.5),
             function=f"function_{f}", server_rank=1 + f)
        for f in range(20) for n in range(20)
    ]  # fmt: skip
    found = replace(trace(calls), losses=tuple(f"Loss {n}: {'word ' * 30}" for n in range(5)))
    files = ["Timeline: trace.timeline.png", "Trace: trace.json, for ui.perfetto.dev"]
    lines = lines_of(found, Shown(), width=80, searches=["rpc-tuner search --space a=1,2"] * 3,
                    files=files)  # fmt: skip
    assert sum(max(1, math.ceil(len(line) / 80)) for line in lines) <= 30
    assert lines[0].startswith(Analysis.of(found).diagnosis.text[:40])
    assert [line for line in lines if line.startswith("Try: ")] == [
        "Try: rpc-tuner search --space a=1,2"
    ]
    assert lines[-2:] == files
    assert sum("function_" in line for line in lines) >= 3


@pytest.mark.parametrize("name", [name for name in TABLES if name != "changes"])
def test_a_table_is_printed_alone_by_its_name(name: TableName) -> None:
    first, *lines = lines_of(served_in_turn(), Shown(tables=(name,)))
    titles = {*SECTIONS, "Time by operator"}
    assert first in titles
    assert not titles.intersection(lines)
    assert any("─" in line for line in lines)


def test_many_threads_are_cut_to_the_busiest() -> None:
    calls = [call(n, 0, 100, served_ms=(0, n), thread=n) for n in range(1, MOST_LISTED + 4)]
    table = section(lines_of(trace(calls, window_ms=(0, 100))), PARALLELISM)
    shares = ", ".join(f"{n} %" for n in range(15, 15 - MOST_LISTED, -1))
    assert table[-1] == f"  time at work by thread: {shares}, 3 more"
    assert table[-2].endswith(", 4 more")


def test_small_parts_of_the_critical_path_are_left_out() -> None:
    calls = [
        call(n, 10 * n, 10 * n + 9, served_ms=(10 * n + 0.0001, 10 * n + 8.9999)) for n in range(40)
    ]
    table = section(lines_of(trace(calls)), PATH)
    assert not any(line.startswith("to_server: udf ") for line in table)
    assert any(line.endswith(" left out: less than 0.5 %") for line in table)
    every = section(lines_of(trace(calls), Shown(whole=True)), PATH)
    assert any(line.startswith("to_server: udf ") for line in every)
    assert not any("left out" in line for line in every)


def test_tables_have_so_many_rows_at_most_and_say_so() -> None:
    calls = [call(n, n, n + 1, served_ms=(n, n + 0.5), function=f"f{n}") for n in range(9)]
    for title in (RECIPE, LATENCY, PARTS):
        table = section(lines_of(trace(calls), Shown(whole=True, row_limit=4)), title)
        assert "4 of 9 rows; --row-limit 0 shows all" in table
        assert sum("rpc_async#" in line for line in table) == 4
    assert not [line for line in lines_of(trace(calls)) if "--row-limit" in line]


def test_an_empty_trace_has_no_tables() -> None:
    assert lines_of(trace())[0] == "No clear limit: the trace holds no calls."
    assert not any("─" in line for line in [*lines_of(trace()), *lines_of(trace(), Shown())])


@pytest.mark.parametrize(
    ("us", "heading", "cells"),
    [
        ([9991.0, 0.0004, 12.345], "time (us)", ["9990", "0", "12.3"]),
        ([10_000.0, 1.0, 999.6], "time (ms)", ["10", "0.001", "1"]),
        ([20e6, math.nan, 1e3], "time (s)", ["20", "", "0.001"]),
        ([1e12, 1e10, 1e9], "time (s)", ["1,000,000", "10,000", "1000"]),
    ],
)
def test_times_of_a_column_share_the_unit_of_the_largest(
    us: list[float], heading: str, cells: list[str]
) -> None:
    assert time_columns(pd.DataFrame({"us": us}), {"us": "time"}) == [Column(heading, cells)]


def given_up(taken: Trace, limit_ms: float, status: str) -> Trace:
    """The trace if its clients had waited for so long, and the server had gone on all the same."""
    calls = taken.calls.copy()
    limit = calls["start_ns"] + ns(limit_ms)
    is_late = calls["end_ns"] > limit
    assert is_late.any()
    calls["end_ns"] = calls["end_ns"].mask(is_late, limit)
    calls["status"] = calls["status"].astype(str).mask(is_late, status).astype("category")
    calls["timeout_s"] = limit_ms / 1e3
    return replace(taken, calls=calls)


def numbers_in(found: Any, name: str = "") -> Iterator[tuple[str, float]]:
    """Each number of a document, with its name."""
    if isinstance(found, dict):
        for key, each in found.items():
            yield from numbers_in(each, key)
    elif isinstance(found, list):
        for each in found:
            yield from numbers_in(each, name)
    elif isinstance(found, int | float):
        yield name, found


@pytest.mark.parametrize("status", ["timed-out", "raised"])
@pytest.mark.parametrize(
    ("part", "threads", "limit_ms"),
    [("sleep", 1, 15), ("sleep", 2, 4.5), ("sleep", 4, 6), ("gil", 4, 12), ("lock", 4, 7)],
)
def test_no_time_is_negative_and_no_share_more_than_all_whatever_fails(
    part: Any, threads: int, limit_ms: float, status: str
) -> None:
    taken = simulate([Part(part, 5)], threads=threads, at_once=8, steps=6)
    found = given_up(taken, limit_ms, status)
    document = json.loads(json_of(Analysis.of(found).to_json()))
    for name, number in numbers_in(document):
        assert number >= 0, name
        if name in ("share", "efficiency", "busy_fraction", "ci_low", "ci_high"):
            assert number <= 1 + 1e-9, name
    text = "\n".join(lines_of(found))
    assert "-" not in {number[0] for number in re.findall(r"(?<![\w-])-?\d[\d.]*", text)}
    assert max(float(each) for each in re.findall(r"([\d.]+) %", text)) <= 100


def test_what_a_fetch_takes_has_a_name() -> None:
    fetches = [
        call(n, 10 * n, 10 * n + 9, served_ms=(10 * n + 1, 10 * n + 8), kind="to_here",
             body="fetch", function="")
        for n in range(20)
    ]  # fmt: skip
    rows = section(lines_of(trace(fetches, window_ms=(0, 200))), PATH)
    assert not [
        line for line in rows if re.match(r"(to_server|served|to_client|unseen): worker", line)
    ]
    assert any("to_here on worker1" in line for line in rows)
